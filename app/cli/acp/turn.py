"""One prompt of an editor, from the message to the end of the run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from acp import RequestError
from acp.helpers import start_tool_call, text_block, tool_content, tool_diff_content
from acp.interfaces import Client as Editor
from acp.schema import AllowedOutcome, PermissionOption, PromptResponse, StopReason, ToolCallLocation, Usage

from app.cli.acp.project import Applied, Project
from app.cli.acp.updates import SessionUpdate, Updates, permission, usage
from app.cli.approvals import Call, decide, pending
from app.cli.client import Client, ServerEvent
from app.cli.screen import Screen
from app.errors import PalimpsestError
from app.messages import new_id

ALLOW = PermissionOption(option_id="allow", name="Allow", kind="allow_once")
REJECT = PermissionOption(option_id="reject", name="Reject", kind="reject_once")


class Turn:
    """Sends a prompt, shows the run that takes it, and asks for permissions until the session is idle."""

    def __init__(self, client: Client, editor: Editor, session_id: str, project: Project) -> None:
        self._client = client
        self._editor = editor
        self._session_id = session_id
        self._project = project
        self._is_sent = self._is_cancelled = False
        self._questions: dict[str, asyncio.Task[None]] = {}

    async def cancel(self) -> None:
        """Cancels the run, or the prompt if it is not sent yet."""
        self._is_cancelled = True
        if self._is_sent:
            await self._client.call("POST", self._path("cancel"), json={"clear_queue": True})

    async def run(self, content: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        """Returns the data of `session.idle`, None if the prompt was cancelled before it was sent."""
        session = await self._client.session(self._session_id)
        parts = list(content)
        if session["status"] == "idle" and (note := await self._project.send(self._client, self._session_id)):
            parts.insert(0, {"type": "text", "text": note})
        if self._is_cancelled:
            return None
        message_id = new_id()
        await self._client.call("POST", self._path("queue"), json={"id": message_id, "content": parts})
        self._is_sent = True
        if self._is_cancelled:
            await self.cancel()
        for item in await pending(self._client, self._session_id):
            self._ask(item)
        try:
            end = await self._follow(session["last_seq"], Updates(self._project.path, message_id))
        finally:
            for question in self._questions.values():
                question.cancel()
        session = await self._client.session(self._session_id)
        for update in usage(session["context"], session["usage"]["cost_usd"]):
            await self._editor.session_update(self._session_id, update)
        return end

    async def _follow(self, after: int, updates: Updates) -> dict[str, Any]:
        """Shows all events until the session is idle. Returns the data of the last run's end."""
        end: dict[str, Any] = {}
        async with aclosing(self._client.follow(self._session_id, after)) as events:
            async for event in events:
                self._watch(event)
                if event.event == "session.idle":
                    end = event.data
                for update in updates.take(event):
                    await self._editor.session_update(self._session_id, update)
        return end

    def _watch(self, event: ServerEvent) -> None:
        if event.event == "approval.requested":
            self._ask(event.data)
        elif event.event == "approval.resolved" and (asked := self._questions.pop(event.data["call_id"], None)):
            asked.cancel()

    def _ask(self, item: dict[str, Any]) -> None:
        if item["call_id"] not in self._questions:
            work = self._permission(item["call_id"], Call(item["name"], item["arguments"]))
            self._questions[item["call_id"]] = asyncio.create_task(work)

    async def _permission(self, call_id: str, call: Call) -> None:
        """Asks the user about a call. Without an answer it waits, as long as the session's approvals do."""
        shown = permission(call_id, call, self._project.path)
        try:
            answer = await self._editor.request_permission(self._session_id, shown, [ALLOW, REJECT])
        except (RequestError, ConnectionError) as error:
            Screen(sys.stderr).line(f"the editor did not ask about a call: {error}")
            return
        if isinstance(answer.outcome, AllowedOutcome):
            decision = "approve" if answer.outcome.option_id == ALLOW.option_id else "deny"
            try:
                await decide(self._client, self._session_id, call_id, decision)
            except PalimpsestError as error:
                Screen(sys.stderr).line(f"the decision was not accepted: {error.detail}")

    def _path(self, name: str) -> str:
        return f"/v1/sessions/{self._session_id}/{name}"


_STOP_REASONS: dict[str, StopReason] = {
    "completed": "end_turn",
    "cancelled": "cancelled",
    "limit_reached": "max_turn_requests",
    "max_tokens": "max_tokens",
    "refusal": "refusal",
}
"""By an error's code, or by the run's outcome."""


def response(end: dict[str, Any] | None) -> PromptResponse:
    """The answer to a prompt. Raises `RequestError` if the run failed."""
    if end is None:
        return PromptResponse(stop_reason="cancelled")
    error = end.get("error") or {}
    reason = _STOP_REASONS.get(error.get("code", "")) or _STOP_REASONS.get(end.get("outcome", ""))
    if reason is None:
        raise RequestError(-32603, error.get("detail") or "The run did not complete.", {"code": error.get("code")})
    return PromptResponse(stop_reason=reason, usage=_usage(end["usage"]))


def _usage(run: dict[str, Any]) -> Usage:
    read, written = run["cache_read_tokens"], run["cache_write_tokens"]
    total = run["input_tokens"] + read + written + run["output_tokens"]
    return Usage(
        total_tokens=total,
        input_tokens=run["input_tokens"],
        output_tokens=run["output_tokens"],
        thought_tokens=run["reasoning_tokens"],
        cached_read_tokens=read,
        cached_write_tokens=written,
    )


def show_applied(applied: Applied, folder: Path) -> list[SessionUpdate]:
    """The outcome of a turn's changes, as a tool call: editors show its diffs, or why there are none."""
    files = f"{applied.files:,} changed file{'s' * (applied.files != 1)}"
    if applied.problem is None:
        shown = [tool_diff_content(str(each.path), each.after or "", each.before) for each in applied.differences]
        places = [ToolCallLocation(path=str(each.path)) for each in applied.differences]
        return [
            start_tool_call(
                f"apply-{new_id()}",
                f"Applied {files} to {folder}",
                kind="edit",
                status="completed",
                content=shown,
                locations=places,
            )
        ]
    text = (
        f"The folder was not changed, since the changes do not apply to it: {applied.problem}. They are in"
        f" {applied.patch}; `git apply --3way {applied.patch}` merges them. The session continues with the files of the"
        " folder."
    )
    title = f"Could not apply {files} to {folder}"
    content = [tool_content(text_block(text))]
    return [start_tool_call(f"apply-{new_id()}", title, kind="edit", status="failed", content=content)]
