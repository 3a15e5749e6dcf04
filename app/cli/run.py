"""`palimpsest run`: a task from the command line to its end, and what it leaves in its workspace."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.cli.client import Client, Target
from app.cli.following import CtrlC, show_all
from app.cli.packing import Folder, pack
from app.cli.run_end import show_end
from app.cli.screen import LIMIT, CliError, Notes, Screen, UsageError, one_line
from app.cli.target import running_or_embedded
from app.cli.tools import LocalTool, LocalTools
from app.cli.unpacking import unpack
from app.cli.watching import Form, watching
from app.images import media_type_of
from app.messages import new_id


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """What a task may say of its session; None is the server's own choice."""

    model: str | None = None
    system_prompt: str | None = None
    max_steps: int | None = None
    title: str | None = None
    sandbox: str | None = None
    approval: str | None = None
    effort: str | None = None
    compaction: str | None = None
    git: str | None = None
    output_schema: Path | None = None
    tool: Sequence[str] | None = None
    images: tuple[Path, ...] = ()
    max_cost: float | None = None

    def tools(self) -> list[LocalTool]:
        """The tools that run on this machine. Raises `UsageError`."""
        return [LocalTool.parse(each) for each in self.tool or ()]

    def body(self, task: str | None) -> dict[str, Any]:
        """The request that creates the session, which is idle without a task. It includes an id, so that a retry does
        not create a second session."""
        limits = {"max_steps": self.max_steps, "max_cost_usd": self.max_cost}
        fields = {
            "id": new_id(),
            "task": task if not self.images else [{"type": "text", "text": task}, *map(_image, self.images)],
            "model": self.model,
            "system_prompt": self.system_prompt,
            "reasoning_effort": self.effort,
            "compaction": _compaction(self.compaction) if self.compaction is not None else None,
            "title": self.title,
            "sandbox": self.sandbox,
            "approval": _approval(self.approval) if self.approval is not None else None,
            "source": _source(self.git) if self.git is not None else None,
            "limits": {name: value for name, value in limits.items() if value is not None} or None,
            "tools": [tool.definition for tool in self.tools()] or None,
            "output": {"schema": _json_file(self.output_schema)} if self.output_schema is not None else None,
        }
        return {name: value for name, value in fields.items() if value is not None}


def _image(path: Path) -> dict[str, Any]:
    """The part of a task with an image from this machine."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"--image: {path} cannot be read: {error.strerror}.", code="bad_image") from error
    kind = media_type_of(data)
    if kind is None:
        raise UsageError(f"--image: {path} is not a PNG, JPEG, GIF or WebP image.", code="bad_image")
    return {"type": "image", "media_type": kind, "data": base64.b64encode(data).decode()}


def _source(text: str) -> dict[str, Any]:
    """The `source` of a request from `URL[@REF]`."""
    scheme, _, rest = text.partition("://")
    host, slash, path = rest.partition("/")
    path, at, ref = path.partition("@")
    if not slash or (at and not ref):
        raise UsageError("--git takes the URL of a repository, as in https://host/project.git@main.", code="bad_git")
    return {"git": {"url": f"{scheme}://{host}/{path}", **({"ref": ref} if at else {})}}


def _approval(text: str) -> dict[str, Any]:
    """The `approval` of a request from a policy's name, or from JSON with a policy or the whole field."""
    if not text.lstrip().startswith("{"):
        return {"policy": text.strip()}
    try:
        given: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--approval is not valid JSON: {error}.", code="bad_approval") from error
    return given if "policy" in given else {"policy": given}


def _compaction(text: str) -> str | dict[str, Any]:
    """A policy's name, or settings as a JSON object."""
    if not text.lstrip().startswith("{"):
        return text.strip()
    try:
        given: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--compaction is not valid JSON: {error}.", code="bad_compaction") from error
    return given


