"""The broker between servers, if one is set. Its code is imported only then."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from app.db.engine import Database
from app.errors import StorageError
from app.eventlog.bus import Bus
from app.eventlog.polling import LogPoll
from app.runtime.telemetry.health import ComponentCheck
from app.runtime.telemetry.metrics import Metrics
from app.settings import Settings

if TYPE_CHECKING:
    from app.cluster.relay import BrokerRelay


async def open_relay(
    settings: Settings, database: Database, bus: Bus, namespace: str, metrics: Metrics, stack: AsyncExitStack
) -> dict[str, ComponentCheck]:
    """Connects the bus with those of other servers until the stack is closed; returns the check of the broker. A broker
    that is away is waited for in the background. Raises `StorageError` if the setting is invalid."""
    if settings.broker is None:
        return {}
    from app.cluster.broker import BrokerError
    from app.cluster.metrics import add_broker_sources

    try:
        relay = await asyncio.to_thread(_relay, settings.broker.get_secret_value(), database, bus, namespace)
    except BrokerError as error:
        raise StorageError(str(error)) from error
    await stack.enter_async_context(relay.running())
    add_broker_sources(metrics, relay)
    return {"broker": relay.check}


def _relay(url: str, database: Database, bus: Bus, namespace: str) -> BrokerRelay:
    from app.cluster.broker import RedisBroker
    from app.cluster.relay import BrokerRelay

    broker = RedisBroker(url)
    return BrokerRelay(bus, broker, LogPoll(bus, database), namespace=namespace, address=broker.address)
