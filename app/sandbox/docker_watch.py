"""Watches what a session's commands put on the Engine's disk, which Docker's usual storage does not bound.

A look is a small script in the container, so it is taken seldom: a command gets beyond the limit by what it writes
between two looks. One file alone cannot, and neither can a command that begins when there is too much already; those
are bounded by the kernel.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import chain, repeat

import aiodocker

from app.errors import SandboxError, SandboxUnavailableError
from app.sandbox.base import WORKSPACE
from app.sandbox.docker_streams import run_script
from app.sandbox.engine import Engine
from app.sandbox.usage import ENTRY_BYTES, DiskUse

LOOKS_S = (1.0, 1.0, 2.0, 4.0, 8.0)
"""Seconds between a command's first looks: most are through before the first."""
LATER_S = 15.0
"""Seconds between all others, and the most between a session's looks while short commands follow one another."""
COUNT_S = 20.0
"""Seconds that a look or a count may take."""
BLIND_LOOKS = 3
"""After so many looks in a row for which the container had no room, a command is ended."""

# The free blocks, their size and the free places for files.
_FREE_SCRIPT = f"stat -f -c '%a %S %d' {WORKSPACE}"
# KiB and entries. Fails where a directory is closed to it.
_COUNT_SCRIPT = f"du -sk {WORKSPACE}; failed=$?; find {WORKSPACE} | wc -l; exit $failed"


class ContainerDisk:
    """What one session has on the Engine's disk: its volume, and what it wrote elsewhere in its container."""

    def __init__(self, engine: Engine, container: str, limit: int) -> None:
        self.use = DiskUse(limit)
        self._engine = engine
        self._container = container
        self._looked_at = time.monotonic()

    @property
    def overdue(self) -> bool:
        return time.monotonic() - self._looked_at > LATER_S

    async def look(self) -> None:
        """Brings the account up to date. Raises `SandboxError` where nothing can be started in the container."""
        self._looked_at = time.monotonic()
        _, output, _ = await self._run(_FREE_SCRIPT)
        with suppress(ValueError):
            blocks, size, places = map(int, output.split())
            self.use.saw(blocks * size + places * ENTRY_BYTES)
        if self.use.doubtful or self.use.used is None:
            await self.count()

    async def count(self) -> None:
        """Counts it all. Raises as `look` does."""
        try:
            code, output, _ = await self._run(_COUNT_SCRIPT)
            kilobytes, _, entries = output.split()
            used = int(kilobytes) * 1024 + int(entries) * ENTRY_BYTES + await self._layer()
        except (TimeoutError, ValueError):
            code, used = 1, 0
        self.use.counted(used, whole=code == 0)

    async def _layer(self) -> int:
        """Bytes of what the container holds besides its image."""
        with suppress(aiodocker.DockerError):
            async with self._engine.answering():
                path = f"containers/{self._container}/json"
                shown = await self._engine.docker._query_json(path, params={"size": "1"})
            return int(shown.get("SizeRw") or 0)
        return 0

    async def _run(self, script: str) -> tuple[int, bytes, bytes]:
        async with asyncio.timeout(COUNT_S):
            return await run_script(self._engine, self._container, script, ())


class ContainerWatch:
    """Watches one command; `broken` says what it did where it was ended for it."""

    def __init__(self, disk: ContainerDisk) -> None:
        self._disk = disk
        self._held = max(disk.use.used or 0, disk.use.limit)
        self.broken: str | None = None

    @asynccontextmanager
    async def over(self, ending: asyncio.Event) -> AsyncIterator[None]:
        """Watches meanwhile, and sets `ending` where there is too much."""
        watching = asyncio.create_task(self._watch(ending))
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait({watching})

    async def remark(self) -> str | None:
        """What is to be said of the disk after a command that ended by itself."""
        if self._disk.use.full or self._disk.overdue:
            with suppress(SandboxError, SandboxUnavailableError, TimeoutError):
                await (self._disk.count() if self._disk.use.full else self._disk.look())
        return self._disk.use.describe() if self._disk.use.full else None

    async def _watch(self, ending: asyncio.Event) -> None:
        blind = 0
        for pause in chain(LOOKS_S, repeat(LATER_S)):
            await asyncio.sleep(pause)
            try:
                await self._disk.look()
                blind = 0
            except SandboxUnavailableError:
                continue  # the Engine is away; the command itself will learn of it
            except (SandboxError, TimeoutError):
                blind += 1
            use = self._disk.use
            if use.full and (use.used or 0) > self._held:
                self.broken = f"ended: {use.describe()}"
            elif blind >= BLIND_LOOKS:
                self.broken = "ended: it left no room for another process, so that nothing could look after it"
            if self.broken is not None:
                ending.set()
                return
