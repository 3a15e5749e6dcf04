"""When a context is to be made smaller, by its policy."""

from __future__ import annotations

from app.agent.conversation import AgentConfig, Conversation
from app.context.budget import Budget, trigger
from app.context.policies import CompactionSettings
from app.sessions import CompactionReason

PREPARE_SHARE = 0.8
"""Share of the trigger from which a summary is prepared in the background."""

NEAR_SHARE = 0.9
"""Share of the trigger from which a run's end is a good time to clear old outputs."""


def due(conversation: Conversation, config: AgentConfig) -> CompactionReason | None:
    """Why the context is too large now, None where it is not."""
    budget, settings = config.budget, config.settings
    state, estimate = conversation.state(budget), conversation.estimate
    if max(state.tokens, estimate if state.source != "reported" else 0) > budget.usable:
        return "overflow"
    limit = trigger(budget, settings)
    match settings.policy:
        case "threshold":
            return "threshold" if estimate >= limit else None
        case "handoff":
            early = settings.handoff_threshold > 0 and state.tokens >= limit
            return "threshold" if early else None
    return None


def most(budget: Budget, settings: CompactionSettings) -> int:
    """The largest context that the policy does not act on: `reactive` acts beyond its trigger, the others at it."""
    tokens = min(trigger(budget, settings), budget.usable)
    return tokens if settings.policy == "reactive" else tokens - 1


def is_coming(conversation: Conversation, config: AgentConfig) -> bool:
    """Whether the trigger is so near that a summary may be prepared."""
    return conversation.state(config.budget).tokens >= PREPARE_SHARE * trigger(config.budget, config.settings)


def is_near(conversation: Conversation, config: AgentConfig) -> bool:
    """Whether the trigger is so near that a run's end is a good time to clear old outputs."""
    return conversation.estimate >= NEAR_SHARE * trigger(config.budget, config.settings)
