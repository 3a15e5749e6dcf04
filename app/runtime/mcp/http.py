"""Streamable HTTP to a server: to checked addresses only, without redirects to other origins, and with bounds on what
it sends."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpcore2
import httpx2
from mcp.client.streamable_http import streamable_http_client

from app.runtime.destinations import Destinations, RefusedAddressError
from app.runtime.mcp.bounds import MAX_MESSAGE_BYTES, Received
from app.runtime.mcp.connection import Streams

CONNECT_S = 10.0
WRITE_S = 30.0
SILENCE_S = 3_600.0
"""Seconds that a response may be silent; each call has its own, shorter time."""
MAX_CONNECTIONS = 20
_EVENTS = "text/event-stream"
Trace = Callable[[], str | None]
"""The trace that a request belongs to when it is sent."""


class _Backend(httpcore2.AsyncNetworkBackend):
    """Connects to the address that it has checked. TLS still verifies the name in the URL."""

    def __init__(self, destinations: Destinations, received: Received) -> None:
        self._destinations = destinations
        self._received = received
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        failure: Exception = httpcore2.ConnectError(f"{host} has no address")
        try:
            addresses = await self._destinations.addresses(host)
        except RefusedAddressError as refused:
            self._received.fail(
                "address_refused", f"{refused}: {self._destinations.setting} does not name its network."
            )
            raise httpcore2.ConnectError(str(refused)) from refused
        except (OSError, UnicodeError) as unknown:
            raise httpcore2.ConnectError(f"{host} cannot be resolved") from unknown
        for address in addresses:
            try:
                return _Stream(await self._network.connect_tcp(address, port, timeout, local_address, socket_options))
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)


class _Stream(httpcore2.AsyncNetworkStream):
    """Closes if its TLS handshake is canceled; httpcore2 closes it only after an error, and the pool does not know it
    yet."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        try:
            return await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except asyncio.CancelledError:
            # In a task of its own, since the caller's is canceled.
            await asyncio.shield(self._stream.aclose())
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Body(httpx2.AsyncByteStream):
    """The body of a response within the bounds; of events, each is bounded where they are parsed. One that is `kept`
    open ends only when something is wrong."""

    def __init__(self, stream: httpx2.AsyncByteStream, received: Received, *, events: bool, kept: bool) -> None:
        self._stream = stream
        self._received = received
        self._events = events
        self._kept = kept

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._stream:
            size += len(piece)
            self._received.take(piece, lines=self._events)
            if not self._events:
                self._received.check_size(size)
            yield piece

    async def aclose(self) -> None:
        if self._kept:
            self._received.doubt.set()
        await self._stream.aclose()


class _Transport(httpx2.AsyncHTTPTransport):
    """HTTP/1.1 within the bounds. Its connections are those of a pool that checks addresses."""

    def __init__(self, destinations: Destinations, context: ssl.SSLContext, received: Received, trace: Trace) -> None:
        super().__init__(verify=context, trust_env=False)
        self._trace = trace
        self._received = received
        # The class has no argument for the network; its own pool has not connected to anything.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=context,
            max_connections=MAX_CONNECTIONS,
            network_backend=_Backend(destinations, received),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        # A few compressed bytes can become gigabytes.
        request.headers["Accept-Encoding"] = "identity"
        if (traceparent := self._trace()) is not None:
            request.headers["traceparent"] = traceparent
        response = await super().handle_async_request(request)
        if response.status_code >= 400:
            self._received.status = response.status_code
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise self._received.fail(
                "protocol_error", "The server sent compressed content, which it was not asked for."
            )
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        events = response.headers.get("content-type", "").lower().startswith(_EVENTS)
        kept = events and request.method == "GET"
        response.stream = _Body(response.stream, self._received, events=events, kept=kept)
        return response


@asynccontextmanager
async def http_streams(
    url: str,
    headers: Mapping[str, str],
    destinations: Destinations,
    context: ssl.SSLContext,
    received: Received,
    trace: Trace = lambda: None,
) -> AsyncIterator[Streams]:
    """The messages from and to a server at a URL."""
    timeout = httpx2.Timeout(SILENCE_S, connect=CONNECT_S, write=WRITE_S, pool=CONNECT_S)
    transport = _Transport(destinations, context, received, trace)
    async with (
        httpx2.AsyncClient(transport=transport, headers=dict(headers), timeout=timeout, trust_env=False) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
    ):
        yield streams


_context: ssl.SSLContext | None = None


async def tls_context() -> ssl.SSLContext:
    """What connections verify names with; created once, in a thread, since that takes about 30 ms."""
    global _context
    if _context is None:
        _context = await asyncio.to_thread(httpx2.create_ssl_context)
    return _context
