"""A connection to the broker that breaks while the relay sends and receives."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from itertools import count
from typing import Any, NoReturn

from app.cluster.broker import BrokerError, RedisBroker
from app.cluster.relay import BrokerRelay
from app.db.engine import Database
from app.eventlog.bus import Bus
from app.eventlog.polling import LogPoll
from scripts.servers.redis import RedisServer
from tests.cancelling import CancelledAt
from tests.cluster.nodes import until


class BrokenBroker(RedisBroker):
    """Connects, and fails to send; it then fails to receive when that is canceled, as Redis's client sometimes does."""

    def __init__(self) -> None:
        super().__init__("redis://127.0.0.1:1")
        self.breaks = asyncio.Event()
        self.sends = 0

    async def connect(self) -> None:
        self.sends = 0

    async def subscribe(self, channels: Any) -> None:
        pass

    async def receive(self) -> NoReturn:
        try:
            await asyncio.Event().wait()
        finally:
            raise BrokerError("Connection closed by server.")

    async def publish(self, messages: Sequence[tuple[str, bytes]]) -> list[int]:
        self.sends += 1
        await self.breaks.wait()
        raise BrokerError("Connection closed by server.")


async def test_no_error_is_left_over_when_both_directions_break(database: Database) -> None:
    """asyncio would log each as an error, with a traceback, at every outage of the broker."""
    lost: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))
    bus, broker = Bus(), BrokenBroker()
    relay = BrokerRelay(bus, broker, LogPoll(bus, database), namespace="test")
    async with relay.running():
        await until(lambda: broker.sends)
        broker.breaks.set()
        await until(lambda: not relay.is_connected)
    gc.collect()
    assert lost == []


async def test_sending_that_is_canceled_anywhere_ends(redis: RedisServer) -> None:
    """Otherwise, a relay that is busy when its node shuts down would keep it from ending."""
    broker = RedisBroker(redis.url)
    for nth in count(1):
        await broker.connect()
        attempt = CancelledAt(nth, broker.publish([("channel", b"data")]))
        task = asyncio.create_task(attempt)
        await asyncio.wait({task})
        if not attempt.reached:
            break
        assert task.cancelled(), f"it went on at the wait {nth}"
    await broker.aclose()
    assert nth > 1
