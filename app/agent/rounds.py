"""A round of compaction in progress: its settings, its target, and the context that it would make."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from app.agent.conversation import AgentConfig
from app.context.budget import Budget
from app.context.policies import CompactionSettings
from app.context.projection import Checkpoint
from app.context.pruning import PruneBatch
from app.messages import Message
from app.sessions import Rung


class Room(Enum):
    """The result of fitting a context; after `REVERTED` it must be looked at again, since a round was reverted
    meanwhile."""

    ENOUGH = "enough"
    MADE = "made"
    REVERTED = "reverted"
    STOPPED = "stopped"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Target:
    """What a smaller context must reach, in calibrated tokens: at most `tokens`, and below `before`."""

    tokens: int
    before: int

    def accepts(self, tokens: int) -> bool:
        return tokens <= self.tokens and tokens < self.before


@dataclass(frozen=True, slots=True)
class Round:
    """A round in progress. `settings` are its own: a manual round's may differ from the session's, and then so does its
    budget, `asked_budget`. `batch` are old outputs that are cleared with it."""

    number: int
    config: AgentConfig
    settings: CompactionSettings
    target: Target
    batch: PruneBatch | None = None
    instructions: str | None = None
    asked_budget: Budget | None = None
    started: float = field(default_factory=time.monotonic)

    @property
    def budget(self) -> Budget:
        """The budget that it measures by."""
        return self.asked_budget or self.config.budget

    @property
    def cleared(self) -> tuple[str, ...]:
        """The calls whose outputs are cleared with it."""
        return self.batch.call_ids if self.batch is not None else ()

    def batch_beside(self, covered: Iterable[Message]) -> PruneBatch | None:
        """The part of its batch that is cleared next to a summary that covers `covered`."""
        return self.batch.beside(covered) if self.batch is not None else None

    @property
    def elapsed_ms(self) -> int:
        return int((time.monotonic() - self.started) * 1000)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A context that would be smaller: its checkpoint with the summary, the messages that it covers, and its size;
    `counted` if the provider counted it."""

    checkpoint: Checkpoint
    summary: Message
    prose: str
    rung: Rung
    covered: tuple[Message, ...]
    tokens: int
    counted: bool = False
