"""Whether a provider can be reached: the transport to it, what its newest call met with, and a connection that is
opened to check."""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import dataclass
from functools import cache
from typing import Literal
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

CONNECT_S = 2.0
"""How long a provider may take to accept a connection, in seconds."""
RECENT_S = 60.0
"""How long a failed call counts, in seconds; an active run calls again sooner."""
USED_S = 600.0
"""How long after its last call a provider counts as used, in seconds."""
UNREACHABLE = "provider_unreachable"
State = Literal["ok", "unreachable", "failing"]


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition of a provider with a description, which contains no address."""

    state: State
    detail: str


class Reach:
    """Tracks the reachability of one provider."""

    def __init__(self, name: str, base_url: str) -> None:
        self._name = name
        self._base_url = base_url
        self._called_at: float | None = None
        self._failed_at = 0.0
        self._code: str | None = None

    @property
    def is_used(self) -> bool:
        return self._called_at is not None and time.monotonic() - self._called_at < USED_S

    def called(self) -> None:
        self._called_at = time.monotonic()

    def answered(self) -> None:
        self._code = None

    def failed(self, code: str) -> None:
        """Records a call that failed because of the provider or the network; `code` is the error's."""
        self._failed_at, self._code = time.monotonic(), code

    async def check(self) -> Condition:
        """The current condition: the result of a recent call, or a test connection if that call could not connect."""
        if self._code not in (None, UNREACHABLE) and time.monotonic() - self._failed_at < RECENT_S:
            return Condition("failing", f"{self._name} answered the newest call with {self._code}")
        if await _accepts(self._base_url):
            return Condition("ok", f"{self._name} accepts connections")
        return Condition("unreachable", f"{self._name} cannot be reached")


async def _accepts(base_url: str) -> bool:
    """Whether a connection can be opened. Behind a proxy it is assumed, since only the proxy would be tested."""
    if proxy_url(base_url) is not None:
        return True
    parts = urlsplit(base_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


@cache
def _ssl_context() -> ssl.SSLContext:
    """Shared by all providers that use TLS: loading the certificates takes about 30 ms."""
    return httpx.create_ssl_context()


def make_transport(base_url: str) -> AiohttpTransport:
    """aiohttp's parser behind httpx's interface: measured at 0.56 of the default transport's CPU time per delta.

    No limit on connections, since a streaming session holds one for minutes, and no cookies. The environment's proxy is
    looked up once; aiohttp's own lookup would also send credentials from a netrc file.
    """
    proxy = proxy_url(base_url)
    uses_tls = "https" in (urlsplit(base_url).scheme, urlsplit(proxy or "").scheme)
    certificates = _ssl_context() if uses_tls else False

    def session() -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60, ssl=transport.ssl_context)
        return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())

    transport = AiohttpTransport(verify=certificates, client=session, proxy=httpx.Proxy(proxy) if proxy else None)
    return transport


def proxy_url(base_url: str) -> str | None:
    """The proxy that the environment names for this URL, None for a direct connection."""
    parts = urlsplit(base_url)
    if not parts.hostname or proxy_bypass(parts.hostname):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")
