"""What a session was in the middle of when its server ended, read from what that server had stored."""

from __future__ import annotations

from typing import Literal, get_args

from tests.soak.database import Row, Stored

Doing = Literal[
    "asking the model",
    "streaming",
    "running tools",
    "between attempts",
    "between steps",
    "compacting",
    "preparing a summary",
    "idle",
]
DOINGS: tuple[Doing, ...] = get_args(Doing)
IN_A_STEP: frozenset[Doing] = frozenset({"asking the model", "streaming", "running tools"})


def doings_of(stored: Stored) -> set[Doing]:
    """All activities at once: a summary may be prepared while the model streams. Text is stored within a quarter of a
    second, so some that count as waiting for the model had begun to stream."""
    now: Doing = "idle" if stored.row["status"] == "idle" else _of_run(stored)
    kinds = {bool(entry["background"]) for entry in stored.rounds if entry["status"] == "running"}
    # A manual round requested in the middle of a step starts after it.
    if False in kinds and now not in IN_A_STEP:
        now = "compacting"
    return {now, "preparing a summary"} if True in kinds else {now}


def _of_run(stored: Stored) -> Doing:
    """Where a run stands in its newest step, or after it."""
    if not stored.steps:
        return "between steps"
    attempt = stored.steps[-1]
    (message,) = [message for message in stored.messages if message["id"] == attempt["message_id"]]
    if message["voided_at"] is not None:
        return "between attempts" if attempt["duration_ms"] is None else "between steps"
    parts = [part for part in stored.parts if part["message_id"] == message["id"]]
    if message["finish_reason"] is None:
        return "streaming" if parts else "asking the model"
    return "running tools" if _open_calls(stored, parts) else "between steps"


def _open_calls(stored: Stored, parts: list[Row]) -> set[str]:
    answered = {part["call_id"] for part in stored.parts if part["type"] == "tool_result"}
    return {part["call_id"] for part in parts if part["type"] == "tool_call"} - answered
