"""What the agent reports: everything that happens in a run, as the changes given to its sink; and the codes of
`compaction.failed`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, NewType

from app.context.checkpoints import Checkpoint
from app.context.prompts import Generation
from app.context.summary import FaultCode
from app.context.validator import Repair
from app.errors import PalimpsestError
from app.messages import FinishReason, ImagePart, Message, ReasoningPart, TextPart, ToolCallPart, ToolResultPart, Usage
from app.sessions import CompactionReason, ContextState, PlanItem, PruneReason, Rung

ErrorCode = NewType("ErrorCode", str)
"""The code of an error that kept a model from being called, the same as for a run that fails with it."""
RoundCode = Literal[
    FaultCode,
    "summary_is_output",
    "too_many_calls",
    "context_overflow",
    "internal_error",
    "nothing_to_summarise",
    "not_small_enough",
    "nothing_to_compact",
]
"""The codes specific to rounds. Each needs an entry in `docs/errors.md`, which cannot be generated without it."""
RungCode = RoundCode | ErrorCode


@dataclass(frozen=True, slots=True)
class GenerationOpened:
    """A new context generation; requests from now on are rendered from it. `pruned` and `restored` are the call ids
    whose outputs it clears and shows again; `repairs` are the repairs it was begun for, if any."""

    generation: Generation
    pruned: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    repairs: tuple[Repair, ...] = ()


@dataclass(frozen=True, slots=True)
class StepOpened:
    """An attempt at a step begins; `message_id` is the assistant message that it fills."""

    step: int
    attempt: int
    message_id: str
    model: str
    generation: int
    context: ContextState
    compaction_round: int = 0


@dataclass(frozen=True, slots=True)
class PartClosed:
    """The model has finished a part of its message. One that `is_shown` later has its event then."""

    message_id: str
    part: TextPart | ReasoningPart | ToolCallPart
    is_shown: bool = True


@dataclass(frozen=True, slots=True)
class ResponseClosed:
    """The model's stream has ended: the message is complete and its calls may start. `usage` is the attempt's, `tokens`
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
    """The attempt failed and will be retried after `delay_ms`: its message and all its parts no longer count. Its
    `usage` still does."""

    step: int
    attempt: int
    message_id: str
    usage: Usage
    delay_ms: int
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class CallsHeld:
    """`calls` of a message wait for approval, for `timeout_s` seconds, or indefinitely if that is None. No call of the
    message starts before all of them are decided, so this is committed with the change that would start them."""

    message_id: str
    calls: tuple[ToolCallPart, ...]
    timeout_s: float | None


@dataclass(frozen=True, slots=True)
class CallsAwaited:
    """Clients have to post the results of `calls`, or sub-agents have to produce them, each with its timeout in
    seconds, None for none. No other call of the message without a result has started."""

    message_id: str
    calls: tuple[tuple[ToolCallPart, float | None], ...]


@dataclass(frozen=True, slots=True)
class CallsReleased:
    """Nothing is waited for anymore: the calls of the message that have no result start."""

    message_id: str


class ResultImage(NamedTuple):
    """An image of a result, as a part that names it, and its bytes."""

    part: ImagePart
    data: bytes


@dataclass(frozen=True, slots=True)
class ResultClosed:
    """A call has a result. `message_id` is the tool message that holds the results of the step, and their `images`.
    `is_posted` says that it was a client's to post."""

    message_id: str
    part: ToolResultPart
    output_ref: str | None = None
    is_posted: bool = False
    images: tuple[ResultImage, ...] = ()


@dataclass(frozen=True, slots=True)
class StepClosed:
    """The step is over, including its tool results. `usage` covers all its attempts, billed to `model`;
    `input_transformations` is how the provider says it changed the request."""

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
    """A control message is added to the history; its seq is assigned on commit."""

    message: Message


@dataclass(frozen=True, slots=True)
class PlanChanged:
    items: tuple[PlanItem, ...]


@dataclass(frozen=True, slots=True)
class OutputsPruned:
    """Old outputs are cleared from the context; the tokens are the context's. With `with_round` the outputs are
    cleared together with a round, whose own tokens give the size of the context: these tokens then count only what
    clearing frees. `image_ids` are the parts that are cleared images."""

    reason: PruneReason
    call_ids: tuple[str, ...]
    tools: tuple[str, ...]
    tokens_before: int
    tokens_after: int
    with_round: bool = False
    image_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RungFailed:
    """A rung of a round failed; `next` is tried instead, None ends the round. `usage` is that of its model calls, which
    were billed one by one."""

    round: int
    rung: Rung
    code: RungCode
    detail: str
    usage: Usage
    next: Rung | None


@dataclass(frozen=True, slots=True)
class SummaryDelayed:
    """A round's request for a summary failed, and is sent again after `delay_ms`; `attempt` is the one that failed."""

    round: int
    attempt: int
    delay_ms: int
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class ModelUsed:
    """A model call of a round, billed to the session and the round in one commit, so that a crash loses neither."""

    model: str
    usage: Usage
    round: int


@dataclass(frozen=True, slots=True)
class RoundCompleted:
    """A round has made the context smaller. `base` are the rounds in force that it builds on; `counted` says that
    `tokens_after` is the provider's own count. The summary covers `first_message_id` to `last_message_id`; both are
    None if the round only clipped messages."""

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
    """A round was cancelled or discarded. A round that failed ends with its last `RungFailed` instead."""

    round: int
    status: Literal["cancelled", "discarded"]


@dataclass(frozen=True, slots=True)
class RoundOpening:
    """What is known about a round when it begins; the sink assigns its number."""

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
    | CallsAwaited
    | CallsReleased
    | AttemptVoided
    | ResultClosed
    | StepClosed
    | ControlAdded
    | PlanChanged
    | OutputsPruned
    | RungFailed
    | SummaryDelayed
    | ModelUsed
    | RoundCompleted
    | RoundEnded
)


class SummaryFailed(Exception):
    """A model gave no summary; `code` and `detail` say why, and `is_away` that its provider did not answer."""

    def __init__(self, code: RungCode, detail: str, *, is_away: bool = False) -> None:
        super().__init__(detail)
        self.code: RungCode = code
        self.detail = detail
        self.is_away = is_away

    @classmethod
    def by(cls, error: PalimpsestError, *, is_away: bool = False) -> SummaryFailed:
        """From an error, with its code and detail unchanged."""
        return cls(ErrorCode(error.code), error.detail, is_away=is_away)
