"""The output tokens reserved for a step's answer, and what to do when a provider refuses them."""

from __future__ import annotations

from dataclasses import replace

from app.agent.conversation import AgentConfig, Conversation
from app.context.budget import less_output
from app.errors import ContextOverflowError


class AnswerRoom:
    """Lowers the output reserve for one step after a provider says that prompt and answer together are too large."""

    def __init__(self) -> None:
        self._refused_limit = 0
        self._less: int | None = None
        self._was_less = False

    def of_step(self, config: AgentConfig) -> AgentConfig:
        """The configuration of the next step; its output reserve may be smaller than usual."""
        self._refused_limit = config.budget.limit
        less, self._less = self._less, None
        self._was_less = less is not None
        if less is None:
            return config
        return replace(config, budget=replace(config.budget, output_reserve=min(less, config.budget.output_reserve)))

    def helps(self, error: ContextOverflowError | None, config: AgentConfig, conversation: Conversation) -> bool:
        """Whether the next step can fit with the context unchanged, although the provider refused this one. A step that
        was refused with a reduced reserve needs a smaller context."""
        budget = config.budget
        if config.model != conversation.generation.model:
            # The session uses another model now; this refusal says nothing about it.
            return True
        if conversation.estimate > budget.usable:
            return False
        if budget.limit < self._refused_limit:
            # Only the output reserve was too large for the window as it is known now.
            return True
        if error is None or error.prompt is None or self._was_less:
            return False
        self._less = less_output(budget, error.limit or budget.limit, error.prompt)
        return self._less is not None
