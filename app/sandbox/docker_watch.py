"""Watches what a session's processes put on the Engine's disk, which Docker's usual storage does not bound.

The watch runs for as long as anything runs in the container, background processes of earlier commands included. If the
Engine stores its files on this host and this server may read them, a look is cheap and complete. Otherwise a look is a
small script in the container: it is taken less often, and what runs there can deceive it.

A process can exceed the limit by what it writes between two looks. A single file cannot, and neither can a command that
starts in a full workspace; the kernel bounds those.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat

import aiodocker

from app.errors import SandboxError, SandboxUnavailableError
from app.sandbox.base import WORKSPACE
from app.sandbox.docker_ending import RunningCommands, stays
from app.sandbox.docker_place import Here, Place
from app.sandbox.docker_streams import run_script
from app.sandbox.engine import Engine
from app.sandbox.process_tree import descendants
from app.sandbox.usage import ENTRY_BYTES, DiskUse
from app.sandbox.watch import HostDisk, in_thread

HERE_S = 0.25
"""Seconds between looks at a disk of this host."""
LOOKS_S = (1.0, 1.0, 2.0, 4.0, 8.0)
"""Seconds between the first looks through a script: most commands are through before the first."""
LATER_S = 15.0
"""Seconds between all others, and the most between a session's looks while short commands follow one another."""
WRITES = 2**30
"""Bytes that are written in a second at most, roughly: where there is less room, the next look comes sooner."""
COUNT_S = 20.0
"""Seconds that a look or a count may take."""
BLIND_LOOKS = 3
"""After so many looks in a row for which the container had no room, all that runs in it is ended."""
WAITING = 3
"""Processes of a container in which no command runs: docker-init, a shell and its `sleep`."""

# The free blocks, their size and the free places for files.
_FREE_SCRIPT = f"stat -f -c '%a %S %d' {WORKSPACE}"
# KiB, entries, and blocks of files without a name, one file a line. Fails where a directory is closed to it.
_COUNT_SCRIPT = f"""
du -sk {WORKSPACE}; failed=$?
find {WORKSPACE} | wc -l
find /proc/[0-9]*/fd -type l -exec stat -L -c '%h %f %d:%i %b' {{}} + 2>/dev/null | grep '^0 8' | sort -u
exit $failed
"""


class ContainerDisk:
    """What one session has on the Engine's disk: its volume, and what it wrote elsewhere in its container."""

    def __init__(self, engine: Engine, place: Place, limit: int) -> None:
        self.use = DiskUse(limit)
        self._engine = engine
        self._place = place
        self._disk: HostDisk | None = None
        self._looked_at = time.monotonic()

    @property
    def overdue(self) -> bool:
        return time.monotonic() - self._looked_at > (HERE_S if self._place.here else LATER_S)

    async def look(self) -> None:
        """Brings the account up to date. Raises `SandboxError` where nothing can be started in the container."""
        self._looked_at = time.monotonic()
        if here := self._place.here:
            await in_thread(partial(self._host_disk(here).look, here.tree, must_know=True))
            return
        _, output, _ = await self._run(_FREE_SCRIPT)
        with suppress(ValueError):
            blocks, size, places = map(int, output.split())
            self.use.saw(blocks * size + places * ENTRY_BYTES)
        if self.use.doubtful or self.use.used is None:
            await self.count()

    async def count(self) -> None:
        """Counts it all. Raises as `look` does."""
        if here := self._place.here:
            await in_thread(partial(self._host_disk(here).count, here.tree))
            return
        try:
            code, output, _ = await self._run(_COUNT_SCRIPT)
            used = _counted(output) + await self._layer()
        except (TimeoutError, ValueError, IndexError):
            code, used = 1, 0
        self.use.counted(used, whole=code == 0)

    def _host_disk(self, here: Here) -> HostDisk:
        if self._disk is None or self._disk.mounts != here.mounts:
            self._disk = HostDisk(here.roots, self.use, mounts=here.mounts)
        return self._disk

    async def _layer(self) -> int:
        """Bytes of what the container holds besides its image."""
        with suppress(aiodocker.DockerError):
            async with self._engine.answering():
                path = f"containers/{self._place.container}/json"
                shown = await self._engine.docker._query_json(path, params={"size": "1"})
            return int(shown.get("SizeRw") or 0)
        return 0

    async def _run(self, script: str) -> tuple[int, bytes, bytes]:
        async with asyncio.timeout(COUNT_S):
            return await run_script(self._engine, self._place.container, script, ())


