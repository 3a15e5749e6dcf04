"""The tools of `palimpsest mcp`: each calls the server's HTTP API and returns a JSON object."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from app.cli.approvals import SILENT, Call, pending
from app.cli.client import Client, ServerEvent
from app.cli.packing import Folder, project_folder
from app.cli.run import bring
from app.cli.screen import ServerRefusedError, one_line
from app.messages import new_id
from app.tools.base import Arguments

MAX_WAIT_S = 600
DEFAULT_WAIT_S = 50
"""Less than the minute after which many clients give up on a call."""
LISTED_CHANGES = 100
"""Maximum number of changed files that a result lists."""
MAX_PATCH_BYTES = 100_000

Report = Callable[[str], None]
"""Called with what a session is doing."""


class StartArguments(Arguments):
    task: str = Field(min_length=1)
    folder: str | None = Field(default=None, description="Absolute path of a local folder to copy in.")
    git_url: str | None = Field(default=None, description="A repository to clone instead.")
    git_ref: str | None = None
    model: str | None = Field(default=None, description="provider/model; default: the server's.")
    max_steps: int | None = Field(default=None, ge=1)
    output_schema: dict[str, Any] | None = Field(default=None, description="JSON Schema of the output to end with.")


class SessionArguments(Arguments):
    session_id: UUID


class SendArguments(SessionArguments):
    message: str = Field(min_length=1)
    mode: Literal["steer", "follow_up", "interrupt"] = Field(
        default="steer", description="steer: before the next step; follow_up: after the run; interrupt: now."
    )


class ResultArguments(SessionArguments):
    wait_s: float = Field(
        default=DEFAULT_WAIT_S, ge=0, le=MAX_WAIT_S, description=f"Seconds to wait for the end, at most {MAX_WAIT_S}."
    )
    patch: bool = Field(default=False, description="Include the changes as a patch for git apply.")


async def start_session(client: Client, given: StartArguments, report: Report) -> dict[str, Any]:
    source = None
    if given.git_url is not None:
        source = {"git": {"url": given.git_url, **({"ref": given.git_ref} if given.git_ref else {})}}
    fields = {
        "id": new_id(),
        "task": given.task,
        "model": given.model,
        "source": source,
        "limits": {"max_steps": given.max_steps} if given.max_steps is not None else None,
        "output": {"schema": given.output_schema} if given.output_schema is not None else None,
    }
    body = {name: value for name, value in fields.items() if value is not None}
    if given.folder is None:
        session = await client.call("POST", "/v1/sessions", json=body)
    else:
        session = await bring(client, body, Folder(project_folder(given.folder)), report)
    return _state(session)


async def send(client: Client, given: SendArguments, report: Report) -> dict[str, Any]:
    body = {"id": new_id(), "content": given.message, "mode": given.mode}
    answer: dict[str, Any] = await client.call("POST", f"/v1/sessions/{given.session_id}/queue", json=body)
    return answer


async def status(client: Client, given: SessionArguments, report: Report) -> dict[str, Any]:
    session = await client.session(str(given.session_id))
    return {
        **await _with_waiting(client, session),
        "title": session["title"],
        "model": session["model"],
        "pending_messages": session["queue"]["pending"],
        "context": session["context"],
        "updated_at": session["updated_at"],
    }


async def result(client: Client, given: ResultArguments, report: Report) -> dict[str, Any]:
    session_id = str(given.session_id)
    session = await client.session(session_id)
    with suppress(TimeoutError):
        async with asyncio.timeout(given.wait_s):
            await _until_it_stops(client, session, report)
    session = await client.session(session_id)
    answer = {**await _with_waiting(client, session), "answer": session["answer"], "output": session.get("output")}
    if session["status"] == "idle":
        answer["changes"] = await _changes(client, session_id)
        if given.patch:
            answer |= await _patch(client, session_id)
    return answer


async def cancel(client: Client, given: SessionArguments, report: Report) -> dict[str, Any]:
    await client.call("POST", f"/v1/sessions/{given.session_id}/cancel")
    return _state(await client.session(str(given.session_id)))


def _state(session: Mapping[str, Any]) -> dict[str, Any]:
    error = session["error"]
    return {
        "session_id": session["id"],
        "status": session["status"],
        "outcome": session["outcome"],
        "error": {"code": error.get("code"), "detail": error.get("detail")} if error else None,
        "steps": session["steps"],
        "cost_usd": session["usage"]["cost_usd"],
    }


async def _with_waiting(client: Client, session: Mapping[str, Any]) -> dict[str, Any]:
    """The state, with the calls that wait for a person's approval."""
    state = _state(session)
    if session["status"] == "awaiting_approval":
        items = await pending(client, session["id"])
        state["waiting_for_approval"] = [Call(item["name"], item["arguments"]).headline() for item in items]
        state["decide_with"] = f"palimpsest approvals {session['id']}"
    return state


async def _until_it_stops(client: Client, session: Mapping[str, Any], report: Report) -> None:
    """Follows a session until it is idle or waits for someone."""
    if session["status"].startswith("awaiting"):
        return
    async with aclosing(client.follow(session["id"], session["last_seq"])) as events:
        async for event in events:
            if event.event == "approval.requested" or event.data.get("waits_for_client"):
                return
            if (text := _activity(event)) is not None:
                report(text)


def _activity(event: ServerEvent) -> str | None:
    if event.event == "step.started":
        return f"step {event.data['step']}"
    if event.event == "tool.call" and event.data["name"] not in SILENT:
        return one_line(Call(event.data["name"], event.data["arguments"]).headline())
    return "compacting the context" if event.event == "compaction.started" else None


async def _changes(client: Client, session_id: str) -> dict[str, Any] | None:
    """What the session changed, None if the server cannot tell."""
    try:
        found = await client.call("GET", f"/v1/sessions/{session_id}/changes")
    except ServerRefusedError:
        return None
    items = [{name: item[name] for name in ("path", "status", "additions", "deletions")} for item in found["items"]]
    return {
        "files": len(items),
        "additions": found["additions"],
        "deletions": found["deletions"],
        "items": items[:LISTED_CHANGES],
        "truncated": found["truncated"] or len(items) > LISTED_CHANGES,
    }


async def _patch(client: Client, session_id: str) -> dict[str, Any]:
    with tempfile.TemporaryFile() as file:
        await client.patch(session_id, file)
        file.seek(0)
        patch = file.read(MAX_PATCH_BYTES + 1)
    text = patch[:MAX_PATCH_BYTES].decode("utf-8", "replace")
    return {"patch": text, "patch_truncated": len(patch) > MAX_PATCH_BYTES}


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its description for a client's model, its arguments, and the function that runs it."""

    description: str
    arguments: type[Arguments]
    run: Callable[[Client, Any, Report], Awaitable[dict[str, Any]]]
    read_only: bool = False


TOOLS = {
    "start_session": Tool("Starts a coding agent on a task and returns at once.", StartArguments, start_session),
    "send": Tool("Sends a session a message; an idle session continues with it.", SendArguments, send),
    "status": Tool("Shows what a session is doing.", SessionArguments, status, read_only=True),
    "result": Tool(
        "Waits for the end of a session's run and returns its answer, output, changed files and cost.",
        ResultArguments,
        result,
        read_only=True,
    ),
    "cancel": Tool("Cancels a session's run; a later message continues it.", SessionArguments, cancel),
}
