"""Commands of the service as processes that are forked from one that has imported it, with asyncio's streams."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.behavior.preloaded import Forked, fork


@dataclass
class Process:
    """A process as `asyncio.subprocess.Process` shows one."""

    forked: Forked
    stdin: asyncio.StreamWriter | None
    stdout: asyncio.StreamReader | None
    stderr: asyncio.StreamReader

    @property
    def returncode(self) -> int | None:
        return self.forked.poll()

    def send_signal(self, number: signal.Signals) -> None:
        self.forked.send_signal(number)

    async def communicate(self, text: bytes | None = None) -> tuple[bytes, bytes]:
        """Writes the text, reads both outputs to their ends, and waits for that of the process."""
        _, out, err = await asyncio.gather(self._write(text), _all_of(self.stdout), _all_of(self.stderr))
        await self.wait()
        return out, err

    async def _write(self, text: bytes | None) -> None:
        if self.stdin is None:
            return
        with suppress(BrokenPipeError, ConnectionResetError):
            self.stdin.write(text or b"")
            await self.stdin.drain()
        self.stdin.close()

    async def wait(self) -> int:
        """Its exit code, negative after a signal."""
        if self.returncode is None:
            loop, ended, end = asyncio.get_running_loop(), asyncio.Event(), os.pidfd_open(self.forked.pid)
            loop.add_reader(end, ended.set)
            try:
                await ended.wait()
            finally:
                loop.remove_reader(end)
                os.close(end)
        return self.forked.wait(0)


async def open_command(
    arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path, stdin: bool = False, stdout: int | None = None
) -> Process:
    """Starts `python -m app` with these arguments, with a pipe for standard input if `stdin`, and one for standard
    output unless it goes to the descriptor `stdout`."""
    source, sink = os.pipe() if stdin else (os.open(os.devnull, os.O_RDONLY), None)
    out, to_out = os.pipe() if stdout is None else (None, os.dup(stdout))
    err, to_err = os.pipe()
    try:
        forked = await asyncio.to_thread(fork, arguments, env=env, cwd=cwd, streams=(source, to_out, to_err))
    finally:
        for descriptor in (source, to_out, to_err):
            os.close(descriptor)
    return Process(
        forked,
        await _writer(sink) if sink is not None else None,
        await _reader(out) if out is not None else None,
        await _reader(err),
    )


async def _all_of(stream: asyncio.StreamReader | None) -> bytes:
    return await stream.read() if stream is not None else b""


async def _reader(descriptor: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
    )
    return reader


async def _writer(descriptor: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(descriptor, "wb", 0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)
