"""The calls of one model message until all have results, and a step left waiting by an earlier owner."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field

from app.agent.changes import CallsHeld, StepOpened
from app.context.tokens import PER_MESSAGE, estimate_part
from app.messages import FinishReason, Message, Role, ToolCallPart, ToolResultPart, ToolStatus, Usage, new_id, now


@dataclass(slots=True)
class Batch:
    """The calls of one message and their results so far; `message_id` is the tool message that holds the results. No
    call starts while any is `held`."""

    calls: Sequence[ToolCallPart]
    held: CallsHeld | None = None
    message_id: str = field(default_factory=new_id)
    results: dict[str, ToolResultPart] = field(default_factory=dict)
    recorded: list[Awaitable[int]] = field(default_factory=list)

    @property
    def ordered(self) -> tuple[ToolResultPart, ...]:
        return tuple(self.results[call.call_id] for call in self.calls if call.call_id in self.results)

    async def stored(self) -> None:
        """Waits until the results so far are committed, so that an owner that has been replaced starts no more calls.
        Shielded: a cancellation would otherwise cancel the futures, which are awaited again."""
        for recorded in self.recorded:
            await asyncio.shield(recorded)

    async def message(self) -> Message:
        """The tool message, once all its results are committed."""
        seqs = [await recorded for recorded in self.recorded]
        tokens = PER_MESSAGE + sum(part.tokens for part in self.ordered)
        return Message(
            id=self.message_id, seq=min(seqs), role=Role.TOOL, parts=self.ordered, tokens=tokens, created_at=now()
        )


def result_without_run(index: int, call: ToolCallPart, status: ToolStatus, note: str) -> ToolResultPart:
    """The result of a call that did not run; `note` says why."""
    part = ToolResultPart(id=new_id(), index=index, call_id=call.call_id, name=call.name, output=note, status=status)
    return part.model_copy(update={"tokens": estimate_part(part)})


@dataclass(frozen=True, slots=True)
class WaitingStep:
    """A step whose calls wait for approval, left by an earlier owner of the session: the attempt that made the calls,
    how its answer ended, the step's cost, and how long, in seconds, it has been running."""

    opened: StepOpened
    finish_reason: FinishReason
    calls: tuple[ToolCallPart, ...]
    held: CallsHeld
    usage: Usage
    known_cost_usd: float
    elapsed_s: float
