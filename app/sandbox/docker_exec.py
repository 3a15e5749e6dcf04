"""Commands in a container, through `docker exec`.

The Engine neither ends an exec nor says that its command has ended while a background process holds the output open.
So a small shell script stands around the command: it says in the output when the command began and with which code it
ended, each time after a random mark, and `Marks` takes that out again. Another script kills what belongs to a command:
all processes that are younger than it and are no descendants of an older one, whatever they did to detach themselves.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import aiodocker
from aiodocker.stream import Stream as ExecStream

from app.errors import SandboxError, SandboxUnavailableError
from app.sandbox.base import ExecResult, OnOutput, Stream
from app.sandbox.docker_scripts import COMMAND_SCRIPT, KILL_SCRIPT, SCRIPT_HEAD, Begun, Marks
from app.sandbox.engine import Engine, refused
from app.sandbox.process import DRAIN_S, until

KILL_TIMEOUT_S = 1.2
"""How long the kill script may take before the whole container is killed; a cancellation has two seconds."""
SILENCE_S = 120.0
"""How long a script of ours may say nothing, in seconds; to write the largest file that is taken lasts a few."""
_STREAMS: dict[int, Stream] = {1: "stdout", 2: "stderr"}


class ContainerCommand:
    """One command in a running container. `others` are the sandbox's commands that run at the same time; this one adds
    itself while it runs, so that ending one of them spares the rest."""

    def __init__(self, engine: Engine, container: str, others: set[ContainerCommand], file_blocks: str) -> None:
        """`file_blocks` is the size of the largest file that it may write, in blocks of 512 bytes."""
        self._file_blocks = file_blocks
        self._engine = engine
        self._container = container
        self._others = others
        mark = secrets.token_hex(16)
        self._mark = mark
        self._heard = asyncio.Event()
        """Set when the command has begun, or will never say so."""
        self._marks = {stream: Marks(mark.encode()) for stream in _STREAMS}

    @property
    def begun(self) -> Begun | None:
        return self._marks[1].begun

    async def run(
        self, command: str, *, ending: asyncio.Event, timeout_s: float, on_output: OnOutput, stdin: bytes | None
    ) -> ExecResult:
        """Runs it to its end, its time-out or until `ending` is set; afterwards it is dead in each case but the first,
        where its background processes go on."""
        started = time.monotonic()
        size = -1 if stdin is None else len(stdin)
        arguments = (self._mark, str(size), command, self._file_blocks)
        argv = ["/bin/sh", "-c", COMMAND_SCRIPT, "palimpsest-command", *arguments]
        self._others.add(self)
        try:
            with self._engine.translated():
                async with self._engine.answering():
                    execution = await self._engine.container(self._container).exec(argv, stdin=stdin is not None)
                async with _attached(self._engine, execution) as stream:
                    timed_out = await self._attend(stream, stdin, ending, timeout_s, on_output)
                code = await self._exit_code(execution) if not timed_out else None
        except aiodocker.DockerError as exc:
            raise await self._refused(exc) from exc
        finally:
            self._others.discard(self)
        return ExecResult(code, timed_out, round((time.monotonic() - started) * 1000))

    async def _refused(self, exc: aiodocker.DockerError) -> SandboxError:
        """What to say where the Engine did not start the command. A container that is full of processes takes none in
        until they are ended."""
        if "OCI runtime" not in exc.message:
            return refused(exc)
        await self._engine.kill(self._container)
        return SandboxError(
            f"The sandbox could not take in another process ({exc.message.strip()}). All that ran in it was ended;"
            " the command can be run again."
        )

    async def _attend(
        self, stream: ExecStream, stdin: bytes | None, ending: asyncio.Event, timeout_s: float, on_output: OnOutput
    ) -> bool:
        reading = asyncio.create_task(self._read(stream, on_output))
        try:
            async with _feeding(stream, stdin or b""):
                timed_out = await until(reading, ending, timeout_s)
        finally:
            try:
                if self._marks[1].exit_code is None:
                    await self.kill()
            finally:
                await asyncio.wait({reading}, timeout=DRAIN_S)
                reading.cancel()
                await asyncio.wait({reading})
        if not reading.cancelled() and (failure := reading.exception()):
            raise failure
        return timed_out

    async def _read(self, stream: ExecStream, on_output: OnOutput) -> None:
        """Hands the output on until the stream ends, or the script has said on both that the command has."""
        try:
            await self._read_messages(stream, on_output)
        finally:
            self._heard.set()
        for number, marks in self._marks.items():
            if output := marks.close():
                on_output(_STREAMS[number], output)

    async def _read_messages(self, stream: ExecStream, on_output: OnOutput) -> None:
        while any(marks.exit_code is None for marks in self._marks.values()):
            message = await stream.read_out()
            if message is None:
                break
            output = self._marks[message.stream].feed(message.data)
            if self.begun is not None:
                self._heard.set()
            if output:
                on_output(_STREAMS[message.stream], output)

    async def _exit_code(self, execution: aiodocker.execs.Exec) -> int:
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

    async def kill(self) -> None:
        """Ends all processes of the command; where that cannot be done one by one, all of the container."""
        with suppress(SandboxError, SandboxUnavailableError, aiodocker.DockerError, TimeoutError):
            async with asyncio.timeout(KILL_TIMEOUT_S):
                if await self._kill_processes():
                    return
        with suppress(aiodocker.DockerError):
            await self._engine.kill(self._container)

    async def _kill_processes(self) -> bool:
        await self._heard.wait()
        if self.begun is None:
            return False
        others = [str(other.begun.pid) for other in self._others - {self} if other.begun is not None]
        arguments = [str(self.begun.ticks), *others]
        code, _, _ = await run_script(self._engine, self._container, KILL_SCRIPT, arguments)
        return code == 0


@asynccontextmanager
async def _attached(engine: Engine, execution: aiodocker.execs.Exec) -> AsyncIterator[ExecStream]:
    """Starts a command, with a connection to its input and output."""
    stream: ExecStream = execution.start()
    try:
        async with engine.answering():
            await stream.__aenter__()
        yield stream
    finally:
        connection = stream._resp.connection if stream._resp is not None else None
        if connection is not None:
            # a mere close would wait for ever to send input that nobody reads
            if connection.transport is not None:
                connection.transport.abort()
            await stream.close()


@asynccontextmanager
async def _feeding(stream: ExecStream, data: bytes) -> AsyncIterator[None]:
    """Gives a command its input while its output is read."""
    feeding = asyncio.create_task(_feed(stream, data))
    try:
        yield
    finally:
        feeding.cancel()
        await asyncio.wait({feeding})


async def _feed(stream: ExecStream, data: bytes) -> None:
    # a command may end without reading all of its input
    with suppress(ConnectionError, aiodocker.DockerError):
        for start in range(0, len(data), 64 * 1024):
            await stream.write_in(data[start : start + 64 * 1024])


async def run_script(
    engine: Engine,
    container: str,
    script: str,
    arguments: Sequence[str],
    *,
    stdin: bytes | None = None,
    limit: int = 1024 * 1024,
) -> tuple[int, bytes, bytes]:
    """Runs a shell script of ours in a container; its exit code (137 where it was killed), output and messages.

    `cleanup`, if the script defines such a function, is called when it exits. Raises `SandboxError` where the script
    cannot run or prints more than `limit` bytes.
    """
    mark = secrets.token_hex(16)
    argv = ["/bin/sh", "-c", SCRIPT_HEAD.replace("MARK", mark) + script, "palimpsest", *arguments]
    marks, messages, output = Marks(mark.encode()), bytearray(), bytearray()
    try:
        with engine.translated():
            async with engine.answering():
                execution = await engine.container(container).exec(argv, stdin=stdin is not None)
            async with (
                _attached(engine, execution) as stream,
                _feeding(stream, stdin or b""),
                engine.answering(SILENCE_S) as heard,
            ):
                # the stream's end would come too late: the Engine holds it back for seconds where another command
                # has left a background process
                while marks.exit_code is None and (message := await stream.read_out()) is not None:
                    heard()
                    if message.stream == 1:
                        output += marks.feed(message.data)
                    else:
                        messages += message.data
                    if len(output) + len(messages) > limit:
                        raise SandboxError("The sandbox answered with more than was asked for.")
    except aiodocker.DockerError as exc:
        raise refused(exc) from exc
    return (137 if marks.exit_code is None else marks.exit_code), bytes(output), bytes(messages)
