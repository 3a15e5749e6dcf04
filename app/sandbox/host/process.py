"""Child processes of the server: output is passed on as it arrives, exit is noticed through a pidfd.

It replaces `asyncio.create_subprocess_exec` for three reasons: that may wait for a pipe that a background process holds
open after the child has ended, it starts the child in the event loop's thread, and uvloop's version has no `user=`.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, Any, Protocol, TypeVar

from app.errors import InvalidRequestError
from app.sandbox.base import ExecResult, LiveInput, OnOutput, Stream
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
    """A program to start. `env` is its whole environment. `pass_fds` stay open in it. `gate` is a descriptor that
    replaces its standard input."""

    argv: Sequence[str | bytes]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    stdin: bytes | None = None
    gate: int | None = None
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
    stdin = memory_file(spawn.stdin) if spawn.stdin is not None else subprocess.DEVNULL
    join_new_keyring()
    try:
        popen = subprocess.Popen(  # noqa: S603 - running what the caller names is what this is for
            spawn.argv,
            stdin=stdin if spawn.gate is None else spawn.gate,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=spawn.env,
            cwd=spawn.cwd,
            pass_fds=spawn.pass_fds,
            start_new_session=True,
        )
        return popen, _pidfd(popen)
    finally:
        if stdin >= 0:
            os.close(stdin)


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
async def fed(descriptor: int, source: LiveInput, ready: asyncio.Event | None = None) -> AsyncIterator[None]:
    """Writes to a pipe what a command is sent, while entered and once it is `ready`."""
    feeding = asyncio.create_task(_feed(descriptor, source, ready))
    try:
        yield
    finally:
        feeding.cancel()
        await asyncio.wait({feeding})


async def _feed(descriptor: int, source: LiveInput, ready: asyncio.Event | None) -> None:
    if ready is not None:
        await ready.wait()
    os.set_blocking(descriptor, False)
    with suppress(BrokenPipeError):  # it reads no more; that it ends is noticed elsewhere
        while True:
            data = memoryview(await source.next())
            while data:
                try:
                    data = data[os.write(descriptor, data) :]
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


class Commands:
    """The commands that run in one session's sandbox, so that stopping it ends them all."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[Any], asyncio.Event] = {}

    async def run(self, work: Callable[[asyncio.Event], Coroutine[Any, Any, T]]) -> T:
        """Runs `work(ending)` in its own task, so that a cancellation never interrupts a cleanup.

        A cancellation of the caller sets `ending` instead; the work ends what it started and returns, and then the
        cancellation is raised.
        """
        ending = asyncio.Event()
        task = asyncio.create_task(work(ending))
        self._running[task] = ending
        task.add_done_callback(self._running.pop)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            ending.set()
            await finish(_settled({task}))
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


async def until(done: asyncio.Future[Any], ending: asyncio.Event, timeout_s: float | None) -> bool:
    """Waits for `done`, at most `timeout_s` seconds or until `ending` is set; returns whether the time ran out."""
    stop = asyncio.ensure_future(ending.wait())
    try:
        finished, _ = await asyncio.wait({done, stop}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.cancel()
    return not finished


class Supervisor(Protocol):
    """Hooks of a kind of sandbox around a program started by `run`."""

    async def started(self, process: Process) -> None:
        """Called once, right after the start."""
        ...

    async def ended(self, process: Process) -> None:
        """Called once, when the program has ended or must end now: kills it with everything that must not outlive it,
        and returns when all of that is dead."""
        ...


async def run(
    spawn: Spawn, supervisor: Supervisor, *, ending: asyncio.Event, timeout_s: float, on_output: OnOutput
) -> ExecResult:
    """Runs a program until it ends, its time is over or `ending` is set. An error in `on_output` ends it and is raised.
    Belongs into `Commands.run`."""
    if ending.is_set():
        return ExecResult(KILLED, False, 0)

    def pass_on(stream: Stream, data: bytes) -> None:
        try:
            on_output(stream, data)
        except Exception:
            ending.set()
            raise

    started = time.monotonic()
    process = await Process.start(spawn, pass_on)
    timed_out = False
    try:
        await supervisor.started(process)
        timed_out = await until(process.exited, ending, timeout_s)
    finally:
        await supervisor.ended(process)
        await process.drain()
    code = None if timed_out else await process.exited
    return ExecResult(code, timed_out, round((time.monotonic() - started) * 1000))


def check_command(command: str) -> bytes:
    """The command as the bytes of one argument. Raises `InvalidRequestError` if it cannot be one."""
    data = command.encode("utf-8", "replace")
    if b"\0" in data:
        raise InvalidRequestError("The command holds a NUL character.", code="invalid_command")
    if len(data) > MAX_COMMAND_BYTES:
        detail = f"The command is longer than {MAX_COMMAND_BYTES} bytes; write it to a file and run that."
        raise InvalidRequestError(detail, code="invalid_command")
    return data
