"""Whether a provider can be reached: the result of its newest call, and a test connection."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from app.llm.transport import proxy_url

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

    async def look(self) -> Condition:
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
