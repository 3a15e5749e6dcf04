"""Watches what a session's processes write to the Engine's disk, which Docker's usual storage does not limit.

The watch runs as long as anything runs in the container, background processes of earlier commands included. If the
Engine stores its files on this host and this server may read them, a check is cheap and complete. Otherwise a check is
a small script in the container: it runs less often, and processes there can deceive it.

Processes can exceed the limit by what they write between two checks. A single file cannot, and neither can a command
that starts in a full workspace; the kernel limits those.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from math import inf

import aiodocker

from app.errors import SandboxError, SandboxUnavailableError
from app.sandbox.base import WORKSPACE
from app.sandbox.docker.command import RunningCommands, stays
from app.sandbox.docker.container import Here, Place
from app.sandbox.docker.engine import Engine
from app.sandbox.docker.scripts import run_script
from app.sandbox.host.disk import ENTRY_BYTES, DiskUse
from app.sandbox.host.process_tree import descendants
from app.sandbox.host.watch import HostDisk, in_thread

HERE_S = 0.25
"""Seconds between checks of a disk on this host."""
LOOKS_S = (1.0, 1.0, 2.0, 4.0, 8.0)
"""Seconds between the first script checks: most commands end before the first."""
LATER_S = 15.0
"""Seconds between later checks, and the maximum between a session's checks during a series of short commands."""
WRITES = 2**30
"""Approximate maximum bytes written per second: with less room than that, the next check comes sooner."""
COUNT_S = 20.0
"""Timeout of a check or a count, in seconds."""
BLIND_LOOKS = 3
"""Consecutive checks that failed for lack of a free process before everything in the container is ended."""
WAITING = 3
"""Processes of a container in which no command runs: docker-init, a shell and its `sleep`."""

# Free blocks, block size and free inodes.
_FREE_SCRIPT = f"stat -f -c '%a %S %d' {WORKSPACE}"
# KiB, entries, and blocks of unlinked files, one file a line. Fails if it may not read a directory.
_COUNT_SCRIPT = f"""
du -sk {WORKSPACE}; failed=$?
find {WORKSPACE} | wc -l
find /proc/[0-9]*/fd -type l -exec stat -L -c '%h %f %d:%i %b' {{}} + 2>/dev/null | grep '^0 8' | sort -u
exit $failed
"""


class ContainerDisk:
    """One session's use of the Engine's disk: its volume and its container's writable layer."""

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
        """Updates the disk use. Raises `SandboxError` if nothing can be started in the container."""
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
        """Counts everything. Raises what `look` raises."""
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
        """Bytes of the container's writable layer."""
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
    """Bytes from the output of the count script."""
    kilobytes, entries, *unnamed = output.splitlines()
    held = sum(int(line.split()[3]) * 512 for line in unnamed)
    return int(kilobytes.split()[0]) * 1024 + int(entries) * ENTRY_BYTES + held


@dataclass
class Watched:
    """A watched command: the event that ends it, and why it was ended."""

    ending: asyncio.Event
    broken: str | None = None


class ContainerWatch:
    """Watches one container, from the first command until no process is left in it."""

    def __init__(self, engine: Engine, place: Place, disk: ContainerDisk, running: RunningCommands) -> None:
        self._engine = engine
        self._place = place
        self._disk = disk
        self._running = running
        self._watched: list[Watched] = []
        self._task: asyncio.Task[None] | None = None
        self._held: float = 0
        """Bytes that nothing is ended for: those of the limit, or what the newest command found."""
        self._unreported: str | None = None

    @asynccontextmanager
    async def over(self, watched: Watched) -> AsyncIterator[None]:
        """Watches a command, which is ended if the limit is exceeded."""
        self._watched.append(watched)
        self._held = max(self._disk.use.used or 0, self._disk.use.limit)
        if self._task is None:
            self._task = self._engine.in_background(self._watch())
        try:
            yield
        finally:
            self._watched.remove(watched)

    async def recount(self) -> None:
        """Updates the disk use before a command, so that the command is not ended for earlier writes, and space freed
        by processes that have ended counts as free."""
        with suppress(SandboxError, TimeoutError):
            await self._place.locate()
            if self._place.here:
                await self._disk.look()
            if self._disk.use.doubtful:
                await self._disk.count()

    async def remark(self) -> str | None:
        """The remark on disk use after a command that ended by itself."""
        if self._disk.use.full or self._disk.overdue:
            with suppress(SandboxError, SandboxUnavailableError, TimeoutError):
                await (self._disk.count() if self._disk.use.full else self._disk.look())
        unreported, self._unreported = self._unreported, None
        return unreported or (self._disk.use.describe() if self._disk.use.full else None)

    async def _watch(self) -> None:
        blind, pauses = 0, chain(LOOKS_S, repeat(LATER_S))
        try:
            await asyncio.sleep(HERE_S)
            while await self._is_needed():
                try:
                    await self._place.locate()
                    await self._disk.look()
                    blind = 0
                except SandboxUnavailableError:
                    pass  # the Engine is away; the commands report it themselves
                except (SandboxError, TimeoutError, aiodocker.DockerError):
                    blind += 1
                if reason := self._excess(blind):
                    self._end(reason)
                    blind = 0
                await asyncio.sleep(HERE_S if self._place.here else self._pause(next(pauses)))
        finally:
            self._task = None

    async def _is_needed(self) -> bool:
        was_ending = self._running.is_ending
        if self._watched:
            return True
        lives = await self._lives()
        if lives and not was_ending and not self._watched and self._held == inf:
            self._held = self._disk.use.limit  # what survived its end is ended again
        return lives or bool(self._watched)

    async def _lives(self) -> bool:
        try:
            await self._place.locate()
            if here := self._place.here:
                return await in_thread(partial(descendants, here.tree)) > WAITING + len(self._running.waiting)
            processes = await self._engine.processes(self._place.container)
            waiting = [await command.root() for command in self._running.waiting]
            kept = {process.pid for process in processes[:2]} | {root for root in waiting if root is not None}
            return not all(stays(process.pid, kept, processes) for process in processes)
        except SandboxUnavailableError:
            return True
        except (SandboxError, aiodocker.DockerError):
            return False  # the container does not run

    def _excess(self, blind: int) -> str | None:
        """Why everything has to be ended, if it has to."""
        use = self._disk.use
        if use.full and (use.used or 0) > self._held:
            return use.describe()
        if blind >= BLIND_LOOKS:
            return "its processes reached their limit, so its disk usage could not be checked"
        return None

    def _end(self, reason: str) -> None:
        """Ends everything: any process may have written the data, and one may hide the files it holds."""
        for watched in self._watched:
            watched.broken = f"ended: {reason}"
            watched.ending.set()
        if not self._watched:
            self._unreported = f"all that ran in the background was ended: {reason}"
        # Nothing writes until the next command, whose shell another end would kill before the command begins.
        self._held = inf
        self._running.end_all()

    def _pause(self, pause: float) -> float:
        room = self._disk.use.limit - (self._disk.use.used or 0)
        return min(pause, max(LOOKS_S[0], room / WRITES))
