"""The public event contract: every event of a session's stream.

A durable event is a `SessionEvent`; its `type` is the SSE event's name and its fields are the JSON data. It gets its
seq when it is committed. A live delta has no id and is never stored.

The types are grouped by subject: `sessions`, `messages`, `steps`, `parts`, `approvals`, `plan`, `compactions`; the
deltas are in `live`.
"""

from app.events.approvals import ApprovalRequested, ApprovalResolved
from app.events.base import SessionEvent
from app.events.compactions import (
    CompactionCancelled,
    CompactionCompleted,
    CompactionDiscarded,
    CompactionFailed,
    CompactionReverted,
    CompactionStarted,
    PruneCompleted,
)
from app.events.live import LIVE_EVENTS, ReasoningDelta, TextDelta, ToolArguments, ToolOutput
from app.events.messages import MessageCreated, MessageDequeued, MessageEdited, MessageQueued, MessageWithdrawn
from app.events.parts import ReasoningCompleted, TextCompleted, ToolCalled, ToolResulted
from app.events.plan import PlanItem, PlanUpdated
from app.events.sessions import (
    SessionCreated,
    SessionDeleted,
    SessionIdle,
    SessionRecovered,
    SessionRunning,
    SessionUpdated,
)
from app.events.steps import StepFinished, StepRetrying, StepStarted

__all__ = [
    "DURABLE_EVENTS",
    "LIVE_EVENTS",
    "ApprovalRequested",
    "ApprovalResolved",
    "CompactionCancelled",
    "CompactionCompleted",
    "CompactionDiscarded",
    "CompactionFailed",
    "CompactionReverted",
    "CompactionStarted",
    "MessageCreated",
    "MessageDequeued",
    "MessageEdited",
    "MessageQueued",
    "MessageWithdrawn",
    "PlanItem",
    "PlanUpdated",
    "PruneCompleted",
    "ReasoningCompleted",
    "ReasoningDelta",
    "SessionCreated",
    "SessionDeleted",
    "SessionEvent",
    "SessionIdle",
    "SessionRecovered",
    "SessionRunning",
    "SessionUpdated",
    "StepFinished",
    "StepRetrying",
    "StepStarted",
    "TextCompleted",
    "TextDelta",
    "ToolArguments",
    "ToolCalled",
    "ToolOutput",
    "ToolResulted",
]

DURABLE_EVENTS: tuple[type[SessionEvent], ...] = (
    SessionCreated,
    SessionUpdated,
    SessionDeleted,
    SessionRunning,
    SessionIdle,
    SessionRecovered,
    MessageQueued,
    MessageEdited,
    MessageWithdrawn,
    MessageDequeued,
    MessageCreated,
    StepStarted,
    TextCompleted,
    ReasoningCompleted,
    ToolCalled,
    ToolResulted,
    StepFinished,
    StepRetrying,
    ApprovalRequested,
    ApprovalResolved,
    PlanUpdated,
    PruneCompleted,
    CompactionStarted,
    CompactionCompleted,
    CompactionFailed,
    CompactionCancelled,
    CompactionReverted,
    CompactionDiscarded,
)
