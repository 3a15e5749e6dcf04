"""When a context should be made smaller, by policy."""

from __future__ import annotations

from app.agent.conversation import AgentConfig, Conversation
from app.context.budget import Budget, trigger
from app.context.policies import CompactionSettings
from app.messages import Role
from app.sessions import CompactionReason

PREPARE_SHARE = 0.8
"""Share of the trigger from which a summary is prepared in the background."""

NEAR_SHARE = 0.9
"""Share of the trigger from which old outputs are cleared at the end of a run."""


def due(conversation: Conversation, config: AgentConfig) -> CompactionReason | None:
    """Why the context is too large now; None if it is not, or if the settings leave that to the provider."""
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
    """The largest context that the policy accepts: `reactive` acts above its trigger, the others at it."""
    tokens = min(trigger(budget, settings), budget.usable)
    return tokens if settings.policy == "reactive" else tokens - 1


def is_coming(conversation: Conversation, config: AgentConfig, unused: int = 0) -> bool:
    """Whether the trigger is so near that a summary may be prepared. After one begun at `unused` tokens and not needed,
    the context must be halfway from there to the trigger, so that runs that end around there do not each pay for
    one."""
    limit = trigger(config.budget, config.settings)
    least = max(PREPARE_SHARE * limit, (unused + limit) / 2 if unused < limit else 0)
    return conversation.state(config.budget).tokens >= least


def is_at_work(conversation: Conversation) -> bool:
    """Whether the next request contains tool results. The answer to a user message may well be the run's last."""
    return conversation.last is not None and conversation.last.role is Role.TOOL


def is_near(conversation: Conversation, config: AgentConfig) -> bool:
    """Whether the settings clear old outputs at the end of a run, and the trigger is near enough for it."""
    if not (config.settings.auto and config.settings.prune_at_end):
        return False
    return conversation.estimate >= NEAR_SHARE * trigger(config.budget, config.settings)
