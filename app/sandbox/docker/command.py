"""The commands in a container: started through `docker exec`, and ended with all their processes."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from contextlib import AbstractAsyncContextManager, suppress
from itertools import chain, repeat
from typing import Protocol

import aiodocker
from aiodocker.execs import Exec
from aiodocker.stream import Stream as ExecStream

from app.errors import SandboxError, SandboxUnavailableError
from app.sandbox.base import ExecRequest, ExecResult, Stream
from app.sandbox.docker.container import Place
from app.sandbox.docker.engine import Engine, Process, refused
from app.sandbox.docker.scripts import COMMAND_SCRIPT, KILL_SCRIPT, Begun, Marks, attached, feeding, run_script
from app.sandbox.host.namespace import order
from app.sandbox.host.process import DRAIN_S, KILLED, until
from app.sandbox.host.watch import in_thread
from app.sandbox.ready import ProcessLostError

_STREAMS: dict[int, Stream] = {1: "stdout", 2: "stderr"}

KILL_TIMEOUT_S = 1.2
"""How long the kill script may take before the whole container is killed; a cancellation has two seconds."""
END_S = 3.0
"""Seconds that a caller waits for a command to end; a responsive Engine takes a tenth of that."""
PAUSES_S = (0.1, 0.5, 2.0)
"""Seconds between attempts to kill a container whose Engine does not answer; the last value repeats."""
SECOND_LOOK_S = 0.3
"""Seconds within which the Engine notices that a command ended; a few milliseconds were measured."""
OWN_PROCESSES = 3
"""Those of a container that is only kept: Docker's init, a shell, and its `sleep`."""
ATTEMPTS = 2
"""Maximum runs of the kill script before the whole container is killed: another script, such as one that writes a
file, may have started in the meantime."""


Admit = Callable[[], AbstractAsyncContextManager[str]]
"""Entered while a command runs; gives the size of the largest file that it may write, as `order` takes it."""


