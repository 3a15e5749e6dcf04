"""Child processes of the server: output is passed on as it arrives, exit is noticed through a pidfd.

It replaces `asyncio.create_subprocess_exec` for three reasons: that may wait for a pipe that a background process holds
open after the child has ended, it starts the child in the event loop's thread, and uvloop's version has no `user=`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, Any, Generic, Protocol, TypeVar

from app.errors import InvalidRequestError
from app.sandbox.base import ExecRequest, ExecResult, LiveInput, OnOutput, Stream
from app.sandbox.host.kernel import join_new_keyring

T = TypeVar("T")

DRAIN_S = 0.2
"""How long output is still read after a command has ended while another process holds its pipes open."""
READ_BYTES = 64 * 1024
"""Capacity of a pipe on Linux."""
KILLED = 137
"""The exit code of a command that was ended before it started: the same as after SIGKILL."""
MAX_COMMAND_BYTES = 128 * 1024 - 1
"""MAX_ARG_STRLEN of Linux, 32 pages, without the final NUL: the longest single argument of a program."""


@dataclass(frozen=True, slots=True)
class Spawn:
    """A program to start. `env` is its whole environment. `pass_fds` stay open in it. `stdin` is a descriptor, by
    default of nothing."""

    argv: Sequence[str | bytes]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    stdin: int = subprocess.DEVNULL
    pass_fds: Sequence[int] = ()


class Process:
    """A started program. `exited` holds its exit code, 128 + N if signal N ended it."""

    def __init__(self, popen: subprocess.Popen[bytes], pidfd: int) -> None:
        self.pid = popen.pid
        self._popen = popen
        self._pidfd = pidfd
        self._pipes: list[OutputPipe] = []
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = self._loop.create_future()

    @classmethod
    async def start(cls, spawn: Spawn, on_output: OnOutput) -> Process:
        """Starts the program and reading its output. Raises `OSError` if it cannot be started."""
        popen, pidfd = await asyncio.to_thread(_popen, spawn)
        process = cls(popen, pidfd)
        process._loop.add_reader(pidfd, process._on_exit)
        assert popen.stdout is not None
        assert popen.stderr is not None
        process._pipes = [
            OutputPipe("stdout", popen.stdout, on_output, process._loop),
            OutputPipe("stderr", popen.stderr, on_output, process._loop),
        ]
        return process

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        code = self._popen.wait()
        self.exited.set_result(code if code >= 0 else 128 - code)

    def pause(self) -> None:
        """Stops this one process; does nothing if it has ended."""
        if not self.exited.done():
            self._popen.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        if not self.exited.done():
            self._popen.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kills this one process; does nothing if it has ended."""
        if not self.exited.done():
            self._popen.kill()

    async def drain(self, grace_s: float = DRAIN_S) -> None:
        """Waits until all output has been read, at most `grace_s`, and closes the pipes. Raises any error from
        `on_output`."""
        closed = [pipe.closed for pipe in self._pipes]
        await asyncio.wait(closed, timeout=grace_s)
        for pipe in self._pipes:
            pipe.close()
        for failure in [pipe.failure for pipe in self._pipes if pipe.failure is not None]:
            raise failure


