"""Sends requests to receivers: to checked addresses only, without redirects, with bounds on time and size."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

import httpcore
import httpx

from app.runtime.destinations import Destinations, RefusedAddressError
from app.runtime.webhooks.results import Attempt

CONNECT_S = 5.0
"""Seconds for connecting to one address."""

MAX_RESPONSE_BYTES = 64 * 1024
"""Bytes of a response's body that are read, and ignored: its connection can then be used again."""

MAX_RETRY_AFTER_S = 3600.0
IDLE_CONNECTIONS, IDLE_S = 20, 30.0


class _Network(httpcore.AnyIOBackend):
    """Connects to an address that it has checked, and keeps the stream. TLS still verifies the name in the URL."""

    def __init__(self, destinations: Destinations) -> None:
        self._destinations = destinations
        self.stream: httpcore.AsyncNetworkStream | None = None

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in await self._destinations.addresses(host):
            try:
                self.stream = await super().connect_tcp(address, port, timeout, local_address, socket_options)
                return self.stream
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure


class _Connection(httpcore.AsyncHTTPConnection):
    def __init__(self, origin: httpcore.Origin, context: ssl.SSLContext, destinations: Destinations) -> None:
        self._network = _Network(destinations)
        super().__init__(origin, context, keepalive_expiry=IDLE_S, network_backend=self._network)

    async def aclose(self) -> None:
        # Not httpcore's, which does not know the stream yet if it was cancelled during the TLS handshake.
        if self._network.stream is not None:
            await self._network.stream.aclose()


class Sender:
    """Sends to receivers; keeps a few connections open. `attempt_s` are the seconds that an attempt may take."""

    def __init__(self, destinations: Destinations, context: ssl.SSLContext, attempt_s: float) -> None:
        self._destinations = destinations
        self._context = context
        self._attempt_s = attempt_s
        self._idle: list[_Connection] = []
        """In the order of their last use."""
        self._is_closed = False

    @classmethod
    async def open(cls, destinations: Destinations, attempt_s: float) -> Sender:
        """Reads the certificates, in a thread: that takes about 30 ms."""
        return cls(destinations, await asyncio.to_thread(httpx.create_ssl_context), attempt_s)

    async def send(self, url: str, headers: Mapping[str, str], content: bytes) -> Attempt:
        """One attempt."""
        began = time.monotonic()
        status: int | None = None
        error: str | None = None
        retry_after = 0.0
        try:
            async with asyncio.timeout(self._attempt_s):
                status, retry_after = await self._post(httpx.URL(url), headers, content)
            if not 200 <= status < 300:
                error = f"The receiver answered with status {status}."
        except TimeoutError:
            error = f"The receiver did not answer within {self._attempt_s:g} seconds."
        except RefusedAddressError as refused:
            error = f"{refused}: PALIMPSEST_WEBHOOK_NETWORKS does not name its network."
        except (OSError, UnicodeError):
            error = f"{httpx.URL(url).host} cannot be resolved."
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as failed:
            error = f"{_WHAT.get(type(failed), 'The connection failed')}: {str(failed) or type(failed).__name__}."[:500]
        return Attempt(round((time.monotonic() - began) * 1000), status, error, retry_after)

    async def _post(self, url: httpx.URL, headers: Mapping[str, str], content: bytes) -> tuple[int, float]:
        """The status, and the seconds to wait that the receiver asks for."""
        target = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        # Neither a certificate nor SNI has the dot that a name may end with.
        extensions = {"timeout": {"connect": CONNECT_S}, "sni_hostname": url.raw_host.decode().rstrip(".")}
        named = [(b"Host", url.netloc), *((name.encode(), value.encode()) for name, value in headers.items())]
        named.append((b"Content-Length", str(len(content)).encode()))
        async with (
            self._connection(target.origin) as connection,
            connection.stream("POST", target, headers=named, content=content, extensions=extensions) as response,
        ):
            await _read_some(response)
            waits = next((value for name, value in response.headers if name.lower() == b"retry-after"), b"")
            # The form with a date is rare, and ignored.
            seconds = float(waits) if waits.isdigit() and len(waits) < 10 else 0.0
            return response.status, min(seconds, MAX_RETRY_AFTER_S)

    @asynccontextmanager
    async def _connection(self, origin: httpcore.Origin) -> AsyncIterator[_Connection]:
        """A connection for one request, which is kept if it can take another one.

        httpcore's own pool would leave connections open if a task is cancelled while the pool closes some of them or
        changes the state of one: it shields that from the cancellation of anyio's scopes, but not from asyncio's.
        """
        connection = await self._take(origin)
        try:
            yield connection
        finally:
            if connection.is_available() and not self._is_closed:
                self._idle.append(connection)
                if len(self._idle) > IDLE_CONNECTIONS:
                    await self._idle.pop(0).aclose()
            else:
                await connection.aclose()

    async def _take(self, origin: httpcore.Origin) -> _Connection:
        """The idle connection that was used last, or a new one.

        Closes those that have been idle for too long or that a receiver has ended, one by one: if this is cancelled,
        what it took from the list is closed and the rest still listed.
        """
        while (expired := next((each for each in self._idle if each.has_expired()), None)) is not None:
            self._idle.remove(expired)
            await expired.aclose()
        idle = next((each for each in reversed(self._idle) if each.can_handle_request(origin)), None)
        if idle is None:
            return _Connection(origin, self._context, self._destinations)
        self._idle.remove(idle)
        return idle

    async def aclose(self) -> None:
        self._is_closed = True
        try:
            while self._idle:
                await self._idle.pop().aclose()
        finally:
            self._destinations.close()


async def _read_some(response: httpcore.Response) -> None:
    size = 0
    async for piece in response.aiter_stream():
        size += len(piece)
        if size > MAX_RESPONSE_BYTES:
            return


_WHAT: Mapping[type[Exception], str] = {
    httpcore.ConnectError: "Cannot connect to the receiver",
    httpcore.ConnectTimeout: "Cannot connect to the receiver",
    httpcore.RemoteProtocolError: "The receiver's response is invalid",
}
