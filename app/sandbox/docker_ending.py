"""The commands that run in one container, and how they are ended.

The processes of a command are those that started after it and descend neither from an older process nor from another
command, even if they detached. A script in the container kills them. The script looks like such a process
itself, so two scripts at once would kill each other: commands that end together, as in a cancellation, share one.

A process in the container can deceive the script or stop it. So the Engine's own process list decides whether the
commands are dead; if they are not, the whole container is killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence, Set
from contextlib import suppress
from itertools import chain, repeat
from typing import Protocol

import aiodocker

from app.errors import SandboxError, SandboxUnavailableError
from app.sandbox.docker_place import Place
from app.sandbox.docker_scripts import KILL_SCRIPT, Begun
from app.sandbox.docker_streams import run_script
from app.sandbox.engine import Engine, Process
from app.sandbox.watch import in_thread

KILL_TIMEOUT_S = 1.2
"""How long the kill script may take before the whole container is killed; a cancellation has two seconds."""

END_S = 3.0
"""Seconds that a caller waits for a command to end; a responsive Engine takes a tenth of that."""
PAUSES_S = (0.1, 0.5, 2.0)
"""Seconds between attempts to kill a container whose Engine does not answer; the last value repeats."""
ATTEMPTS = 2
"""Maximum runs of the kill script before the whole container is killed: another script, such as one that writes a
file, may have started meanwhile."""


class Command(Protocol):
    """A command in the container. `heard` is set when it has reported its start, or never will."""

    heard: asyncio.Event

    @property
    def begun(self) -> Begun | None: ...

    async def root(self) -> int | None:
        """The number of its first process on the Engine's host; None before it is started."""
        ...


class RunningCommands:
    """The commands of one container, that are running."""

    def __init__(self, engine: Engine, place: Place) -> None:
        self._engine = engine
        self._place = place
        self._commands: set[Command] = set()
        self._doomed: set[Command] = set()
        self._all_doomed = False
        self._ending: asyncio.Task[None] | None = None

    def add(self, command: Command) -> None:
        self._commands.add(command)

    def discard(self, command: Command) -> None:
        self._commands.discard(command)

    async def ended(self) -> None:
        """Waits until nothing is being ended: a command started meanwhile could be mistaken for part of it."""
        if self._ending is not None:
            await asyncio.wait({self._ending})

    async def end(self, command: Command) -> None:
        """Ends all processes of a command, or of the whole container if they cannot be ended individually. Raises
        `SandboxAwayError` if the Engine does not answer in time; they are ended as soon as it does."""
        self._doomed.add(command)
        # Other callers may wait for the same task.
        ended, _ = await asyncio.wait({self._begin_to_end()}, timeout=END_S)
        if not ended:
            raise self._engine.away("it does not answer, so the command is ended only when it does")

    def end_all(self) -> None:
        """Ends all that runs in the container; `ended` returns when it is dead."""
        self._all_doomed = True
        self._begin_to_end()

    def _begin_to_end(self) -> asyncio.Task[None]:
        if self._ending is None:
            self._ending = self._engine.in_background(self._end_doomed())
        return self._ending

    async def _end_doomed(self) -> None:
        try:
            while self._doomed or self._all_doomed:
                doomed, of_all, self._all_doomed = frozenset(self._doomed), self._all_doomed, False
                await (self._kill() if of_all else self._end(doomed))
                self._doomed -= doomed
        finally:
            self._ending = None

    async def _end(self, doomed: Set[Command]) -> None:
        with suppress(SandboxError, SandboxUnavailableError, aiodocker.DockerError, TimeoutError):
            async with asyncio.timeout(KILL_TIMEOUT_S):
                if await self._end_processes(doomed):
                    return
        await self._kill()

    async def _kill(self) -> None:
        """Kills the container, through the Engine if it answers."""
        with suppress(aiodocker.DockerError):
            for pause in chain(PAUSES_S, repeat(PAUSES_S[-1])):
                with suppress(SandboxUnavailableError, TimeoutError):
                    async with asyncio.timeout(KILL_TIMEOUT_S):
                        return await self._engine.kill(self._place.container)
                # A process that was stopped while the Engine started it blocks the Engine forever.
                if here := self._place.here:
                    await in_thread(here.kill)
                await asyncio.sleep(pause)

    async def _end_processes(self, doomed: Set[Command]) -> bool:
        """Whether all processes of the commands are dead now."""
        for command in doomed:
            await command.heard.wait()
        roots = [await command.root() for command in doomed]
        others = [await command.root() for command in self._commands - doomed]
        kept = older(await self._engine.processes(self._place.container), roots)
        if kept is None:
            return False
        kept |= {root for root in others if root is not None}
        for _ in range(ATTEMPTS):
            await self._kill_processes(doomed)
            processes = await self._engine.processes(self._place.container)
            if all(stays(process.pid, kept, processes) for process in processes):
                return True
        return False

    async def _kill_processes(self, doomed: Set[Command]) -> None:
        begun = [command.begun for command in doomed if command.begun is not None]
        spared = [str(other.begun.pid) for other in self._commands - doomed if other.begun is not None]
        arguments = [str(min((each.ticks for each in begun), default=0)), *spared]
        await run_script(self._engine, self._place.container, KILL_SCRIPT, arguments)


def older(processes: Sequence[Process], roots: Collection[int | None]) -> set[int] | None:
    """The processes of a container that are older than all of `roots`; None if one of those is gone, since it is then
    unknown which are younger.

    `processes` are sorted by age, to a clock tick; within a tick, by number.
    """
    pids = [process.pid for process in processes]
    places = [pids.index(root) for root in roots if root in pids]
    if not places or len(places) < len(roots):
        return None
    return {pid for pid in pids[: min(places)] if pid < pids[min(places)]}


def stays(pid: int, kept: Set[int], processes: Sequence[Process]) -> bool:
    """Whether a process is in `kept` or descends from one that is. Descending from a container's first process means
    nothing: it adopts orphans."""
    first, parents = processes[0].pid, {process.pid: process.parent for process in processes}
    while pid not in kept:
        pid = parents.get(pid, first)
        if pid == first:
            return False
    return True