def _counted(output: bytes) -> int:
    """Bytes by what the count script says."""
    kilobytes, entries, *unnamed = output.splitlines()
    held = sum(int(line.split()[3]) * 512 for line in unnamed)
    return int(kilobytes.split()[0]) * 1024 + int(entries) * ENTRY_BYTES + held


@dataclass
class Watched:
    """A command that is watched: what ends it, and what it was ended for."""

    ending: asyncio.Event
    broken: str | None = None


class ContainerWatch:
    """Watches one container, from the first command until nothing lives in it."""

    def __init__(self, engine: Engine, place: Place, disk: ContainerDisk, running: RunningCommands) -> None:
        self._engine = engine
        self._place = place
        self._disk = disk
        self._running = running
        self._watched: list[Watched] = []
        self._task: asyncio.Task[None] | None = None
        self._held = 0
        self._untold: str | None = None

    @asynccontextmanager
    async def over(self, ending: asyncio.Event) -> AsyncIterator[Watched]:
        """Watches a command, and sets `ending` where there is too much."""
        watched = Watched(ending)
        self._watched.append(watched)
        self._held = max(self._disk.use.used or 0, self._disk.use.limit)
        if self._task is None:
            self._task = self._engine.in_background(self._watch())
        try:
            yield watched
        finally:
            self._watched.remove(watched)

    async def recount(self) -> None:
        """Brings the account up to date before a command, so that the command is not ended for what others wrote, and
        so that space freed by processes that have ended counts as free."""
        with suppress(SandboxError, TimeoutError):
            await self._place.locate()
            if self._place.here:
                await self._disk.look()
            if self._disk.use.doubtful:
                await self._disk.count()

    async def remark(self) -> str | None:
        """What is to be said of the disk after a command that ended by itself."""
        if self._disk.use.full or self._disk.overdue:
            with suppress(SandboxError, SandboxUnavailableError, TimeoutError):
                await (self._disk.count() if self._disk.use.full else self._disk.look())
        untold, self._untold = self._untold, None
        return untold or (self._disk.use.describe() if self._disk.use.full else None)

    async def _watch(self) -> None:
        blind, pauses = 0, chain(LOOKS_S, repeat(LATER_S))
        try:
            await asyncio.sleep(HERE_S)
            while self._watched or await self._lives() or self._watched:
                try:
                    await self._place.locate()
                    await self._disk.look()
                    blind = 0
                except SandboxUnavailableError:
                    pass  # the Engine is away; the commands themselves will learn of it
                except (SandboxError, TimeoutError, aiodocker.DockerError):
                    blind += 1
                self._judge(blind)
                await asyncio.sleep(HERE_S if self._place.here else self._pause(next(pauses)))
        finally:
            self._task = None

    async def _lives(self) -> bool:
        try:
            await self._place.locate()
            if here := self._place.here:
                return await in_thread(partial(descendants, here.tree)) > WAITING
            processes = await self._engine.processes(self._place.container)
            kept = {process.pid for process in processes[:2]}
            return not all(stays(process.pid, kept, processes) for process in processes)
        except SandboxUnavailableError:
            return True
        except (SandboxError, aiodocker.DockerError):
            return False  # the container does not run

    def _judge(self, blind: int) -> None:
        use = self._disk.use
        if use.full and (use.used or 0) > self._held:
            self._end(use.describe())
        elif blind >= BLIND_LOOKS:
            self._end("it left no room for another process, so that nothing could look after it")

    def _end(self, reason: str) -> None:
        """Ends all that runs: what has written it may be any of it, and a process may hide what it holds."""
        for watched in self._watched:
            watched.broken = f"ended: {reason}"
            watched.ending.set()
        if not self._watched:
            self._untold = f"all that ran in the background was ended: {reason}"
        self._running.end_all()

    def _pause(self, pause: float) -> float:
        room = self._disk.use.limit - (self._disk.use.used or 0)
        return min(pause, max(LOOKS_S[0], room / WRITES))
