"""A directory that stands in for a sandbox, and the environment of a tool."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.errors import ForbiddenError, InvalidRequestError, NotFoundError, TooLargeError
from app.sandbox.base import WORKSPACE, ExecResult, FileInfo, LiveInput, OnOutput, Sandbox, Stream
from app.sandbox.host.base import HostFile
from app.sessions import PlanItem
from app.tools.base import Arguments, NoHistory, SessionHistory, ToolContext, ToolOutcome
from app.tools.output import OutputLimit


class DirectorySandbox:
    """Real files and real processes in a directory, with a sandbox's path rules but without its isolation."""

    kind = "directory"
    network = False

    def __init__(self, root: Path, shell: Sequence[str] = ("/bin/sh",), env: dict[str, str] | None = None) -> None:
        self.root = root
        self._shell = shell
        self._env = env or {"PATH": os.environ["PATH"]}

    async def start(self) -> None: ...

    def keep_ready(self, env: Mapping[str, str] | None = None) -> None: ...

    def rest(self) -> None: ...

    async def has_workspace(self) -> bool:
        return self.root.is_dir()

    async def copy_from(self, source: Sandbox) -> None:
        raise NotImplementedError

    async def unpack(self, archive: AsyncIterator[bytes], *, replaced: Sequence[str] | None = None) -> None:
        raise NotImplementedError

    async def end_left(self) -> None: ...

    async def stop(self) -> None: ...

    async def remove(self) -> None: ...

    def archive(self) -> AsyncIterator[bytes]:
        raise NotImplementedError

    async def exec(
        self,
        command: str,
        *,
        timeout_s: float,
        on_output: OnOutput,
        stdin: LiveInput | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        process = await asyncio.create_subprocess_exec(
            *self._shell,
            "-c",
            command,
            cwd=self.root,
            env={**self._env, **(env or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        timed_out = False
        try:
            async with asyncio.timeout(timeout_s):
                await _pump(process, on_output)
        except TimeoutError:
            timed_out = True
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
            code = await process.wait()
        return ExecResult(None if timed_out else code if code >= 0 else 128 - code, timed_out, 0)

    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        file = self._resolve(path)
        if not stat.S_ISREG(file.lstat().st_mode):
            raise InvalidRequestError(f"{path} is not a file.", code="not_a_file")
        if max_bytes is not None and file.stat().st_size > max_bytes:
            raise TooLargeError(f"{path} is too large.")
        return file.read_bytes()

    async def open(self, path: str) -> HostFile:
        return HostFile(os.open(self._resolve(path), os.O_RDONLY), path)

    async def write(self, path: str, data: bytes) -> None:
        file = self._resolve(path, must_exist=False)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    async def list(self, path: str = ".", *, recursive: bool = False, limit: int = 10_000) -> Sequence[FileInfo]:
        directory = self._resolve(path)
        if not directory.is_dir():
            raise InvalidRequestError(f"{path} is not a directory.", code="not_a_directory")
        return [self._info(entry) for entry in sorted(directory.iterdir())[:limit]]

    def _info(self, entry: Path) -> FileInfo:
        info = entry.lstat()
        kinds: dict[int, Any] = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}
        kind = kinds.get(stat.S_IFMT(info.st_mode), "other")
        return FileInfo(str(entry.relative_to(self.root)), kind, info.st_size, info.st_mtime)

    def _resolve(self, path: str, *, must_exist: bool = True) -> Path:
        relative = os.path.relpath(path, WORKSPACE) if path.startswith("/") else os.path.normpath(path)
        if relative == ".." or relative.startswith("../"):
            raise ForbiddenError(f"{path} is outside the workspace.", code="outside_workspace")
        at = (self.root / relative).resolve()
        if not at.is_relative_to(self.root.resolve()):
            raise ForbiddenError(f"{path} leads outside through a link.", code="outside_workspace")
        if must_exist and not at.exists():
            raise NotFoundError(f"There is no {path}.", code="file_not_found")
        return at


async def _pump(process: asyncio.subprocess.Process, on_output: OnOutput) -> None:
    async def copy(stream: Stream, reader: asyncio.StreamReader | None) -> None:
        assert reader is not None
        while data := await reader.read(65536):
            on_output(stream, data)

    async with asyncio.TaskGroup() as group:
        group.create_task(copy("stdout", process.stdout))
        group.create_task(copy("stderr", process.stderr))
    await process.wait()


class Recorded:
    """A sink that keeps everything; `seen` is set at the first output."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.seen = asyncio.Event()

    def as_terminal(self) -> None: ...

    def write(self, stream: Stream, data: bytes) -> None:
        self.data += data
        self.seen.set()

    @property
    def text(self) -> str:
        return self.data.decode()


class Workbench:
    """Runs tools in a directory and keeps their output."""

    def __init__(
        self,
        sandbox: Sandbox,
        root: Path,
        *,
        timeout_s: float = 30,
        max_timeout_s: float = 100,
        history: SessionHistory | None = None,
    ) -> None:
        self.sandbox = sandbox
        self.root = root
        self.sink = Recorded()
        self.plans: list[tuple[PlanItem, ...]] = []
        self.context = ToolContext(
            call_id="call",
            sandbox=self._sandbox,
            output=self.sink,
            set_plan=self._set_plan,
            command_timeout_s=timeout_s,
            max_command_timeout_s=max_timeout_s,
            history=history or NoHistory(),
            limit=OutputLimit(30_000),
        )

    def limit(self, limit: OutputLimit) -> OutputLimit:
        """Sets how much the model will see of later calls."""
        self.context = replace(self.context, limit=limit)
        return limit

    async def run(self, tool: Any, **arguments: Any) -> tuple[str, ToolOutcome]:
        """The call's text and its outcome."""
        self.sink.data.clear()
        args: Arguments = tool.arguments.model_validate(arguments)
        outcome = await tool.run(args, self.context)
        return self.sink.text, outcome

    async def _sandbox(self) -> Sandbox:
        return self.sandbox

    async def _set_plan(self, items: tuple[PlanItem, ...]) -> None:
        self.plans.append(items)