class ContainerCommand:
    """One command in a running container. `running` are the container's commands; this one adds itself while it runs,
    so that ending one spares the others."""

    def __init__(self, engine: Engine, container: str, running: RunningCommands, admit: Admit) -> None:
        self._admit = admit
        self._engine = engine
        self._container = container
        self._running = running
        mark = secrets.token_hex(16)
        self._mark = mark
        self.heard = asyncio.Event()
        """Set when the command has reported its start, or never will."""
        self.waits = True
        """Whether its shell still waits for the command."""
        self._over = False
        self._execution: Exec | None = None
        self._marks = {stream: Marks(mark.encode()) for stream in _STREAMS}

    @property
    def begun(self) -> Begun | None:
        return self._marks[1].begun

    @property
    def _ended(self) -> bool:
        """Whether the script has reported on both streams that the command has ended."""
        return all(marks.exit_code is not None for marks in self._marks.values())

    async def root(self) -> int | None:
        """The number of the script's process on the Engine's host; None before it is started."""
        if self._execution is None:
            return None
        async with self._engine.answering(self._engine.look_s):
            described = await self._execution.inspect()
        return int(described["Pid"]) or None

    async def run(
        self, request: asyncio.Future[ExecRequest], env: Mapping[str, str], *, ending: asyncio.Event
    ) -> ExecResult:
        """Starts a shell, and runs the command in it once that is known, until it ends, times out or `ending` is set.
        It is dead afterward; only if it ended by itself do its background processes continue."""
        argv = ["/bin/sh", "-c", COMMAND_SCRIPT, "palimpsest-command"]
        self._running.add(self)
        try:
            with self._engine.translated():
                async with self._engine.answering():
                    container = self._engine.container(self._container)
                    self._execution = await container.exec(argv, stdin=True, environment=dict(env) or None)
                if ending.is_set():
                    return ExecResult(KILLED, False, 0)
                async with attached(self._engine, self._execution) as stream:
                    attended = await self._attend(stream, request, ending)
                if attended is None:
                    return ExecResult(KILLED, False, 0)
                timed_out, duration_ms = attended
                code = await self._exit_code(self._execution) if not timed_out else None
        except aiodocker.DockerError as exc:
            raise await self._refused(exc, is_needed=request.done()) from exc
        except SandboxUnavailableError:
            if self._execution is not None and not self.heard.is_set():
                await self._running.end(self)  # it may have been started anyway
            raise
        finally:
            self._running.discard(self)
        return ExecResult(code, timed_out, duration_ms)

    async def _refused(self, exc: aiodocker.DockerError, *, is_needed: bool) -> SandboxError:
        """The error if the Engine did not start the command. A container that is full of processes accepts no more
        until they are ended; they are if the command has already been started."""
        if "OCI runtime" not in exc.message or not is_needed:
            return refused(exc)
        await self._engine.kill(self._container)
        return SandboxError(
            f"The sandbox could not start another process ({exc.message.strip()}). Everything in it was ended;"
            " the command can be run again."
        )

    async def _attend(
        self, stream: ExecStream, request: asyncio.Future[ExecRequest], ending: asyncio.Event
    ) -> tuple[bool, int] | None:
        """Whether the command's time ran out, and how long it ran in milliseconds; None without a command. Raises
        `ProcessLostError` if the shell ended while it waited."""
        reading = asyncio.create_task(self._read(stream, request))
        try:
            async with feeding(stream, f"{self._mark}\n".encode()):
                await until(ending, request, reading)
            if reading.done() and request.done():
                raise ProcessLostError("The shell for the command ended before the command began.")
            if request.done() and not ending.is_set():
                return await self._run_in(stream, request.result(), reading, ending)
            return None
        finally:
            await self._end(stream, reading)

    async def _run_in(
        self, stream: ExecStream, request: ExecRequest, reading: asyncio.Task[None], ending: asyncio.Event
    ) -> tuple[bool, int]:
        async with self._admit() as blocks:
            started = time.monotonic()
            self.waits = False
            try:
                async with feeding(stream, order(blocks, request), request.stdin):
                    timed_out = await until(ending, reading, timeout_s=request.timeout_s)
            finally:
                await self._end(stream, reading)
        if not reading.cancelled() and (failure := reading.exception()):
            raise failure
        if not (self._marks[1].has_command or timed_out or ending.is_set()):
            raise ProcessLostError("The shell for the command ended before the command began.")
        return timed_out, round((time.monotonic() - started) * 1000)

    async def _end(self, stream: ExecStream, reading: asyncio.Task[None]) -> None:
        """Ends what still runs, and the reading of its output. Does nothing the second time."""
        if self._over:
            return
        self._over = True
        try:
            if self.waits:
                async with feeding(stream, b"\n"):
                    await asyncio.wait({reading}, timeout=KILL_TIMEOUT_S)
            if not (self._ended or (self.waits and reading.done())):
                await self._running.end(self)
        finally:
            await asyncio.wait({reading}, timeout=DRAIN_S)
            reading.cancel()
            await asyncio.wait({reading})

    async def _read(self, stream: ExecStream, request: asyncio.Future[ExecRequest]) -> None:
        """Passes the output on until the stream ends, or the script has reported the command's end on both."""

        def pass_on(number: int, output: bytes) -> None:
            if output and request.done():
                request.result().on_output(_STREAMS[number], output)

        try:
            while not self._ended:
                message = await stream.read_out()
                if message is None:
                    break
                output = self._marks[message.stream].feed(message.data)
                if self.begun is not None:
                    self.heard.set()
                pass_on(message.stream, output)
        finally:
            self.heard.set()
        for number, marks in self._marks.items():
            pass_on(number, marks.close())

    async def _exit_code(self, execution: Exec) -> int:
        said = self._marks[1].exit_code
        if said is not None:
            return said
        # the script was killed together with the command, or with the whole container
        with suppress(aiodocker.DockerError):
            async with self._engine.answering():
                described = await execution.inspect()
            if described.get("ExitCode") is not None:
                return int(described["ExitCode"])
        shown = await self._engine.find(self._container)
        if shown is None or not shown["State"]["Running"]:
            reason = " because it ran out of memory" if shown and shown["State"].get("OOMKilled") else ""
            raise SandboxError(f"The sandbox's container ended{reason} while the command ran.")
        return 137


class Command(Protocol):
    """A command in the container. `heard` is set when it has reported its start, or never will; one that `waits` is
    only the shell for a command."""

    heard: asyncio.Event
    waits: bool

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

    @property
    def waiting(self) -> list[Command]:
        """Those that wait for a command."""
        return [command for command in self._commands if command.waits]

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
            raise self._engine.away("it does not answer; the command is ended as soon as it does")

    @property
    def is_ending(self) -> bool:
        return self._ending is not None

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


async def end_orphans(engine: Engine, name: str) -> bool:
    """Kills what runs in a container if that is more than its own processes; whether it was. A command that ended with
    its server may have left some behind, which look like those that a user has put into the background."""
    if len(await engine.processes(name)) <= OWN_PROCESSES:
        return False
    await engine.kill(name)
    return True


async def end_left(engine: Engine, name: str) -> bool:
    """Kills what runs in a container if a command is left in it; whether there was one. It looks twice, as the Engine
    may notice a command's end late."""
    left = await engine.executing(name)
    if not left:
        return False
    await asyncio.sleep(SECOND_LOOK_S)
    if left.isdisjoint(await engine.executing(name)):
        return False
    await engine.kill(name)
    return True
