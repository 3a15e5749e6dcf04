"""What the agent needs from above, as protocols, and what a session asks of it. What it reports to its sink is in
`changes`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from app.agent.changes import Change, RoundCompleted, RoundOpening
from app.context.budget import Budget
from app.context.checkpoints import InForce
from app.context.policies import DEFAULT, CompactionSettings
from app.context.tokens import Calibration
from app.llm.base import ToolSchema
from app.messages import Message
from app.sandbox.base import Sandbox, Stream
from app.sessions import Approval, ApprovalDecision, ApprovalEnd, ReasoningEffort
from app.tools.base import OutputSink
from app.tools.output import OutputLimit

LivePartType = Literal["text", "reasoning", "tool_call", "tool_result"]


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """What a session may change between steps. `system` is the system text without the plan; `calibration` is what is
    known about the model's tokenizer; `summary_template` is the operator's summary template, None for the built-in one.
    `approval` says which calls wait for approval, `reasoning_effort` None is the model's default. `binds_thinking` and
    `echoes_reasoning` are properties of the model, `sees_images` is false for one known to see none, and
    `has_seen_images` is whether it has accepted any; see `ModelInfo`. `has_output` is whether a run ends by
    `submit_output` rather than with a text."""

    model: str
    tools: tuple[ToolSchema, ...]
    system: str
    budget: Budget
    calibration: Calibration = field(default_factory=Calibration)
    settings: CompactionSettings = DEFAULT
    temperature: float | None = None
    reasoning_effort: ReasoningEffort | None = None
    summary_template: str | None = None
    approval: Approval = field(default_factory=Approval)
    binds_thinking: bool = False
    echoes_reasoning: bool = False
    sees_images: bool = True
    has_seen_images: bool = False
    has_output: bool = False


@dataclass(frozen=True, slots=True)
class LivePart:
    """A part that is being written; `name` is the tool's."""

    type: LivePartType
    message_id: str
    part_id: str
    index: int
    call_id: str | None = None
    name: str | None = None


class Sink(Protocol):
    """Receives everything that happens, in order."""

    def record(self, *changes: Change) -> Awaitable[int]:
        """Submits changes to be committed and published together. They are taken at once, in the order of the calls;
        the awaitable gives, after the commit, the seq of their first event (0 if they have none). Awaiting it may be
        skipped, delayed or cancelled without undoing anything. Raises `StaleOwnerError` if another owner has taken
        over, `SupersededError` if another server has, and `StorageError` if the database refused."""
        ...

    def open_round(self, opening: RoundOpening) -> Awaitable[int]:
        """Begins a round of compaction and returns its number. Raises like `record`."""
        ...

    def complete_round(self, completed: RoundCompleted, *changes: Change) -> Awaitable[int | InForce]:
        """Stores a round with the changes that go with it, and returns the seq of its summary. If the rounds that it
        builds on are no longer in force, it is closed as discarded, nothing else is stored, and the result is what is
        in force now. Raises like `record`."""
        ...

    def live(self, part: LivePart, text: str, *, stream: Stream = "stdout") -> None:
        """Shows a piece of a part that is being written. Never waits, and keeps at most one text per part."""
        ...


class MessageSource(Protocol):
    """The session's queue, as its run sees it."""

    async def deliver(self) -> Sequence[Message]:
        """Moves the pending steering messages into the history, in order, and returns them as stored. The first call of
        a run without steering messages takes the oldest follow-up instead."""
        ...

    @property
    def waiting(self) -> bool:
        """Whether a steering message may be pending; if false, a step need not look."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """How a waiting call was decided; `reason` is the user's."""

    decision: ApprovalDecision
    by: ApprovalEnd
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ClientAnswer:
    """What a client has posted as the result of a call, or a sub-agent has answered; None if it did not in time.
    `waited_s` and `timeout_s` are in seconds."""

    text: str | None
    is_error: bool
    waited_s: float
    timeout_s: float | None


class CallGate(Protocol):
    """Where calls wait, for approval, a client or a sub-agent."""

    async def decisions(self, message_id: str) -> Mapping[str, Decision]:
        """Waits until all held calls of a message are decided, by a user or by timeout; returns the decisions by call
        id. May be cancelled and called again. Raises like `Sink.record`."""
        ...

    async def answers(self, message_id: str, calls: Collection[str]) -> Mapping[str, ClientAnswer]:
        """Waits for the result of any of these calls of a message from a client or a sub-agent, or the end of its time;
        returns the results that have arrived, by call id. May be cancelled and called again. Raises like
        `Sink.record`."""
        ...

    def withdraw(self, by: ApprovalEnd) -> None:
        """Ends all waits, since their calls will not run. Committed in order with the sink's changes."""
        ...


class FileWatch(Protocol):
    """Is notified of the files and folders that tools use."""

    async def before(self, path: str) -> None:
        """Awaited before a tool uses a path. Raises the error that the model gets instead of the result."""
        ...

    def after(self, path: str) -> None:
        """A tool has used a path."""
        ...


class NoFileWatch:
    """Does nothing."""

    async def before(self, path: str) -> None: ...

    def after(self, path: str) -> None: ...


class SandboxSource(Protocol):
    """Returns the session's sandbox, started."""

    async def __call__(self) -> Sandbox: ...


class CollectedOutput(Protocol):
    @property
    def text(self) -> str: ...
    @property
    def truncated(self) -> bool: ...
    @property
    def bytes(self) -> int: ...
    @property
    def ref(self) -> str | None: ...


class Collector(OutputSink, Protocol):
    """Collects one call's output as it arrives, then returns what the model sees and where the rest is."""

    async def finish(self, note: str = "") -> CollectedOutput: ...


CollectorFactory = Callable[[str, Callable[[Stream, str, int], None], OutputLimit], Collector]
"""Makes a call's collector from the call id, a callback for the live preview (stream, text, offset) and a limit."""
