"""A session's events as updates of the protocol."""

from __future__ import annotations

import posixpath
import sys
from pathlib import Path
from typing import Any

from acp.helpers import SessionUpdate as BaseUpdate
from acp.helpers import ToolCallContentVariant, text_block, tool_content, tool_diff_content, update_plan
from acp.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    Cost,
    PlanEntry,
    ToolCallLocation,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    ToolKind,
    UsageUpdate,
    UserMessageChunk,
)

from app.cli.approvals import SILENT, Call
from app.cli.client import ServerEvent
from app.cli.retries import failed_attempt
from app.sandbox.base import WORKSPACE

SessionUpdate = BaseUpdate | UsageUpdate

MAX_DIFF_BYTES = 256 * 1024
"""Largest file whose text before a change is shown."""
_KINDS: dict[str, ToolKind] = {
    "execute_command": "execute",
    "command_output": "execute",
    "stop_command": "execute",
    "read_file": "read",
    "list_directory": "read",
    "recall": "read",
    "memory_read": "read",
    "write_file": "edit",
    "edit_file": "edit",
    "search_files": "search",
    "history_search": "search",
    "memory_search": "search",
}


class Updates:
    """Translates a session's events, in order. `own` is the id of the editor's message, which it shows already."""

    def __init__(self, folder: Path, own: str | None = None) -> None:
        self._folder = folder
        self._own = own
        self._sent: dict[str, int] = {}
        self._void: set[str] = set()
        self._replying: str | None = None
        self._calls: dict[str, ToolKind] = {}

    def take(self, event: ServerEvent) -> list[SessionUpdate]:
        data = event.data
        match event.event:
            case "text.delta" | "text.completed":
                return self._text(data, AgentMessageChunk, "agent_message_chunk")
            case "reasoning.delta" | "reasoning.completed":
                return self._text(data, AgentThoughtChunk, "agent_thought_chunk")
            case "message.created":
                return self._message(data["message"])
            case "tool.call":
                return self._call(data)
            case "tool.result":
                return self._result(data)
            case "plan.updated":
                entries = [_entry(item) for item in data["items"]]
                return [update_plan(entries)]
            case "step.retrying":
                self._void.add(data["message_id"])
                return [_thought(f"↻ {failed_attempt(data, is_partial=self._replying == data['message_id'])}\n")]
            case "compaction.retrying":
                return [_thought(f"↻ summary of round {data['round']}: {failed_attempt(data)}\n")]
            case "step.finished":
                return usage(data["context"], None)
        return []

    def _text(self, data: dict[str, Any], chunk: type[Any], kind: str) -> list[SessionUpdate]:
        """What is new in a part: live text repeats after a lost connection, and the last event has all of it."""
        part, offset = data["part_id"], data.get("offset", 0)
        if data["message_id"] in self._void:
            return []
        sent = self._sent.get(part, 0)
        new = data["text"][max(0, sent - offset) :]
        # In a cluster, text may still come after the end of its part.
        self._sent[part] = max(sent, offset + len(data["text"])) if "offset" in data else sys.maxsize
        if not new:
            return []
        self._replying = data["message_id"]
        return [chunk(session_update=kind, content=text_block(new), message_id=data["message_id"])]

    def _message(self, message: dict[str, Any]) -> list[SessionUpdate]:
        if message["role"] != "user" or message["id"] == self._own:
            return []
        return [
            UserMessageChunk(
                session_update="user_message_chunk", content=text_block(part["text"]), message_id=message["id"]
            )
            for part in message["parts"]
            if part["type"] == "text"
        ]

    def _call(self, data: dict[str, Any]) -> list[SessionUpdate]:
        call_id, call = data["call_id"], Call(data["name"], data["arguments"])
        if call.name in SILENT or call_id in self._calls:
            return []
        self._calls[call_id] = kind = kind_of(call)
        return [
            ToolCallStart(
                session_update="tool_call",
                tool_call_id=call_id,
                title=call.headline(),
                kind=kind,
                status="in_progress",
                content=diffs(call, self._folder) or None,
                locations=locations(call, self._folder) or None,
                raw_input=call.arguments,
            )
        ]

    def _result(self, data: dict[str, Any]) -> list[SessionUpdate]:
        kind = self._calls.pop(data["call_id"], None)
        if kind is None:
            return []
        good = data["status"] == "completed"
        # The content of a successful edit stays its diff.
        content = None if good and kind == "edit" else [tool_content(text_block(data["output"]))]
        return [
            ToolCallProgress(
                session_update="tool_call_update",
                tool_call_id=data["call_id"],
                status="completed" if good else "failed",
                content=content,
            )
        ]


def kind_of(call: Call) -> ToolKind:
    return _KINDS.get(call.name, "other")


def permission(call_id: str, call: Call, folder: Path) -> ToolCallUpdate:
    """A call as the editor shows it to ask for permission."""
    return ToolCallUpdate(
        tool_call_id=call_id,
        title=call.headline(),
        kind=kind_of(call),
        status="pending",
        content=diffs(call, folder) or None,
        locations=locations(call, folder) or None,
        raw_input=call.arguments,
    )


def locations(call: Call, folder: Path) -> list[ToolCallLocation]:
    """The file that a call uses, by its path in the editor's folder."""
    path = _path(call, folder)
    if path is None or kind_of(call) == "execute":
        return []
    line = call.arguments.get("start_line") if isinstance(call.arguments, dict) else None
    return [ToolCallLocation(path=str(path), line=line if isinstance(line, int) and line >= 0 else None)]


def diffs(call: Call, folder: Path) -> list[ToolCallContentVariant]:
    """The diff of an edit."""
    path = _path(call, folder)
    if path is None or kind_of(call) != "edit":
        return []
    if call.name == "edit_file":
        return [tool_diff_content(str(path), call.argument("new_text"), call.argument("old_text"))]
    return [tool_diff_content(str(path), call.argument("content"), text_of(path))]


def text_of(path: Path) -> str | None:
    """The text of a file that is neither too large nor binary, else None."""
    try:
        if not path.is_file() or path.is_symlink() or path.stat().st_size > MAX_DIFF_BYTES:
            return None
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _path(call: Call, folder: Path) -> Path | None:
    """The path of a call's file in the folder; None if it has none there."""
    given = call.argument("path") if isinstance(call.arguments, dict) else ""
    if not given or "\0" in given:
        return None
    inside = posixpath.relpath(posixpath.join(WORKSPACE, given), WORKSPACE)
    return None if inside.split("/")[0] == ".." else folder / inside


def usage(context: dict[str, Any], cost_usd: float | None) -> list[SessionUpdate]:
    """How full the context is, and what the session has cost if that is known."""
    if not context.get("limit"):
        return []
    cost = None if cost_usd is None else Cost(amount=cost_usd, currency="USD")
    return [UsageUpdate(session_update="usage_update", used=context["tokens"], size=context["limit"], cost=cost)]


def _entry(item: dict[str, Any]) -> PlanEntry:
    return PlanEntry(content=item["text"], status=item["status"], priority="medium")


def _thought(text: str) -> SessionUpdate:
    return AgentThoughtChunk(session_update="agent_thought_chunk", content=text_block(text))
