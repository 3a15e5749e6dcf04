"""What the agent needs from above, as protocols. What it tells its sink is in `changes`."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from app.agent.changes import Change, RoundCompleted, RoundOpening
from app.context.checkpoints import InForce
from app.messages import Message
from app.sandbox.base import Sandbox, Stream
from app.sessions import ApprovalDecision, ApprovalEnd

LivePartType = Literal["text", "reasoning", "tool_call", "tool_result"]


@dataclass(frozen=True, slots=True)
class LivePart:
    """A part that is being written; `name` is a tool's."""

    type: LivePartType
    message_id: str
    part_id: str
    index: int
    call_id: str | None = None
    name: str | None = None


class Sink(Protocol):
    """Takes everything that happens, in order."""

    def record(self, *changes: Change) -> Awaitable[int]:
        """Submits changes to be committed and published together. They are taken at once, in order of the calls; the
        awaitable gives, after the commit, the seq of the first of their events (0 where they have none). Awaiting it
        may be left out, put off or cancelled without undoing anything. Raises `StaleOwnerError` where another owner
        has taken over, `StorageError` where the database refused."""
        ...

    def open_round(self, opening: RoundOpening) -> Awaitable[int]:
        """Begins a round of compaction and gives its number. Raises as `record` does."""
        ...

    def complete_round(self, completed: RoundCompleted, *changes: Change) -> Awaitable[int | InForce]:
        """Stores a round with the changes that go with it, and gives the seq of its summary. Where the rounds that it
        builds upon are in force no more, it is closed as discarded instead, nothing else is stored, and the answer is
        what is in force now. Raises as `record` does."""
        ...

    def live(self, part: LivePart, text: str, *, stream: Stream = "stdout") -> None:
        """Shows a piece of a part that is being written. Never waits, never stores more than one text a part."""
        ...


class Inbox(Protocol):
    """The session's queue, as its run sees it."""

    async def deliver(self) -> Sequence[Message]:
        """Moves the pending steering messages into the history, in order; gives them as stored. The first time in a
        run that has none of them, it is the oldest follow-up."""
        ...

    @property
    def waiting(self) -> bool:
        """Whether a steering message may be pending; false is certain enough to skip looking before a step."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a call that waited; `reason` is what a person gave with it."""

    decision: ApprovalDecision
    by: ApprovalEnd
    reason: str | None = None


class ApprovalDesk(Protocol):
    """Where calls wait for a person."""

    async def decisions(self, message_id: str) -> Mapping[str, Decision]:
        """Waits until all calls of a message that were held are decided, by a person or by their time; gives the
        decisions by call id. May be cancelled, and asked again. Raises as `Sink.record` does."""
        ...

    def withdraw(self, by: ApprovalEnd) -> None:
        """Ends what still waits, since its calls will not run. It is committed in order with the sink's changes."""
        ...


class SandboxSource(Protocol):
    """Gives the session's sandbox, started."""

    async def __call__(self) -> Sandbox: ...
