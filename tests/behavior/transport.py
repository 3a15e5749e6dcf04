"""Sends the requests of the tests' clients with aiohttp, whose parser is in C: with httpx's own transport, a short run
takes up to a tenth more CPU time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from io import BytesIO

import aiohttp
import httpx
from yarl import URL

ADDED_BY_AIOHTTP = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""Headers that it would add where a request has none."""


class Transport(httpx.AsyncBaseTransport):
    """Requests go out as they are: nothing is added, normalized, followed or remembered."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._session is None:  # it belongs to the loop that it is made in
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=False),
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=ADDED_BY_AIOHTTP,
                auto_decompress=False,
            )
        seconds = request.extensions.get("timeout", {})
        with _errors():
            response = await self._session.request(
                request.method,
                _target(request),
                headers=request.headers,
                data=_content(request),
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(sock_connect=seconds.get("connect"), sock_read=seconds.get("read")),
            )
        return httpx.Response(response.status, headers=response.raw_headers, stream=_Body(response), request=request)

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()


class _Body(httpx.AsyncByteStream):
    """The body of a response, as it arrives."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _errors():
            async for chunk in self._response.content.iter_any():
                yield chunk

    async def aclose(self) -> None:
        self._response.close()  # the connection is kept if the body has ended


def _target(request: httpx.Request) -> URL:
    """The URL, or with httpx's extension `target` a path that is sent verbatim."""
    target: bytes | None = request.extensions.get("target")
    url = request.url if target is None else f"{request.url.scheme}://{request.url.netloc.decode()}{target.decode()}"
    return URL(str(url), encoded=True)


def _content(request: httpx.Request) -> BytesIO | httpx.AsyncByteStream | httpx.SyncByteStream | None:
    try:
        # It warns of large bytes.
        return BytesIO(request.content) if request.content else None
    except httpx.RequestNotRead:
        request.headers.pop("Transfer-Encoding", None)  # it sets this
        return request.stream


@contextmanager
def _errors() -> Iterator[None]:
    """The errors of aiohttp as those of httpx."""
    try:
        yield
    except aiohttp.ClientConnectorError as error:
        raise httpx.ConnectError(str(error)) from error
    except aiohttp.SocketTimeoutError as error:
        raise httpx.ReadTimeout(str(error)) from error
    except aiohttp.ClientError as error:
        raise httpx.RemoteProtocolError(str(error)) from error
