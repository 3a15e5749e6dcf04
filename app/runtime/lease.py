"""A session's hold on its sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog

from app.errors import SandboxAwayError
from app.sandbox.base import Sandbox

AWAY_RETRY_S = 1.0
"""Seconds between retries while the sandbox engine does not answer."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Lease:
    """A session's hold on its sandbox: while it lasts, the sandbox is not stopped as idle."""

    sandbox: Sandbox
    release: Callable[[], None] = field(repr=False)
    admit: Callable[[float], Awaitable[None]] = field(repr=False)
    """Waits at most this many seconds until the sandbox may run."""
    wait_s: float

    async def start(self) -> Sandbox:
        """The started sandbox. Waits at most `wait_s` seconds for a free slot and for the sandbox engine; then raises
        `SandboxUnavailableError`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.wait_s
        await self.admit(self.wait_s)
        while True:
            try:
                await self.sandbox.start()
            except SandboxAwayError as error:
                if loop.time() >= deadline:
                    raise
                log.warning("sandbox_waiting", error=error.detail)
                await asyncio.sleep(AWAY_RETRY_S)
            else:
                return self.sandbox
