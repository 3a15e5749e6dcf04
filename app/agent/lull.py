"""Keeps what cannot be done about a context from being looked for in every step."""

from __future__ import annotations

from math import inf

from app.agent.conversation import AgentConfig, Conversation
from app.context.budget import Budget
from app.context.policies import CompactionSettings

MESSAGES_A_STEP = 100
"""Messages that a step may look at on average. A look reads the whole context, so that after one the steps without
another are as many as it has hundreds of messages; a shorter context is looked at in every step."""


class Lull:
    """The steps after a look that came to nothing, for one purpose. It ends when a generation begins, or budget or
    settings change."""

    def __init__(self) -> None:
        self._of: tuple[str, Budget, CompactionSettings] | None = None
        self._steps: float = 0

    def begin(self, conversation: Conversation, config: AgentConfig, *, for_good: bool = False) -> None:
        """There is nothing to be done about the context as it is; `for_good`, also when it has grown."""
        self._of = _key(conversation, config)
        self._steps = inf if for_good else len(conversation.transcript.messages) // MESSAGES_A_STEP

    def lasts(self, conversation: Conversation, config: AgentConfig) -> bool:
        """Whether there still is nothing, as far as can be told without looking; asked once in a step."""
        self._steps -= 1
        return self._steps >= 0 and self._of == _key(conversation, config)

    def end(self) -> None:
        """The context is looked at again in any case."""
        self._of = None


def _key(conversation: Conversation, config: AgentConfig) -> tuple[str, Budget, CompactionSettings]:
    return conversation.generation.id, config.budget, config.settings
