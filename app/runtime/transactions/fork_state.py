"""The state of a session's context at a point of its log, and the seqs of messages and events in a fork. Pure functions
of values, without the database."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from app.context.checkpoints import Checkpoint
from app.db.repositories.events import StoredEvent
from app.messages import ImagePart, Message, Part, ToolResultPart, Usage, clearing_key

FIRST = 2
"""The seq of the first copied message or event in a fork; 1 is its own `session.created`."""


@dataclass(frozen=True, slots=True)
class PastEvent:
    """A decoded event of the parent's log."""

    seq: int
    type: str
    data: dict[str, Any]

    @property
    def at(self) -> datetime:
        return datetime.fromisoformat(self.data["at"])

    @property
    def round(self) -> int | None:
        """The number of its round of compaction."""
        return self.data["round"] if self.type.startswith("compaction.") else None

    @property
    def ends_round(self) -> bool:
        kind = self.type.removeprefix("compaction.")
        return kind in ("completed", "cancelled", "discarded") or (kind == "failed" and self.data["next"] is None)


def read_log(stored: Iterable[StoredEvent]) -> list[PastEvent]:
    """The events of a log, without those of rounds that were still running at its end."""
    log = [PastEvent(event.seq, event.type, orjson.loads(event.data)) for event in stored]
    ended = {event.round for event in log if event.ends_round}
    return [event for event in log if event.round is None or event.round in ended]


@dataclass(slots=True)
class Shape:
    """The state at the end of a log: ended rounds of compaction, completed ones with their times, reverted ones; calls
    whose outputs were cleared, with the times; the plan."""

    ended: set[int] = field(default_factory=set)
    made: dict[int, datetime] = field(default_factory=dict)
    reverted: set[int] = field(default_factory=set)
    cleared: dict[str, datetime] = field(default_factory=dict)
    plan: list[dict[str, Any]] = field(default_factory=list)

    @property
    def in_force(self) -> list[int]:
        """The rounds in force, ascending."""
        return sorted(self.made.keys() - self.reverted)


def shape_of(log: Iterable[PastEvent], cleared_by: Mapping[int, Sequence[str]]) -> Shape:
    """The state after the events of a log; `cleared_by` are the calls whose outputs each round has cleared."""
    shape = Shape()
    for event in log:
        number = event.round
        if number is not None:
            shape.ended.add(number)
        if event.type == "compaction.completed" and number is not None:
            shape.made[number] = event.at
            shape.cleared.update(dict.fromkeys(cleared_by.get(number, ()), event.at))
        elif event.type == "compaction.reverted" and number is not None:
            shape.reverted.add(number)
            for call_id in cleared_by.get(number, ()):
                shape.cleared.pop(call_id, None)
        elif event.type == "prune.completed":
            keys = [*event.data["call_ids"], *event.data.get("image_ids", ())]
            shape.cleared.update(dict.fromkeys(keys, event.at))
        elif event.type == "plan.updated":
            shape.plan = event.data["items"]
    return shape


class Numbers:
    """The seqs of a fork: those of its parent without the gaps of what is not copied."""

    def __init__(self, seqs: Iterable[int]) -> None:
        """`seqs` are the parent's seqs of everything that is copied."""
        self._old = sorted(seqs)

    def __len__(self) -> int:
        return len(self._old)

    def at(self, seq: int) -> int:
        """The new seq for this one, or for the first copied one after it."""
        return bisect_left(self._old, seq) + FIRST

    def until(self, seq: int) -> int:
        """The new seq for this one, or for the last copied one before it."""
        return bisect_right(self._old, seq) + FIRST - 1


def renumbered(
    history: Sequence[Message], numbers: Numbers, shape: Shape, checkpoints: Sequence[Checkpoint]
) -> list[Message]:
    """The messages of a fork: with its seqs, and the marks and rounds of the point at which it starts."""
    covering = _covering(history, checkpoints)
    return [
        message.model_copy(
            update={
                "seq": numbers.at(message.seq),
                "round": covering.get(message.id),
                "parts": tuple(_marked(part, shape) for part in message.parts),
            }
        )
        for message in history
    ]


def _covering(history: Sequence[Message], checkpoints: Sequence[Checkpoint]) -> dict[str, int]:
    """The round that covers each message, the latest one if there are several."""
    return {
        message.id: checkpoint.round
        for checkpoint in checkpoints
        for message in history
        if checkpoint.covers(message) and message.id not in checkpoint.kept
    }


def _marked(part: Part, shape: Shape) -> Part:
    if not isinstance(part, ToolResultPart | ImagePart):
        return part
    at = shape.cleared.get(clearing_key(part) or "")
    if at == part.compacted_at:
        return part
    return part.model_copy(update={"compacted_at": at, "original_tokens": part.tokens if at is not None else None})


def moved(checkpoint: Mapping[str, Any], numbers: Numbers) -> dict[str, Any]:
    """A stored checkpoint with its range in a fork's seqs."""
    first, last = numbers.at(checkpoint["first_seq"]), numbers.until(checkpoint["last_seq"])
    return {**checkpoint, "first_seq": first, "last_seq": last}


def copied(event: PastEvent, session_id: str, numbers: Numbers) -> StoredEvent:
    """An event as copied into a fork's log, without its cost, which was the parent's."""
    data = {**event.data, "session_id": session_id}
    if data.get("usage") is not None:
        data["usage"] = Usage().model_dump()
    return StoredEvent(numbers.at(event.seq), event.type, orjson.dumps(data).decode())
