"""Streams of `docker exec`: attaching to a command, feeding its input, and running internal scripts."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import aiodocker
from aiodocker.stream import Stream as ExecStream

from app.errors import SandboxError
from app.sandbox.docker_scripts import SCRIPT_HEAD, Marks
from app.sandbox.engine import Engine, refused

SILENCE_S = 120.0
"""Seconds an internal script may be silent; writing the largest accepted file takes a few."""


@asynccontextmanager
async def attached(engine: Engine, execution: aiodocker.execs.Exec) -> AsyncIterator[ExecStream]:
    """Starts a command, with a connection to its input and output."""
    stream: ExecStream = execution.start()
    try:
        async with engine.answering():
            await stream.__aenter__()
        yield stream
    finally:
        connection = stream._resp.connection if stream._resp is not None else None
        if connection is not None:
            # a plain close would wait forever to send unread input
            if connection.transport is not None:
                connection.transport.abort()
            await stream.close()


@asynccontextmanager
async def feeding(stream: ExecStream, data: bytes) -> AsyncIterator[None]:
    """Feeds a command its input while its output is read."""
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
    """Runs an internal shell script in a container; returns its exit code (137 if it was killed), output and messages.

    `cleanup`, if the script defines such a function, is called when it exits. Raises `SandboxError` if the script
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
                attached(engine, execution) as stream,
                feeding(stream, stdin or b""),
                engine.answering(SILENCE_S) as heard,
            ):
                # waiting for the stream's end would take too long: the Engine delays it for seconds if another
                # command has left a background process
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
