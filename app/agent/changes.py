"""What the agent tells: everything that happens in a run, as the changes given to its sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from app.agent.faults import RungCode
from app.context.checkpoints import Checkpoint
from app.context.generation import Generation
from app.context.validator import Repair
from app.events import PlanItem
from app.messages import FinishReason, Message, ReasoningPart, TextPart, ToolCallPart, ToolResultPart, Usage
from app.sessions import CompactionReason, ContextState, PruneReason, Rung


@dataclass(frozen=True, slots=True)
class GenerationOpened:
    """A new context generation; requests from now on are rendered from it. `pruned` and `restored` are the call ids
    whose outputs are cleared with it, and shown again; `repairs` are what it was begun for where that is a repair."""

    generation: Generation
    pruned: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    repairs: tuple[Repair, ...] = ()


@dataclass(frozen=True, slots=True)
class StepOpened:
    """An attempt at a step begins: `message_id` is the assistant message that it will fill."""

    step: int
    attempt: int
    message_id: str
    model: str
    generation: int
    context: ContextState
    compaction_round: int = 0


@dataclass(frozen=True, slots=True)
class PartClosed:
    """The model has finished a part of its message."""

    message_id: str
    part: TextPart | ReasoningPart | ToolCallPart


@dataclass(frozen=True, slots=True)
class ResponseClosed:
    """The model's stream has ended: the message is whole and its calls may start. `usage` is the attempt's, `tokens`
    the message's estimate."""

    step: int
    attempt: int
    message_id: str
    finish_reason: FinishReason
    usage: Usage
    tokens: int
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class AttemptVoided:
    """The attempt failed and will be made again after `delay_ms`: its message with all its parts counts no more. What
    it used was used: `usage`."""

    step: int
    attempt: int
    message_id: str
    usage: Usage
    delay_ms: int
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class CallsHeld:
    """Calls of a message wait for a person: `calls`, for `timeout_s` seconds, or without end where that is None. No
    call of the message starts before all of them are decided, so it belongs to the change that would start them."""

    message_id: str
    calls: tuple[ToolCallPart, ...]
    timeout_s: float | None


@dataclass(frozen=True, slots=True)
class CallsReleased:
    """All that waited is decided: the calls of the message that have no result yet start."""

    message_id: str


@dataclass(frozen=True, slots=True)
class ResultClosed:
    """A call has its result. `message_id` is the tool message that holds the results of one step."""

    message_id: str
    part: ToolResultPart
    output_ref: str | None = None


@dataclass(frozen=True, slots=True)
class StepClosed:
    """The step is over, its results included. `usage` is that of all its attempts, billed to `model`;
    `input_transformations` is what the provider says it changed of the request."""

    step: int
    attempt: int
    message_id: str
    model: str
    finish_reason: FinishReason
    usage: Usage
    context: ContextState
    duration_ms: int
    input_transformations: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class ControlAdded:
    """A message of ours enters the history; its seq is given when it is committed."""

    message: Message


@dataclass(frozen=True, slots=True)
class PlanChanged:
    items: tuple[PlanItem, ...]


@dataclass(frozen=True, slots=True)
class OutputsPruned:
    """Old outputs are cleared from the context; tokens are the context's. `beside_round` are marks that come with a
    round, whose own tokens then say how large the context is: those of the marks are what they free by themselves."""

    reason: PruneReason
    call_ids: tuple[str, ...]
    tools: tuple[str, ...]
    tokens_before: int
    tokens_after: int
    beside_round: bool = False


@dataclass(frozen=True, slots=True)
class RungFailed:
    """A rung of a round did not do; `next` is tried instead, None gives the round up. `usage` is that of its model
    calls, which were billed one by one."""

    round: int
    rung: Rung
    code: RungCode
    detail: str
    usage: Usage
    next: Rung | None


@dataclass(frozen=True, slots=True)
class ModelUsed:
    """A model call of a round, billed to the session and to the round at once, so that a crash loses neither."""

    model: str
    usage: Usage
    round: int


@dataclass(frozen=True, slots=True)
class RoundCompleted:
    """A round has made the context smaller. `base` are the rounds in force that it builds upon; `counted` says that
    `tokens_after` is the provider's own count. What its summary stands for is from `first_message_id` to
    `last_message_id`; both are None for a round that has only clipped messages."""

    checkpoint: Checkpoint
    base: tuple[int, ...]
    summary: Message
    rung: Rung
    first_message_id: str | None
    last_message_id: str | None
    messages_compacted: int
    pruned: tuple[str, ...]
    tokens_before: int
    tokens_after: int
    prose: str
    duration_ms: int
    counted: bool = False


@dataclass(frozen=True, slots=True)
class RoundEnded:
    """A round has come to nothing: it was cancelled or discarded. One that failed ends with its last `RungFailed`."""

    round: int
    status: Literal["cancelled", "discarded"]


@dataclass(frozen=True, slots=True)
class RoundOpening:
    """What is known of a round when it begins; the sink gives it its number."""

    reason: CompactionReason
    policy: str
    tokens_before: int
    limit: int
    background: bool = False


Change = (
    GenerationOpened
    | StepOpened
    | PartClosed
    | ResponseClosed
    | CallsHeld
    | CallsReleased
    | AttemptVoided
    | ResultClosed
    | StepClosed
    | ControlAdded
    | PlanChanged
    | OutputsPruned
    | RungFailed
    | ModelUsed
    | RoundCompleted
    | RoundEnded
)
