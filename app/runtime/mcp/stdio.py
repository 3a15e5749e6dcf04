"""A server that runs as a command in the session's sandbox: one message a line on its standard input and output."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from app.errors import PalimpsestError
from app.runtime.mcp.bounds import Received, ServerError
from app.runtime.mcp.connection import Streams
from app.sandbox.base import LiveInput, Sandbox, Stream

LIFE_S = 30 * 24 * 3600.0
"""Longest life of a server, in seconds; it ends with the session's runs."""
SAID_BYTES = 2_000
"""How much of the end of its messages (standard error) is shown when it fails."""
END_S = 0.5
"""Seconds that a server has to end by itself once its input has ended."""
WAITING = 1_000
"""Messages that may wait to be read; there are more only if it floods."""


class _Lines:
    """Splits standard output into messages, and keeps the end of standard error. Lines that are not messages, which
    some servers print by mistake, are skipped."""

    def __init__(self, received: Received, give: Callable[[SessionMessage], None]) -> None:
        self._received = received
        self._give = give
        self._pieces: list[bytes] = []
        self._size = 0
        self.said = b""

    def write(self, stream: Stream, data: bytes) -> None:
        """Raises `ServerError`, which ends the command."""
        self._received.take(data, lines=True)
        if stream == "stderr":
            self.said = (self.said + data)[-SAID_BYTES:]
            return
        first, *rest = data.split(b"\n")
        self._add(first)
        for piece in rest:
            self._end_line()
            self._add(piece)

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        self._received.check_size(self._size)
        self._pieces.append(piece)

    def _end_line(self) -> None:
        line, self._pieces, self._size = b"".join(self._pieces), [], 0
        if not line.strip():
            return
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            return
        self._give(SessionMessage(message))


@asynccontextmanager
async def stdio_streams(
    sandbox: Sandbox, command: Sequence[str], env: Mapping[str, str], received: Received, lost: Callable[[], None]
) -> AsyncIterator[Streams]:
    """The messages from and to a command. When this ends, the command is dead: it ends with its input, or is killed
    soon after. `lost` is called when it ends by itself."""
    sent, reading = anyio.create_memory_object_stream[SessionMessage | Exception](WAITING)
    writing, outgoing = anyio.create_memory_object_stream[SessionMessage](0)

    def give(message: SessionMessage) -> None:
        try:
            sent.send_nowait(message)
        except anyio.WouldBlock:
            raise received.fail("flooded", f"More than {WAITING:,} messages from the server were unread.") from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass  # The connection is being closed.

    lines = _Lines(received, give)
    live = LiveInput()

    async def run() -> None:
        try:
            result = await sandbox.exec(
                f"exec {shlex.join(command)}", timeout_s=LIFE_S, on_output=lines.write, stdin=live, env=env
            )
            said = lines.said.decode("utf-8", "replace").strip()
            ended = result.remark or f"it ended with exit code {result.exit_code}"
            received.fail("closed", f"The command is not running: {ended}.{f' Standard error: {said}' if said else ''}")
        except PalimpsestError as error:
            received.fail(error.code, error.detail)
        except ServerError:
            pass  # Noted where it was raised.
        finally:
            sent.close()
            lost()

    async def feed() -> None:
        async for message in outgoing:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await live.send(f"{text}\n".encode())

    running, feeding = asyncio.create_task(run()), asyncio.create_task(feed())
    try:
        async with sent, reading, writing, outgoing:
            yield reading, writing
        feeding.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await live.end()
                await asyncio.wait({running})
    finally:
        for task in (running, feeding):
            task.cancel()
        await asyncio.wait({running, feeding})
