"""Commands in a container, through `docker exec`.

The Engine neither ends an exec nor reports that its command has ended while a background process holds the output open.
So a small shell script wraps the command: it writes to the output when the command started and with which code it
ended, each time after a random mark, and `Marks` removes those lines. They are trusted only for the exit code; whether
a command that had to be ended is dead is checked by `docker_ending`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import suppress

import aiodocker
from aiodocker.execs import Exec
from aiodocker.stream import Stream as ExecStream

from app.errors import SandboxError, SandboxUnavailableError
from app.sandbox.base import ExecResult, OnOutput, Stream
from app.sandbox.docker_ending import RunningCommands
from app.sandbox.docker_scripts import COMMAND_SCRIPT, Begun, Marks
from app.sandbox.docker_streams import attached, feeding
from app.sandbox.engine import Engine, refused
from app.sandbox.process import DRAIN_S, KILLED, until

_STREAMS: dict[int, Stream] = {1: "stdout", 2: "stderr"}


class ContainerCommand:
    """One command in a running container. `running` are the container's commands; this one adds itself while it runs,
    so that ending one spares the others."""

    def __init__(self, engine: Engine, container: str, running: RunningCommands, file_blocks: str) -> None:
        """`file_blocks` is the size of the largest file it may write, in blocks of 512 bytes."""
        self._file_blocks = file_blocks
        self._engine = engine
        self._container = container
        self._running = running
        mark = secrets.token_hex(16)
        self._mark = mark
        self.heard = asyncio.Event()
        """Set when the command has reported its start, or never will."""
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
        self, command: str, *, ending: asyncio.Event, timeout_s: float, on_output: OnOutput, stdin: bytes | None
    ) -> ExecResult:
        """Runs it until it ends, times out or `ending` is set. It is dead afterwards; only if it ended by itself do its
        background processes continue."""
        started = time.monotonic()
        size = -1 if stdin is None else len(stdin)
        arguments = (str(size), command, self._file_blocks)
        said = f"{self._mark}\n".encode() + (stdin or b"")
        argv = ["/bin/sh", "-c", COMMAND_SCRIPT, "palimpsest-command", *arguments]
        self._running.add(self)
        try:
            with self._engine.translated():
                async with self._engine.answering():
                    self._execution = await self._engine.container(self._container).exec(argv, stdin=True)
                if ending.is_set():
                    return ExecResult(KILLED, False, 0)
                async with attached(self._engine, self._execution) as stream:
                    timed_out = await self._attend(stream, said, ending, timeout_s, on_output)
                code = await self._exit_code(self._execution) if not timed_out else None
        except aiodocker.DockerError as exc:
            raise await self._refused(exc) from exc
        except SandboxUnavailableError:
            if self._execution is not None and not self.heard.is_set():
                await self._running.end(self)  # it may have been started anyway
            raise
        finally:
            self._running.discard(self)
        return ExecResult(code, timed_out, round((time.monotonic() - started) * 1000))

    async def _refused(self, exc: aiodocker.DockerError) -> SandboxError:
        """The error if the Engine did not start the command. A container that is full of processes accepts none until
        they are ended."""
        if "OCI runtime" not in exc.message:
            return refused(exc)
        await self._engine.kill(self._container)
        return SandboxError(
            f"The sandbox could not take in another process ({exc.message.strip()}). All that ran in it was ended;"
            " the command can be run again."
        )

    async def _attend(
        self, stream: ExecStream, said: bytes, ending: asyncio.Event, timeout_s: float, on_output: OnOutput
    ) -> bool:
        reading = asyncio.create_task(self._read(stream, on_output))
        try:
            async with feeding(stream, said):
                timed_out = await until(reading, ending, timeout_s)
        finally:
            try:
                if not self._ended:
                    await self._running.end(self)
            finally:
                await asyncio.wait({reading}, timeout=DRAIN_S)
                reading.cancel()
                await asyncio.wait({reading})
        if not reading.cancelled() and (failure := reading.exception()):
            raise failure
        return timed_out

    async def _read(self, stream: ExecStream, on_output: OnOutput) -> None:
        """Passes the output on until the stream ends, or the script has reported the command's end on both."""
        try:
            await self._read_messages(stream, on_output)
        finally:
            self.heard.set()
        for number, marks in self._marks.items():
            if output := marks.close():
                on_output(_STREAMS[number], output)

    async def _read_messages(self, stream: ExecStream, on_output: OnOutput) -> None:
        while not self._ended:
            message = await stream.read_out()
            if message is None:
                break
            output = self._marks[message.stream].feed(message.data)
            if self.begun is not None:
                self.heard.set()
            if output:
                on_output(_STREAMS[message.stream], output)

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
            reason = " for lack of memory" if shown and shown["State"].get("OOMKilled") else ""
            raise SandboxError(f"The sandbox's container ended{reason} while the command ran.")
        return 137
