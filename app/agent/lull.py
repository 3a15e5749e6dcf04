"""Skips looking for ways to shrink a context for some steps after a look that found none."""

from __future__ import annotations

from math import inf

from app.agent.conversation import AgentConfig, Conversation
from app.context.budget import Budget
from app.context.policies import CompactionSettings

MESSAGES_A_STEP = 100
"""Messages that a step may read on average for this. A look reads the whole context, so it is followed by one step
without a look for every hundred messages; a shorter context is looked at in every step."""


class Lull:
    """The steps skipped after a look that found nothing, for one purpose. It ends when a generation begins or the
    budget or settings change."""

    def __init__(self) -> None:
        self._of: tuple[str, Budget, CompactionSettings] | None = None
        self._steps: float = 0

    def begin(self, conversation: Conversation, config: AgentConfig, *, for_good: bool = False) -> None:
        """Nothing can be done about the context as it is; with `for_good` not even when it has grown."""
        self._of = _key(conversation, config)
        self._steps = inf if for_good else len(conversation.transcript.messages) // MESSAGES_A_STEP

    def lasts(self, conversation: Conversation, config: AgentConfig) -> bool:
        """Whether to skip this step's look; call once per step."""
        self._steps -= 1
        return self._steps >= 0 and self._of == _key(conversation, config)

    def end(self) -> None:
        """The next step looks in any case."""
        self._of = None


def _key(conversation: Conversation, config: AgentConfig) -> tuple[str, Budget, CompactionSettings]:
    return conversation.generation.id, config.budget, config.settings