class OutputPipe:
    """Passes on the output of one pipe. An error in `on_output` ends the reading, not the event loop's callback.

    It reads and closes the pipe itself: uvloop's `connect_read_pipe` closes the descriptor twice
    (MagicStack/uvloop#763), which may close a descriptor that another thread has opened in between, such as a database
    file.
    """

    def __init__(self, stream: Stream, pipe: IO[bytes], on_output: OnOutput, loop: asyncio.AbstractEventLoop) -> None:
        self._stream = stream
        self._pipe = pipe
        self._on_output = on_output
        self._loop = loop
        self.closed: asyncio.Future[None] = loop.create_future()
        self.failure: Exception | None = None
        os.set_blocking(pipe.fileno(), False)
        loop.add_reader(pipe.fileno(), self._on_readable)

    def _on_readable(self) -> None:
        try:
            data = os.read(self._pipe.fileno(), READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        try:
            self._on_output(self._stream, data)
        except Exception as exc:  # raised again by `drain`
            self.failure = exc
            self.close()

    def close(self) -> None:
        if not self._pipe.closed:
            self._loop.remove_reader(self._pipe.fileno())
            self._pipe.close()
        if not self.closed.done():
            self.closed.set_result(None)


def _popen(spawn: Spawn) -> tuple[subprocess.Popen[bytes], int]:
    join_new_keyring()
    popen = subprocess.Popen(  # noqa: S603 - running what the caller names is what this is for
        spawn.argv,
        stdin=spawn.stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env=spawn.env,
        cwd=spawn.cwd,
        pass_fds=spawn.pass_fds,
        start_new_session=True,
    )
    return popen, _pidfd(popen)


def _pidfd(popen: subprocess.Popen[bytes]) -> int:
    try:
        return os.pidfd_open(popen.pid)
    except OSError:  # out of descriptors: a process that cannot be watched must not run
        popen.kill()
        popen.wait()
        raise


def memory_file(data: bytes) -> int:
    """An input that never blocks and needs no feeding: an anonymous file, open for reading only.

    It is reopened for that: the first descriptor is writable.
    """
    writable = os.memfd_create("palimpsest", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(writable), "wb") as file:
            file.write(data)
        return os.open(f"/proc/self/fd/{writable}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(writable)


@asynccontextmanager
async def fed(descriptor: int, source: LiveInput) -> AsyncIterator[None]:
    """Writes to a pipe what a command is sent, while entered."""
    feeding = asyncio.create_task(feed(descriptor, source))
    try:
        yield
    finally:
        feeding.cancel()
        await asyncio.wait({feeding})


async def feed(descriptor: int, source: LiveInput) -> None:
    """Writes to a pipe what a command is sent, until its end, until it is cancelled or nobody reads."""
    os.set_blocking(descriptor, False)
    with suppress(BrokenPipeError):  # it reads no more; that it ends is noticed elsewhere
        while (piece := await source.next()) is not None:
            await write_all(descriptor, piece)
    # Whoever opened the descriptor closes it, so only the pipe behind it is closed here.
    nothing = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)


async def write_all(descriptor: int, data: bytes) -> None:
    """Writes to a pipe that does not block, and waits while it is full. Raises `BrokenPipeError` if nobody reads."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            await _writable(descriptor)


async def _writable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    found = asyncio.Event()
    loop.add_writer(descriptor, found.set)
    try:
        await found.wait()
    finally:
        loop.remove_writer(descriptor)


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """Awaits `work` to its end even if the caller is cancelled; the cancellation is raised afterward."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as exc:
            if not task.done():
                cancelled = exc
        except Exception:  # noqa: S110 - read from the task below
            pass
    if cancelled is not None:
        with suppress(Exception, asyncio.CancelledError):
            task.result()
        raise cancelled
    return task.result()


@dataclass(frozen=True, slots=True)
class Running(Generic[T]):
    """What `Commands` runs. `end` makes it end what it started."""

    task: asyncio.Task[T]
    ending: asyncio.Event

    def end(self) -> None:
        self.ending.set()


class Commands:
    """The commands that run in one session's sandbox, so that stopping it ends them all."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[Any], asyncio.Event] = {}

    async def run(self, work: Callable[[asyncio.Event], Coroutine[Any, Any, T]]) -> T:
        """Runs `work(ending)` in its own task; see `result`."""
        return await self.result(self.begin(work))

    def begin(self, work: Callable[[asyncio.Event], Coroutine[Any, Any, T]]) -> Running[T]:
        """Starts `work(ending)` in its own task, so that a cancellation never interrupts a cleanup."""
        ending = asyncio.Event()
        task = asyncio.create_task(work(ending))
        self._running[task] = ending
        task.add_done_callback(self._end)
        return Running(task, ending)

    def _end(self, task: asyncio.Task[Any]) -> None:
        del self._running[task]
        if not task.cancelled():
            task.exception()  # nobody may wait for it

    async def result(self, running: Running[T]) -> T:
        """What the work returns or raises. A cancellation of the caller ends the work, which ends what it started and
        returns; then the cancellation is raised."""
        try:
            return await asyncio.shield(running.task)
        except asyncio.CancelledError:
            running.end()
            await finish(_settled({running.task}))
            raise

    async def end_all(self) -> None:
        """Ends every command and waits until each has been cleaned up."""
        for ending in self._running.values():
            ending.set()
        await _settled(set(self._running))


async def _settled(tasks: set[asyncio.Task[Any]]) -> None:
    if tasks:
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()


async def until(ending: asyncio.Event, *done: asyncio.Future[Any], timeout_s: float | None = None) -> bool:
    """Waits until one of `done` is, at most `timeout_s` seconds or until `ending` is set; returns whether the time ran
    out."""
    stop = asyncio.ensure_future(ending.wait())
    try:
        finished, _ = await asyncio.wait({*done, stop}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.cancel()
    return not finished


class Supervisor(Protocol):
    """Hooks of a kind of sandbox around a program started by `run`."""

    async def started(self, process: Process) -> None:
        """Called once, right after the start."""
        ...

    async def go(self, request: ExecRequest) -> None:
        """Called once, when the command is known: lets it begin."""
        ...

    async def ended(self, process: Process) -> None:
        """Called once, when the program has ended or must end now: kills it with everything that must not outlive it,
        and returns when all of that is dead."""
        ...


async def run(
    spawn: Spawn, supervisor: Supervisor, *, request: asyncio.Future[ExecRequest], ending: asyncio.Event
) -> ExecResult:
    """Runs a program until it ends, its time is over or `ending` is set. It may be started before the command is known;
    its time begins then. An error in `on_output` ends it and is raised. Belongs in `Commands.run`."""
    if ending.is_set():
        return ExecResult(KILLED, False, 0)
    output: list[tuple[Stream, bytes]] = []  # a program that cannot start may say so before the command is known

    def pass_on(stream: Stream, data: bytes) -> None:
        output.append((stream, data))
        if request.done():
            flush()

    def flush() -> None:
        try:
            while output:
                request.result().on_output(*output.pop(0))
        except Exception:
            ending.set()
            raise

    process = await Process.start(spawn, pass_on)
    timed_out, began = False, time.monotonic()
    try:
        await supervisor.started(process)
        await until(ending, request, process.exited)
        if request.done() and not (ending.is_set() or process.exited.done()):
            began = time.monotonic()
            await supervisor.go(request.result())
            timed_out = await until(ending, process.exited, timeout_s=request.result().timeout_s)
    finally:
        await supervisor.ended(process)
        await process.drain()
        if request.done():
            flush()
    code = None if timed_out else await process.exited
    return ExecResult(code, timed_out, round((time.monotonic() - began) * 1000))


def check_command(command: str) -> bytes:
    """The command as the bytes of one argument. Raises `InvalidRequestError` if it cannot be one."""
    data = command.encode("utf-8", "replace")
    if b"\0" in data:
        raise InvalidRequestError("The command contains a NUL character.", code="invalid_command")
    if len(data) > MAX_COMMAND_BYTES:
        detail = f"The command is longer than {MAX_COMMAND_BYTES} bytes; write it to a file and run that."
        raise InvalidRequestError(detail, code="invalid_command")
    return data
