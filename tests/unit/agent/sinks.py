"""A sink that keeps what it records."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import TypeVar

from app.agent.changes import (
    AttemptVoided,
    CallsHeld,
    CallsReleased,
    Change,
    ControlAdded,
    GenerationOpened,
    ModelUsed,
    OutputsPruned,
    PartClosed,
    PlanChanged,
    ResponseClosed,
    ResultClosed,
    RoundCompleted,
    RoundEnded,
    RoundOpening,
    RungFailed,
    StepClosed,
    StepOpened,
    SummaryDelayed,
)
from app.agent.protocols import LivePart
from app.context.checkpoints import InForce
from app.sandbox.base import Stream

C = TypeVar("C", bound=Change)

EVENTS_BETWEEN = 3
"""Events between a history's last message and a summary."""

_LETTERS: dict[type[Change], str] = {
    GenerationOpened: "G",
    ControlAdded: "K",
    StepOpened: "O",
    PartClosed: "P",
    AttemptVoided: "V",
    ResponseClosed: "C",
    CallsHeld: "A",
    CallsReleased: "B",
    ResultClosed: "R",
    StepClosed: "S",
    PlanChanged: "L",
    ModelUsed: "M",
    OutputsPruned: "X",
    RungFailed: "F",
    SummaryDelayed: "W",
    RoundCompleted: "D",
    RoundEnded: "E",
}


@dataclass
class KeptSink:
    """Keeps changes and live text in order, and returns seqs like the log: at once, except for changes of the kinds in
    `held`, which wait for `commit`, and of those in `refused`, which the database does not accept."""

    changes: list[Change] = field(default_factory=list)
    records: list[tuple[Change, ...]] = field(default_factory=list)
    lives: list[tuple[LivePart, str, Stream]] = field(default_factory=list)
    rounds: list[RoundOpening] = field(default_factory=list)
    reverted: InForce | None = None
    held: frozenset[type[Change]] = frozenset()
    refused: dict[type[Change], Exception] = field(default_factory=dict)
    _waiting: list[tuple[asyncio.Future[int], int]] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def open_round(self, opening: RoundOpening) -> Awaitable[int]:
        self.rounds.append(opening)
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        future.set_result(len(self.rounds))
        return future

    def record(self, *changes: Change) -> Awaitable[int]:
        seq = len(self.changes) + 1
        self.changes += changes
        self.records.append(changes)
        self._changed.set()
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        # What nobody awaits may fail silently.
        future.add_done_callback(lambda f: f.cancelled() or f.exception())
        kinds = {type(change) for change in changes}
        if errors := [error for kind, error in self.refused.items() if kind in kinds]:
            future.set_exception(errors[0])
        elif kinds & self.held:
            self._waiting.append((future, seq))
        else:
            future.set_result(seq)
        return future

    def complete_round(self, completed: RoundCompleted, *changes: Change) -> Awaitable[int | InForce]:
        """Returns a seq a little after the history, as if events had been written since its last message; with
        `reverted` nothing is stored, since that is in force now."""
        future: asyncio.Future[int | InForce] = asyncio.get_running_loop().create_future()
        if self.reverted is None:
            self.record(completed, *changes)
            future.set_result(completed.summary.seq + EVENTS_BETWEEN)
        else:
            self.record(RoundEnded(completed.checkpoint.round, "discarded"))
            future.set_result(self.reverted)
            self.reverted = None
        return future

    def live(self, part: LivePart, text: str, *, stream: Stream = "stdout") -> None:
        self.lives.append((part, text, stream))

    def text_of(self, part_id: str) -> str:
        return "".join(text for part, text, _ in self.lives if part.part_id == part_id)

    def commit(self) -> None:
        """Commits what was held, and holds no more."""
        self.held = frozenset()
        for future, seq in self._waiting:
            future.set_result(seq)

    def of(self, kind: type[C]) -> list[C]:
        """The changes of one kind, in order."""
        return [change for change in self.changes if isinstance(change, kind)]

    def seq_of(self, wanted: Change) -> int:
        """The seq returned for the record with this change."""
        seq = 1
        for record in self.records:
            if any(change is wanted for change in record):
                return seq
            seq += len(record)
        raise AssertionError("no such change")

    async def until(self, kind: type[Change], times: int = 1) -> None:
        """Waits until that many changes of a kind have been recorded."""
        while len(self.of(kind)) < times:
            self._changed.clear()
            await self._changed.wait()

    @property
    def shape(self) -> str:
        """What was recorded, a letter per change and a word per record: `GO P CS` is a generation and a step opened
        together, a part closed, and response and step closed together."""
        return " ".join("".join(_LETTERS[type(change)] for change in record) for record in self.records)
