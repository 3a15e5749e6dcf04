"""The room that a step asks for its answer, and what a refusal of it says."""

from __future__ import annotations

from dataclasses import replace

from app.agent.conversation import AgentConfig, Conversation
from app.context.budget import less_output
from app.errors import ContextOverflowError


class AnswerRoom:
    """Lowers the room for the answer for one step, where a provider says that prompt and answer together are too
    large."""

    def __init__(self) -> None:
        self._refused_limit = 0
        self._less: int | None = None
        self._was_less = False

    def of_step(self, config: AgentConfig) -> AgentConfig:
        """The configuration of the next step, which may write less than usual."""
        self._refused_limit = config.budget.limit
        less, self._less = self._less, None
        self._was_less = less is not None
        if less is None:
            return config
        return replace(config, budget=replace(config.budget, output_reserve=min(less, config.budget.output_reserve)))

    def helps(self, error: ContextOverflowError | None, config: AgentConfig, conversation: Conversation) -> bool:
        """Whether the next step can fit although the provider has refused this one, with the context as it is. Once:
        a step that was refused with less room needs a smaller context."""
        budget = config.budget
        if config.model != conversation.generation.model:
            # The session has another model by now, of which this says nothing.
            return True
        if conversation.estimate > budget.usable:
            return False
        if budget.limit < self._refused_limit:
            # Only the room for the answer was too large for the window, as it is known now.
            return True
        if error is None or error.prompt is None or self._was_less:
            return False
        self._less = less_output(budget, error.limit or budget.limit, error.prompt)
        return self._less is not None
