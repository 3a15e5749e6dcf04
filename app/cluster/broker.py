"""The broker between nodes: channels with at-most-once delivery, over Redis. `redis` is imported on use."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, Protocol
from urllib.parse import urlsplit

CONNECT_S = 2.0
"""Seconds to connect, and for an answer to a command."""


class BrokerError(Exception):
    """The broker cannot be reached, refuses the connection, or has closed it."""


class Broker(Protocol):
    """One connection at a time. All methods raise `BrokerError` once it has ended; `connect` makes a new one, without
    subscriptions. `publish` and the changes of subscriptions must not run concurrently with themselves."""

    async def connect(self) -> None: ...

    async def publish(self, messages: Sequence[tuple[str, bytes]]) -> list[int]:
        """Sends (channel, data) in order; returns the number of subscribers that each message reached."""

    async def subscribe(self, channels: Collection[str]) -> None:
        """Returns before the subscription is in effect; see `receive`."""

    async def unsubscribe(self, channels: Collection[str]) -> None: ...

    async def receive(self) -> tuple[str, bytes | None]:
        """The next message, as (channel, data); the data is None when a subscription comes into effect."""

    async def aclose(self) -> None:
        """Closes the connection, if there is one. Raises nothing."""


def address_of(url: str) -> str:
    """A broker's address without user and password."""
    parts = urlsplit(url)
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        port = ""
    return f"{parts.hostname or parts.path}{port}"


class RedisBroker:
    """Redis, or a server that speaks its protocol, such as Valkey. A connection for commands and one for subscriptions.

    Redis Cluster is not supported: there, PUBLISH counts only the subscribers of one of its nodes."""

    def __init__(self, url: str) -> None:
        """Raises `BrokerError` for a URL that is no Redis URL, or if the library is missing. Blocks at first, since
        the library is imported."""
        self.address = address_of(url)
        try:
            from redis.asyncio import Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
            from redis.exceptions import RedisError
        except ImportError as error:
            raise BrokerError("Redis needs an extra: pip install 'palimpsest[cluster]'.") from error
        self._errors = (RedisError, OSError, asyncio.TimeoutError)
        try:
            # The relay reconnects, since it has to synchronize afterward.
            self._client: Any = Redis.from_url(
                url,
                retry=Retry(NoBackoff(), 0),
                socket_connect_timeout=CONNECT_S,
                # The library would use `asyncio.wait_for`, which ignores some cancellations before Python 3.12.
                socket_timeout=None,
                socket_keepalive=True,
                health_check_interval=0,
                protocol=2,
                # Otherwise each connection reads the package's metadata from the disk, on the event loop.
                driver_info=None,
            )
        except (ValueError, RedisError) as error:
            raise BrokerError("PALIMPSEST_BROKER must be like redis://:PASSWORD@HOST:6379.") from error
        self._subscription: Any = None

    async def connect(self) -> None:
        await self.aclose()
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._client.ping()
                self._subscription = self._client.pubsub()
                await self._subscription.connect()
        except self._errors as error:
            raise BrokerError(_reason(error)) from error

    async def publish(self, messages: Sequence[tuple[str, bytes]]) -> list[int]:
        try:
            async with asyncio.timeout(CONNECT_S):
                if len(messages) == 1:
                    return [int(await self._client.publish(*messages[0]))]
                async with self._client.pipeline(transaction=False) as pipeline:
                    for channel, data in messages:
                        pipeline.publish(channel, data)
                    return [int(count) for count in await pipeline.execute()]
        except self._errors as error:
            raise BrokerError(_reason(error)) from error

    async def subscribe(self, channels: Collection[str]) -> None:
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._subscription.subscribe(*channels)
        except self._errors as error:
            raise BrokerError(_reason(error)) from error

    async def unsubscribe(self, channels: Collection[str]) -> None:
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._subscription.unsubscribe(*channels)
        except self._errors as error:
            raise BrokerError(_reason(error)) from error

    async def receive(self) -> tuple[str, bytes | None]:
        try:
            while True:
                # Read directly: the library's `get_message` returns at once where nothing is subscribed yet.
                response = await self._subscription.parse_response(block=True)
                kind, channel, data = response[:3]
                if kind == b"message":
                    return channel.decode(), data
                if kind == b"subscribe":
                    return channel.decode(), None
                # The library forgets the channel.
                await self._subscription.handle_message(response)
        except self._errors as error:
            raise BrokerError(_reason(error)) from error

    async def aclose(self) -> None:
        subscription, self._subscription = self._subscription, None
        with suppress(*self._errors):
            if subscription is not None:
                await subscription.aclose()
        with suppress(*self._errors):
            await self._client.connection_pool.disconnect()


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
