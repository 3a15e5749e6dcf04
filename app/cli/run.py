"""`palimpsest run`: a task from the command line to its end."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.cli.asking import asking
from app.cli.client import Client
from app.cli.errors import UsageError
from app.cli.following import CtrlC, exit_status, show_all, writer
from app.cli.screen import Screen
from app.cli.target import running_or_embedded
from app.cli.workspace import take_out
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

    def body(self, task: str) -> dict[str, Any]:
        """The request that creates the session. It includes an id, so that a retry does not create a second one."""
        fields = {
            "id": new_id(),
            "task": task,
            "model": self.model,
            "system_prompt": self.system_prompt,
            "reasoning_effort": self.effort,
            "compaction": _compaction(self.compaction) if self.compaction is not None else None,
            "title": self.title,
            "sandbox": self.sandbox,
            "approval": _approval(self.approval) if self.approval is not None else None,
            "limits": {"max_steps": self.max_steps} if self.max_steps is not None else None,
        }
        return {name: value for name, value in fields.items() if value is not None}


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


def run_task(
    task: str | None,
    options: TaskOptions,
    *,
    output: Path | None,
    remove: bool,
    as_json: bool,
    server: str | None,
    key: str | None,
) -> int:
    """Runs a task and shows its events; returns the exit status."""
    text = read_text(task)
    notes = Screen(sys.stderr)
    return asyncio.run(
        _run(text, options, notes, output=output, remove=remove, as_json=as_json, server=server, key=key)
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
    notes: Screen,
    *,
    output: Path | None,
    remove: bool,
    as_json: bool,
    server: str | None,
    key: str | None,
) -> int:
    def say(text: str) -> None:
        notes.line(text, dim=True)

    async with running_or_embedded(server, key) as (target, embedded), Client(target, say) as client:
        session = await client.call("POST", "/v1/sessions", json=options.body(task))
        where = "a server of this command" if embedded else target.url
        say(f"session {session['id']} on {where}, model {session['model']}, sandbox {session['sandbox']['kind']}")
        with CtrlC(client, session["id"], say).handled():
            async with asking(client, session["id"], as_json=as_json) as hear:
                write = writer(as_json, own_task=True)
                outcome = await show_all(client.follow(session["id"]), write, hear)
        if output is not None:
            await take_out(client, session["id"], output, say)
        if remove:
            await client.call("DELETE", f"/v1/sessions/{session['id']}")
            say(f"deleted session {session['id']}")
    return exit_status(outcome)
