"""Start and end of a bubblewrap command: its PID namespace is opened before anything runs, and killed as a whole."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

from app.sandbox.process import READ_BYTES, Process

_STATUS_TIMEOUT_S = 30.0
"""Only a machine that is out of CPU time comes near it."""


class Handshake:
    """The pipes through which bubblewrap reports the namespace's first process, and then waits for the signal to
    continue before it runs anything."""

    def __init__(self, *inherited: int) -> None:
        """`inherited` are further descriptors for bubblewrap, closed with its own."""
        self._status, status = os.pipe()
        block, self._block = os.pipe()
        self._said = (status, block)
        self.inherited: tuple[int, ...] = (*self._said, *inherited)
        """bubblewrap's ends."""
        self.gate, self._gate = os.pipe()
        """The input of a command that has none: the command waits there for a line. bubblewrap itself would continue
        without one if the server was killed in between, and may not have set its parent-death signal yet."""

    def arguments(self) -> list[str]:
        status, block = map(str, self._said)
        return ["--json-status-fd", status, "--block-fd", block]

    def __enter__(self) -> Handshake:
        return self

    def __exit__(self, *_: object) -> None:
        self.started()
        for end in (self._status, self._block, self._gate):
            os.close(end)

    def started(self) -> None:
        """Closes bubblewrap's ends in this process, so that its exit is noticed."""
        for end in (*self.inherited, *([self.gate] if self.inherited else [])):
            os.close(end)
        self.inherited = ()

    async def child_pid(self) -> int | None:
        """Waits until bubblewrap has reported it; None if bubblewrap ended before. Uses no thread: on a busy machine
        this takes a while, and other commands, cancelled ones included, would wait for a thread."""
        try:
            async with asyncio.timeout(_STATUS_TIMEOUT_S):
                line = await self._first_line()
        except TimeoutError:
            return None
        pid = json.loads(line).get("child-pid") if line else None
        return pid if isinstance(pid, int) else None

    async def _first_line(self) -> bytes:
        """The first line that bubblewrap writes; empty if it ends before."""
        loop = asyncio.get_running_loop()
        said = asyncio.Event()
        os.set_blocking(self._status, False)
        loop.add_reader(self._status, said.set)
        line = b""
        try:
            while b"\n" not in line:  # it arrives in pieces
                await said.wait()
                said.clear()
                with suppress(BlockingIOError):
                    piece = os.read(self._status, READ_BYTES)
                    if not piece:
                        return b""
                    line += piece
        finally:
            loop.remove_reader(self._status)
        return line.partition(b"\n")[0]

    def go_on(self) -> None:
        with suppress(BrokenPipeError):
            os.write(self._block, b"1")
            os.write(self._gate, b"go\n")


class Namespace:
    """Ends a PID namespace through its first process: it is dead only when all others are."""

    def __init__(
        self,
        handshake: Handshake,
        limit: Callable[[int], None],
        until_broken: Callable[[int], Awaitable[str]],
        connect: Callable[[int], Awaitable[None]],
    ) -> None:
        """`limit`, in a thread, and then `connect` get its first process before anything runs; `until_broken` waits
        until its processes exceed a limit, which ends them."""
        self._handshake = handshake
        self._limit = limit
        self._connect = connect
        self._until_broken = until_broken
        self._watching: asyncio.Task[None] | None = None
        self.broken: str | None = None
        """Why the processes were ended."""
        self._init: int | None = None
        """A pidfd, so that a later process with the same number is never hit."""

    @property
    def begun(self) -> bool:
        return self._init is not None

    async def started(self, bwrap: Process) -> None:
        self._handshake.started()
        pid = await self._handshake.child_pid()
        if pid is not None:
            self._init = await asyncio.to_thread(self._meet, pid)
        if pid is not None and self._init is not None:
            await self._connect(pid)
            await asyncio.to_thread(self._handshake.go_on)
            self._watching = asyncio.create_task(self._watch(pid, self._init))

    async def _watch(self, pid: int, pidfd: int) -> None:
        self.broken = await self._until_broken(pid)
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)

    def _meet(self, pid: int) -> int | None:
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        try:
            self._limit(pid)
        except OSError:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        return pidfd

    async def ended(self, bwrap: Process) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})
        # bubblewrap itself is killed only if it has no child: one it has just created would outlive it
        if self._init is None:
            bwrap.kill()
        else:
            await _kill(self._init)
        await bwrap.exited


async def _kill(pidfd: int) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    loop = asyncio.get_running_loop()
    dead: asyncio.Future[None] = loop.create_future()

    def on_end() -> None:
        loop.remove_reader(pidfd)
        dead.set_result(None)

    loop.add_reader(pidfd, on_end)
    try:
        await dead
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)
