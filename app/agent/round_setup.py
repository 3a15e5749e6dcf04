"""What the rounds of one conversation share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from app.agent.conversation import AgentConfig, Conversation
from app.agent.interrupt import Interrupt
from app.agent.ladder import Ladder
from app.agent.places import Places
from app.agent.ports import Sink
from app.context.budget import Budget
from app.context.policies import CompactionSettings


async def _nothing() -> None:
    """Do nothing: there are no notes, and the whole history was read."""


@dataclass(frozen=True, slots=True)
class RoundSetup:
    """One per conversation. `refreshed` returns a configuration with the workspace's notes read again, which a new
    checkpoint takes into its system text; `taken` is awaited when one does. `budget_of` divides a model's window by
    settings other than the session's; without it only the session's are used. `places` are the slots for background
    summaries. `know_past` is awaited before a round is prepared, which needs parts of the history that no step does,
    and `reread` after a round that was overtaken by a revert."""

    sink: Sink
    conversation: Conversation
    ladder: Ladder
    interrupt: Interrupt
    refreshed: Callable[[AgentConfig], Coroutine[Any, Any, AgentConfig]]
    taken: Callable[[], Awaitable[None]] = _nothing
    budget_of: Callable[[str, CompactionSettings], Budget] | None = None
    places: Places = field(default_factory=Places)
    know_past: Callable[[], Awaitable[None]] = _nothing
    reread: Callable[[], Awaitable[None]] = _nothing

    def budget(self, config: AgentConfig, settings: CompactionSettings) -> Budget:
        """The budget of the configuration's model under these settings."""
        if settings == config.settings or self.budget_of is None:
            return config.budget
        return self.budget_of(config.model, settings)
