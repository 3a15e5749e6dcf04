"""When a context is to be made smaller, by its policy."""

from __future__ import annotations

from app.agent.conversation import AgentConfig, Conversation
from app.context.budget import Budget, trigger
from app.context.policies import CompactionSettings
from app.messages import Role
from app.sessions import CompactionReason

PREPARE_SHARE = 0.8
"""Share of the trigger from which a summary is prepared in the background."""

NEAR_SHARE = 0.9
"""Share of the trigger from which a run's end is a good time to clear old outputs."""


def due(conversation: Conversation, config: AgentConfig) -> CompactionReason | None:
    """Why the context is too large now, None where it is not or the settings leave that to the provider."""
    budget, settings = config.budget, config.settings
    if not settings.auto:
        return None
    tokens = conversation.state(budget).tokens
    if tokens > budget.usable:
        return "overflow"
    limit = trigger(budget, settings)
    match settings.policy:
        case "threshold":
            return "threshold" if conversation.estimate >= limit else None
        case "handoff":
            early = settings.handoff_threshold > 0 and tokens >= limit
            return "threshold" if early else None
    return None


def most(budget: Budget, settings: CompactionSettings) -> int:
    """The largest context that the policy does not act on: `reactive` acts beyond its trigger, the others at it."""
    tokens = min(trigger(budget, settings), budget.usable)
    return tokens if settings.policy == "reactive" else tokens - 1


def is_coming(conversation: Conversation, config: AgentConfig, unused: int = 0) -> bool:
    """Whether the trigger is so near that a summary may be prepared. After one that was begun at `unused` tokens and
    not needed, half of the way that was left then must be gone, so that runs that end there cost a few and not one
    each."""
    limit = trigger(config.budget, config.settings)
    least = max(PREPARE_SHARE * limit, (unused + limit) / 2 if unused < limit else 0)
    return conversation.state(config.budget).tokens >= least


def is_at_work(conversation: Conversation) -> bool:
    """Whether the next request brings results of tools. An answer to a message may well be the run's last."""
    return conversation.last is not None and conversation.last.role is Role.TOOL


def is_near(conversation: Conversation, config: AgentConfig) -> bool:
    """Whether the settings have old outputs cleared at a run's end, and the trigger is near enough for it."""
    if not (config.settings.auto and config.settings.prune_at_end):
        return False
    return conversation.estimate >= NEAR_SHARE * trigger(config.budget, config.settings)
