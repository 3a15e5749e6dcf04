"""A sandbox whose commands and writes take turns with snapshots."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from app.sandbox.base import ExecResult, FileInfo, LiveInput, OnOutput, OpenFile, Sandbox


class FencedSandbox:
    """A `Sandbox` that passes everything on; what changes files runs inside of `using`."""

    def __init__(self, sandbox: Sandbox, using: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        self.kind = sandbox.kind
        self.network = sandbox.network
        self._sandbox = sandbox
        self._using = using

    async def start(self) -> None:
        await self._sandbox.start()

    async def exec(
        self,
        command: str,
        *,
        timeout_s: float,
        on_output: OnOutput,
        stdin: LiveInput | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        running = self._sandbox.exec(command, timeout_s=timeout_s, on_output=on_output, stdin=stdin, env=env)
        if stdin is not None:
            # It runs as long as the session does; whoever talks to it takes turns.
            return await running
        async with self._using():
            return await running

    def keep_ready(self, env: Mapping[str, str] | None = None) -> None:
        self._sandbox.keep_ready(env)

    def rest(self) -> None:
        self._sandbox.rest()

    async def has_workspace(self) -> bool:
        return await self._sandbox.has_workspace()

    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        return await self._sandbox.read(path, max_bytes=max_bytes)

    async def open(self, path: str) -> OpenFile:
        return await self._sandbox.open(path)

    async def write(self, path: str, data: bytes) -> None:
        async with self._using():
            await self._sandbox.write(path, data)

    async def list(self, path: str = ".", *, recursive: bool = False, limit: int = 10_000) -> Sequence[FileInfo]:
        return await self._sandbox.list(path, recursive=recursive, limit=limit)

    def archive(self) -> AsyncIterator[bytes]:
        return self._sandbox.archive()

    async def unpack(self, archive: AsyncIterator[bytes], *, replaced: Sequence[str] | None = None) -> None:
        async with self._using():
            await self._sandbox.unpack(archive, replaced=replaced)

    async def copy_from(self, source: Sandbox) -> None:
        async with self._using():
            await self._sandbox.copy_from(source)

    async def end_left(self) -> None:
        await self._sandbox.end_left()

    async def stop(self) -> None:
        await self._sandbox.stop()

    async def remove(self) -> None:
        await self._sandbox.remove()