def _json_file(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = f"{path} cannot be read: {error.strerror}"
        raise UsageError(f"--output-schema: {reason}.", code="bad_output_schema") from error
    except ValueError as error:
        raise UsageError(f"--output-schema: {path} is not valid JSON: {error}.", code="bad_output_schema") from error


def run_task(
    task: str | None,
    options: TaskOptions,
    *,
    folder: Folder | None = None,
    output: Path | None,
    patch: Path | None,
    remove: bool,
    as_json: bool,
    quiet: bool,
    server: str | None,
    key: str | None,
) -> int:
    """Runs a task and shows its events, or its output or answer alone if `quiet`; returns the exit status."""
    if quiet and as_json:
        raise UsageError("--quiet and --json exclude each other.", code="bad_options")
    if patch is not None and (patch.is_dir() or not patch.parent.is_dir()):
        # Before the run, which may take hours.
        reason = "it is a directory" if patch.is_dir() else "its directory does not exist"
        raise CliError(f"The patch cannot be written to {patch}: {reason}.", code="not_written")
    form: Form = "json" if as_json else "answer" if quiet else "text"
    running = running_or_embedded(server, key)
    return asyncio.run(
        _run(read_text(task), options, form, running, folder=folder, output=output, patch=patch, remove=remove)
    )


def read_text(given: str | None) -> str:
    """The given text; standard input if it is None or `-`."""
    if given not in (None, "-"):
        return str(given)
    if sys.stdin.isatty():
        Screen(sys.stderr).line("Write the task and end it with Ctrl-D.", dim=True)
    text = sys.stdin.buffer.read().decode("utf-8", "replace").strip()
    if not text:
        raise UsageError("No text: pass it as an argument or on standard input.", code="no_text")
    return text


async def _run(
    task: str,
    options: TaskOptions,
    form: Form,
    running: AbstractAsyncContextManager[tuple[Target, bool]],
    *,
    folder: Folder | None,
    output: Path | None,
    patch: Path | None,
    remove: bool,
) -> int:
    notes = Notes(quiet=form == "answer")
    say = notes.say
    async with running as (target, embedded), Client(target, say) as client:
        if folder is None:
            session = await client.call("POST", "/v1/sessions", json=options.body(task))
        else:
            session = await bring(client, options.body(task), folder, say)
        session_id = session["id"]
        where = "a server of this command" if embedded else target.url
        say(f"session {session_id} on {where}, model {session['model']}, sandbox {session['sandbox']['kind']}")
        local = LocalTools(client, session_id, options.tools(), say)
        async with watching(client, session_id, notes, form, own_task=True) as watched, local.serving() as serve:
            if watched.steers:
                say("Type a message to steer the run. Ctrl-C cancels it.")
            with CtrlC(client, session_id, say, watched.leave).handled():
                end = await show_all(client.follow(session_id), *watched.takers, serve)
        if form == "text":
            if end.status == LIMIT and not embedded:
                say(f"`palimpsest sessions resume {session_id}` continues it; limits per run then start over")
            await show_end(client, session_id, Screen(), linked=not (embedded or remove))
        if output is not None:
            await take_out(client, session_id, output, say)
        if patch is not None:
            await write_patch(client, session_id, patch, say)
        if remove:
            await client.call("DELETE", f"/v1/sessions/{session_id}")
            say(f"deleted session {session_id}")
    return end.status


async def bring(client: Client, body: dict[str, Any], folder: Folder, say: Callable[[str], None]) -> dict[str, Any]:
    """Creates a session with the files of a folder."""
    with tempfile.TemporaryFile() as archive:
        await asyncio.to_thread(pack, folder, archive, say)
        return await client.create_with(body, archive)


async def write_patch(client: Client, session_id: str, path: Path, say: Callable[[str], None]) -> None:
    """Writes what has changed in the session's workspace to a file, or to standard output for `-`."""
    if str(path) == "-":
        await client.patch(session_id, sys.stdout.buffer)
        await asyncio.to_thread(sys.stdout.buffer.flush)
        return
    try:
        with await asyncio.to_thread(path.open, "wb") as file:
            await client.patch(session_id, file)
    except OSError as error:
        raise CliError(f"The patch cannot be written to {path}: {error.strerror}.", code="not_written") from error
    say(f"changes are in {path}")


async def take_out(client: Client, session_id: str, folder: Path, say: Callable[[str], None]) -> None:
    """Unpacks the session's workspace into `folder`, and reports what was skipped and why."""
    with tempfile.TemporaryFile() as archive:
        await client.download(session_id, archive)
        await asyncio.to_thread(archive.seek, 0)
        try:
            skipped = await asyncio.to_thread(unpack, archive, folder)
        except OSError as error:
            raise CliError(f"The files cannot be written to {folder}: {error.strerror}.", code="not_written") from error
    for name in skipped:
        say(f"skipped {one_line(name)}: it leads out of the folder, is not a file, or cannot be written")
    say(f"files are in {folder}")
