"""The history: assistant message first, then its results in order, and no call without a result."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import orjson

from tests.soak.database import Row, Stored

CLOSED = {"completed", "error", "denied", "cancelled", "interrupted"}


def check_history(stored: Stored) -> Iterator[str]:
    """Each call's result is in the message right after its own, in the order of the calls."""
    parts: dict[str, list[Row]] = defaultdict(list)
    for part in stored.parts:
        parts[part["message_id"]].append(part)
    counted = [m for m in stored.messages if m["voided_at"] is None and not m["is_summary"]]
    for place, message in enumerate(counted):
        calls = [part["call_id"] for part in parts[message["id"]] if part["type"] == "tool_call"]
        results = [part["call_id"] for part in parts[message["id"]] if part["type"] == "tool_result"]
        if results and (place == 0 or counted[place - 1]["role"] != "assistant"):
            yield f"results {results} stand behind no assistant message"
        if calls:
            following = counted[place + 1] if place + 1 < len(counted) else None
            answered = [p["call_id"] for p in parts[following["id"]]] if following is not None else []
            if answered != calls:
                yield f"message {message['id']} calls {calls}, the next one answers {answered}"
    known = {message["id"] for message in stored.messages}
    yield from (f"part {p['id']} is of no message" for p in stored.parts if p["message_id"] not in known)


def check_rest(stored: Stored) -> Iterator[str]:
    """Idle means idle: no status, no part, no step and no round says otherwise."""
    row = stored.row
    if row["status"] != "idle":
        yield f"status is {row['status']}"
    if row["cancel_requested"] or row["compaction_in_progress"]:
        yield f"cancel_requested {row['cancel_requested']}, compaction_in_progress {row['compaction_in_progress']}"
    void = {message["id"] for message in stored.messages if message["voided_at"] is not None}
    for part in stored.parts:
        if part["message_id"] not in void and (not part["closed"] or part["status"] not in {None, *CLOSED}):
            yield f"{part['type']} {part['id']} is open: closed {part['closed']}, status {part['status']}"
    newest = {step["step"]: step for step in stored.steps}
    yield from (f"step {number} has no finish reason" for number, s in newest.items() if s["finish_reason"] is None)
    yield from (f"round {r['round']} is running" for r in stored.rounds if r["status"] == "running")
    waiting = [entry["id"] for entry in stored.queue if entry["status"] == "pending"]
    if waiting and not row["queue_held"]:
        yield f"messages wait and nothing holds them: {waiting}"


def check_sums(stored: Stored) -> Iterator[str]:
    """The session's own counts are those of its rows."""
    steps = len({step["step"] for step in stored.steps})
    if stored.row["steps"] != steps:
        yield f"the session counts {stored.row['steps']} steps, there are {steps}"
    completed = [r for r in stored.rounds if r["status"] in ("completed", "reverted")]
    if stored.row["compaction_count"] != len(completed):
        yield f"the session counts {stored.row['compaction_count']} rounds, {len(completed)} were completed"
    yield from _check_usage(stored)


def _check_usage(stored: Stored) -> Iterator[str]:
    """Tokens by kind, with those of sub-agents; nothing is known of the models' prices."""
    spent = _tokens(stored.row)
    of_rows: Counter[str] = Counter()
    for row in [*stored.steps, *stored.rounds, *(child.row for child in stored.children)]:
        of_rows.update(_tokens(row))
    for kind, count in spent.items():
        if of_rows[kind] != count:
            yield f"the session has used {count} {kind}, its steps, rounds and sub-agents {of_rows[kind]}"


def _tokens(row: Row) -> dict[str, int]:
    used: dict[str, Any] = orjson.loads(row.get("usage") or "{}")
    return {kind: count for kind, count in used.items() if kind != "cost_usd"}
