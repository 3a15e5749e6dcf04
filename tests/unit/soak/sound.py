"""A sound session as the soak rig reads it from a database, to be broken by tests."""

from __future__ import annotations

from typing import Any

import orjson

from tests.soak.database import Logged, Row, Stored
from tests.soak.ledger import Edit, Said, SessionLedger, digest
from tests.soak.plan import SessionPlan

PLAN = SessionPlan("s", "soak-openai/large", "reactive", (), (), False)
TASK = "the task"
COMMAND = {"command": "echo c1 >> ran.log || exit 97; true"}


def log(*events: tuple[str, dict[str, Any]]) -> list[Logged]:
    """A log of these events, numbered from 1."""
    return [Logged(seq, kind, data, digest(orjson.dumps(data))) for seq, (kind, data) in enumerate(events, 1)]


def message(message_id: str, text: str) -> dict[str, Any]:
    return {"message": {"id": message_id, "parts": [{"text": text}]}}


def events() -> list[tuple[str, dict[str, Any]]]:
    """A task, a step with one command, an edited message, a manual round, and an answer."""
    return [
        ("session.created", {}),
        ("message.queued", {"message_id": "t", "mode": "steer", "content": TASK}),
        ("session.running", {"trigger": "message"}),
        ("message.dequeued", {"message_id": "t"}),
        ("message.created", message("t", TASK)),
        ("step.started", {"step": 1, "attempt": 1, "message_id": "a1"}),
        ("step.retrying", {"message_id": "a1"}),
        ("step.started", {"step": 1, "attempt": 2, "message_id": "a2"}),
        (
            "tool.call",
            {"message_id": "a2", "part_id": "p1", "call_id": "k1", "name": "execute_command", "arguments": COMMAND},
        ),
        ("message.queued", {"message_id": "m", "mode": "steer", "content": "more"}),
        ("message.edited", {"message_id": "m", "mode": "steer", "content": "less"}),
        ("message.queued", {"message_id": "f", "mode": "follow_up", "content": "later"}),
        ("message.withdrawn", {"message_id": "f"}),
        (
            "tool.result",
            {"message_id": "r", "part_id": "p2", "call_id": "k1", "status": "completed", "exit_code": 0, "output": ""},
        ),
        ("step.finished", {"step": 1, "message_id": "a2"}),
        ("message.dequeued", {"message_id": "m"}),
        ("message.created", message("m", "less")),
        ("compaction.started", {"round": 1}),
        ("compaction.completed", {"round": 1}),
        ("step.started", {"step": 2, "attempt": 1, "message_id": "a3"}),
        ("text.completed", {"message_id": "a3", "part_id": "p3", "text": "done"}),
        ("step.finished", {"step": 2, "message_id": "a3"}),
        ("session.idle", {"outcome": "completed", "error": None, "steps": 2}),
    ]


def _used(tokens: int) -> str:
    return orjson.dumps({"input_tokens": tokens, "cost_usd": None}).decode()


def _message(message_id: str, role: str, voided_at: int | None = None) -> Row:
    return {"id": message_id, "role": role, "voided_at": voided_at, "is_summary": False}


def _part(part_id: str, message_id: str, kind: str, call_id: str | None = None) -> Row:
    status = "completed" if call_id else None
    return {"id": part_id, "message_id": message_id, "type": kind, "call_id": call_id, "status": status, "closed": 1}


def stored(*logged: Logged) -> Stored:
    """The session with its rows, and with this log instead of its own if one is given."""
    own = list(logged) or log(*events())
    row = {
        "status": "idle",
        "last_seq": len(own),
        "cancel_requested": 0,
        "compaction_in_progress": 0,
        "queue_held": 0,
        "steps": 2,
        "compaction_count": 1,
        "usage": _used(6),
    }
    messages = [_message(*what) for what in (("t", "user"), ("a1", "assistant", 1), ("a2", "assistant"), ("r", "tool"))]
    messages += [_message("m", "user"), _message("a3", "assistant")]
    parts = [_part("p1", "a2", "tool_call", "k1"), _part("p2", "r", "tool_result", "k1"), _part("p3", "a3", "text")]
    steps: list[Row] = [
        {"step": 1, "finish_reason": None, "usage": _used(1)},
        {"step": 1, "finish_reason": "tool_calls", "usage": _used(2)},
        {"step": 2, "finish_reason": "stop", "usage": _used(3)},
    ]
    queue = [{"id": "t", "status": "delivered"}, {"id": "m", "status": "delivered"}, {"id": "f", "status": "withdrawn"}]
    return Stored(row, own, messages, parts, steps, [{"round": 1, "status": "completed"}], queue)


def ledger() -> SessionLedger:
    """What its user knows: a message that was edited, and one that was withdrawn."""
    more = Said("m", "more", "steer", 1.0, 2.0, "accepted", [Edit("less", "accepted")])
    later = Said("f", "later", "follow_up", 3.0, 4.0, "accepted", withdrawn="accepted")
    known = SessionLedger("s", PLAN, TASK, [more, later], settled=True, ran=["c1"])
    known.seen = {event.seq: (event.type, event.digest) for event in log(*events())}
    known.last_seq = len(known.seen)
    return known
