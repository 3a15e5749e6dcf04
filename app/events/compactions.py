"""Events of the context: cleared outputs, and rounds of compaction."""

from __future__ import annotations

from typing import ClassVar

from app.events.base import SessionEvent
from app.messages import Usage
from app.sessions import CompactionFields, CompactionReason, PruneReason, Rung


class PruneCompleted(SessionEvent):
    """Old tool outputs were cleared from the context; the history keeps them. Tokens are those of the context."""

    type: ClassVar[str] = "prune.completed"
    reason: PruneReason
    call_ids: tuple[str, ...]
    outputs_pruned: int
    tokens_before: int
    tokens_after: int
    tokens_saved: int
    tools: tuple[str, ...]


class CompactionStarted(SessionEvent):
    """A round has started; a `background` one is prepared while the agent keeps working."""

    type: ClassVar[str] = "compaction.started"
    round: int
    reason: CompactionReason
    policy: str
    tokens_before: int
    limit: int
    background: bool = False


class CompactionCompleted(SessionEvent, CompactionFields):
    """The context is smaller from here on; `rung` says by which means."""

    type: ClassVar[str] = "compaction.completed"
    tokens_after: int
    was_pruned: bool
    was_summarized: bool


class CompactionFailed(SessionEvent):
    """A rung failed; `next` is the rung tried next, null if the round failed."""

    type: ClassVar[str] = "compaction.failed"
    round: int
    rung: Rung
    code: str
    detail: str
    usage: Usage
    next: Rung | None


class CompactionCancelled(SessionEvent):
    type: ClassVar[str] = "compaction.cancelled"
    round: int
    usage: Usage | None = None


class CompactionReverted(SessionEvent):
    """The context is as if the round had not happened; later messages and marks stay."""

    type: ClassVar[str] = "compaction.reverted"
    round: int
    usage: Usage | None = None


class CompactionDiscarded(SessionEvent):
    """A summary prepared in the background was not needed or no longer applies; `usage` is its cost."""

    type: ClassVar[str] = "compaction.discarded"
    round: int
    usage: Usage | None = None
