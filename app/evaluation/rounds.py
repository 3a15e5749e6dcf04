"""The result of a round of compaction that is only measured: nothing is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass

from app.agent.changes import Change, ModelUsed, OutputsPruned, RoundCompleted, RoundOpening, RungFailed
from app.agent.ports import LivePart
from app.context.checkpoints import InForce
from app.messages import Usage
from app.sandbox.base import Stream
from app.sessions import Rung


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The result of a round. `rung` is what made the context smaller, None if nothing did, and then `problem` says why;
    `usage` is the cost of its model calls, including failed ones, and `failures` are the rungs that failed."""

    rung: Rung | None
    usage: Usage
    failures: tuple[RungFailed, ...] = ()
    messages_compacted: int = 0
    outputs_pruned: int = 0
    summary: str | None = None
    problem: str | None = None


class RoundNotes:
    """A sink that keeps what one round records."""

    def __init__(self) -> None:
        self._made: RoundCompleted | None = None
        self._pruned: OutputsPruned | None = None
        self._usage = Usage()
        self._failures: list[RungFailed] = []

    def record(self, *changes: Change) -> Awaitable[int]:
        for change in changes:
            match change:
                case RoundCompleted():
                    self._made = change
                case OutputsPruned():
                    self._pruned = change
                case RungFailed():
                    self._failures.append(change)
                case ModelUsed(usage=usage):
                    self._usage = self._usage + usage
        return _ready(0)

    def open_round(self, opening: RoundOpening) -> Awaitable[int]:
        return _ready(1)

    def complete_round(self, completed: RoundCompleted, *changes: Change) -> Awaitable[int | InForce]:
        self.record(completed, *changes)
        return _ready(completed.summary.seq)

    def live(self, part: LivePart, text: str, *, stream: Stream = "stdout") -> None:
        """Do nothing: nobody watches."""

    def result(self, problem: str) -> RoundResult:
        """The result of the round; `problem` is used if it failed, unless its last rung reported why."""
        failures, made, pruned = tuple(self._failures), self._made, self._pruned
        if made is not None:
            return RoundResult(made.rung, self._usage, failures, made.messages_compacted, len(made.pruned), made.prose)
        if pruned is not None:
            return RoundResult("prune", self._usage, failures, outputs_pruned=len(pruned.call_ids))
        if failures:
            problem = f"{failures[-1].detail} ({failures[-1].code})"
        return RoundResult(None, self._usage, failures, problem=problem)


def _ready(value: int) -> Awaitable[int]:
    """A result that is ready and need not be awaited."""
    future = asyncio.get_running_loop().create_future()
    future.set_result(value)
    return future
