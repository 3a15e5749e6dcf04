"""`palimpsest run --tool`: tools that run on this machine, each as a command."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.cli.client import Client, ServerEvent
from app.cli.screen import CliError, UsageError

MAX_OUTPUT_BYTES = 150_000
"""Maximum bytes of a command's output that are posted: several times what a model sees of it, and, however it is
escaped, less than a request may have."""
MAX_AT_ONCE = 8
"""Commands that run at the same time."""
_ANY = {"type": "object", "properties": {}, "additionalProperties": True}


@dataclass(frozen=True, slots=True)
class LocalTool:
    """A tool as the session's request has it, and the shell command that runs it."""

    definition: dict[str, Any]
    command: str

    @property
    def name(self) -> str:
        return str(self.definition["name"])

    @classmethod
    def parse(cls, text: str) -> LocalTool:
        """A tool from `NAME=COMMAND`, or from `@FILE` with a JSON object of name, command, description, parameters and
        timeout_s, of which the last three may be omitted. Raises `UsageError`."""
        given = _file(Path(text[1:])) if text.startswith("@") else _pair(text)
        name, command = given.pop("name", None), given.pop("command", None)
        unknown = given.keys() - {"description", "parameters", "timeout_s"}
        if not (isinstance(name, str) and isinstance(command, str) and name and command.strip()) or unknown:
            raise UsageError(
                "--tool takes NAME=COMMAND, or @FILE with a JSON object of name, command, description, parameters and"
                " timeout_s.",
                code="bad_tool",
            )
        about = f"Runs on the user's machine, outside of the sandbox: {command}. It gets the arguments as JSON."
        defaults = {"description": about[:4_000], "parameters": _ANY}
        return cls({"type": "client", "name": name, **defaults, **given}, command)


def _pair(text: str) -> dict[str, Any]:
    name, _, command = text.partition("=")
    return {"name": name.strip(), "command": command}


def _file(path: Path) -> dict[str, Any]:
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--tool: {path} cannot be read: {error.strerror}.", code="bad_tool") from error
    except ValueError as error:
        raise UsageError(f"--tool: {path} is not valid JSON: {error}.", code="bad_tool") from error
    return given if isinstance(given, dict) else {}


class LocalTools:
    """Carries out the calls of one session's local tools: a command gets the arguments as JSON on standard input, what
    it prints is the output, and an exit code other than 0 makes it an error."""

    def __init__(self, client: Client, session_id: str, tools: Sequence[LocalTool], say: Callable[[str], None]) -> None:
        self._client = client
        self._session_id = session_id
        self._commands = {tool.name: tool.command for tool in tools}
        self._say = say
        self._slots = asyncio.Semaphore(MAX_AT_ONCE)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Callable[[ServerEvent], None]]:
        """Yields the function to call with the session's events; on exit, commands that still run are ended."""
        try:
            yield self._on_event
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _on_event(self, event: ServerEvent) -> None:
        data = event.data
        begun = self._tasks.get(data.get("call_id", ""))
        if event.event == "tool.result" and begun is not None:
            # Its time is over, or the run was cancelled.
            begun.cancel()
        elif data.get("waits_for_client") and data["name"] in self._commands and begun is None:
            work = self._serve(data["call_id"], data["name"], data["arguments"])
            self._tasks[data["call_id"]] = asyncio.create_task(work)

    async def _serve(self, call_id: str, name: str, arguments: Any) -> None:
        async with self._slots:
            result = await _carry_out(self._commands[name], json.dumps(arguments).encode())
        path = f"/v1/sessions/{self._session_id}/tool-calls/{call_id}/result"
        try:
            await self._client.call("POST", path, json=result)
        except CliError as error:
            self._say(f"the result of {name} was not accepted: {error.detail}")


async def _carry_out(command: str, given: bytes) -> dict[str, str]:
    """Runs a shell command; returns what to post. Its whole process group is ended with it."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_shell(
        command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        _, output, errors = await asyncio.gather(
            _feed(process.stdin, given), _read(process.stdout), _read(process.stderr)
        )
        code = await process.wait()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    if code == 0:
        return {"output": output}
    said = "\n".join(filter(None, (output.rstrip(), errors.rstrip())))
    return {"error": f"exit code {code}" + (f"\n{said}" if said else "")}


async def _feed(stdin: asyncio.StreamWriter, given: bytes) -> None:
    """Writes all of the input, unless the command does not read it."""
    with suppress(BrokenPipeError, ConnectionResetError):
        stdin.write(given)
        await stdin.drain()
    stdin.close()


async def _read(stream: asyncio.StreamReader) -> str:
    """The text of a stream, cut to its limit."""
    kept, size = bytearray(), 0
    while piece := await stream.read(64 * 1024):
        size += len(piece)
        kept += piece[: max(0, MAX_OUTPUT_BYTES // 2 - len(kept))]
    text = kept.decode("utf-8", "replace")
    return text if size == len(kept) else f"{text}\n[{size - len(kept):,} more bytes were left out]"
