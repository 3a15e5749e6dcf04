"""When a context is made smaller: by its policy or because a user requests it, with a cooldown after a check without
result and an escalation of rounds that freed little."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from app.agent.changes import RungCode
from app.agent.compaction.rounds import LEAST_RECENT, Round, Target, folded, is_hopeless, prunable, selection
from app.agent.conversation import Conversation
from app.agent.protocols import AgentConfig
from app.context.budget import Budget, trigger
from app.context.policies import CompactionSettings
from app.context.selection import Selection, after_last_summary, is_request
from app.context.tokens import counted_tokens
from app.messages import Role
from app.sessions import CompactionReason, Rung

PREPARE_SHARE = 0.8
"""Share of the trigger from which a summary is prepared in the background."""
NEAR_SHARE = 0.9
"""Share of the trigger from which old outputs are cleared at the end of a run."""

MESSAGES_A_STEP = 100
"""Messages that a step may read on average for this. A check reads the whole context, so it is followed by one step
without a check for every hundred messages; a shorter context is checked in every step."""

BACKOFF_S, BACKOFF_CAP_S = 5.0, 120.0
"""Seconds until a provider that was away is asked for a summary again, at first and at most: its steps wait too."""
CROWDED_STEPS = 10
CROWDED_ROUNDS = 3
"""This many rounds within this many steps did not help enough: the next one starts a rung further up."""
LITTLE = 0.1
"""A round that freed less than this share freed too little."""
NEWEST_SHARE = 0.25
"""Share of a small context that a manual round keeps at least: its newest steps."""


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


class Cooldown:
    """The steps skipped after a check that found nothing, for one purpose. It ends when a generation begins or the
    budget or settings change."""

    def __init__(self) -> None:
        self._of: tuple[str, Budget, CompactionSettings] | None = None
        self._steps: float = 0

    def begin(self, conversation: Conversation, config: AgentConfig, *, for_good: bool = False) -> None:
        """The context cannot be made smaller as it is; with `for_good` not even when it has grown."""
        self._of = _key(conversation, config)
        self._steps = inf if for_good else len(conversation.transcript.messages) // MESSAGES_A_STEP

    def lasts(self, conversation: Conversation, config: AgentConfig) -> bool:
        """Whether to skip this step's look; call once per step."""
        self._steps -= 1
        return self._steps >= 0 and self._of == _key(conversation, config)

    def end(self) -> None:
        """The next step looks in any case."""
        self._of = None


class Backoff:
    """The time without a round while the summarizer's provider is away; the first look is worth an attempt, each later
    one waits twice as long."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._s = 0.0
        self._until = 0.0

    def extend(self) -> None:
        """The provider was away."""
        self._s = min(2 * self._s, BACKOFF_CAP_S) or BACKOFF_S
        self._until = self._clock() + self._s

    def lasts(self) -> bool:
        """Whether it is too early to ask again."""
        return self._clock() < self._until

    def end(self) -> None:
        """The provider has answered."""
        self._s = self._until = 0.0


def _key(conversation: Conversation, config: AgentConfig) -> tuple[str, Budget, CompactionSettings]:
    return conversation.generation.id, config.budget, config.settings


@dataclass(frozen=True, slots=True)
class _Past:
    """A finished round: its step, and the share of the context that it freed."""

    step: int
    freed: float


class Escalation:
    """Remembers the last automatic rounds."""

    def __init__(self) -> None:
        self._past: deque[_Past] = deque(maxlen=CROWDED_ROUNDS)

    def note(self, step: int, target: Target, after: int) -> None:
        """Records a round that left `after` tokens."""
        self._past.append(_Past(step, 1 - after / max(1, target.before)))

    def first_rung(self, step: int) -> Rung:
        """The first rung of the next round: further up the ladder if the last ones did not help for long."""
        crowded = len(self._past) == CROWDED_ROUNDS and step - self._past[0].step < CROWDED_STEPS
        little = len(self._past) >= 2 and all(past.freed < LITTLE for past in list(self._past)[-2:])
        return "fold" if crowded or little else "summary"

    def start_over(self) -> None:
        """A round has started further up; the next one may ask a model again."""
        self._past.clear()


@dataclass(frozen=True, slots=True)
class ManualRound:
    """A round requested by a user; its number was assigned when it was accepted."""

    number: int
    settings: CompactionSettings
    instructions: str | None = None


class Refusal(NamedTuple):
    """Why a manual round is not made: code and detail of its `compaction.failed`."""

    code: RungCode
    detail: str


NOTHING = Refusal("nothing_to_compact", "Nothing is old enough to compact: everything in the context must stay.")


def manual_round(conversation: Conversation, config: AgentConfig, manual: ManualRound, budget: Budget) -> Round:
    """The round and its target. `budget` is that of the round's own settings; the context must also fit the session's
    budget, which applies to the next step: if it does not fit now, notes written without a model are better than no
    round."""
    tokens = min(most(budget, manual.settings), config.budget.usable)
    target = Target(tokens, conversation.size)
    batch = prunable(conversation, budget, manual.settings)
    return Round(
        manual.number,
        config,
        manual.settings,
        target,
        batch,
        manual.instructions,
        manual_budget=budget,
        must=target.before > config.budget.usable,
    )


def manual_selection(conversation: Conversation, round: Round) -> Selection | Refusal:
    """What a manual round covers: the selection with the longest tail that makes the context smaller.

    The user wants a smaller context and expects the newest turns to stay unchanged. So the policy's own tail is tried
    first. It may be the whole context, if that is much smaller than usable; then only the newest turns stay, then fewer
    of them, then the newest steps up to a quarter of the context, and finally everything the model has seen is covered.
    Each selection is measured with prose made without a model, so that no model is asked for a summary that saves
    nothing. Only a context that is too large for its settings, which clipping may help, climbs the ladder anyway.
    """
    first, least = None, round.target.before
    for found in _ever_more(conversation, round):
        tokens = folded(conversation, round, found).tokens
        if round.target.accepts(tokens):
            return found
        first = first or found
        least = min(least, tokens) if found is not first else tokens
    if first is None:
        return NOTHING
    if round.target.before > round.target.tokens and not is_hopeless(conversation, round, first):
        return first
    return _no_smaller(round, least)


def _no_smaller(round: Round, tokens: int) -> Refusal:
    size = f"With a summary the context would have about {tokens:,} tokens"
    if tokens >= round.target.before:
        detail = f"{size}, which is not less than the current {round.target.before:,}; no model was asked for one."
    else:
        detail = f"{size}, more than the target of {round.target.tokens:,}. No model was asked for one."
    return Refusal("not_small_enough", detail)


def _ever_more(conversation: Conversation, round: Round) -> Iterator[Selection]:
    """Selections from the policy's own choice up to everything the model has seen, without duplicates."""
    last_seq = None
    for settings in (round.settings, *_shorter_tails(conversation, round.settings)):
        found = selection(conversation, replace(round, settings=settings))
        if found is not None and found.last_seq != last_seq:
            last_seq = found.last_seq
            yield found
    found = selection(conversation, round, urgent=True)
    if found is not None and found.last_seq != last_seq:
        yield found


def _shorter_tails(conversation: Conversation, settings: CompactionSettings) -> Iterator[CompactionSettings]:
    """The settings with ever shorter tails: first without the minimum tail size, then with half as many turns or
    messages each time."""
    messages = conversation.transcript.messages
    match settings.policy:
        case "reactive":
            fresh = messages[after_last_summary(messages) :]
            turns = min(settings.min_turns_to_keep, sum(map(is_request, fresh)))
            while turns:
                yield settings.model_copy(update={"min_turns_to_keep": turns, "tail_tokens": 0})
                turns //= 2
            tokens = int(NEWEST_SHARE * sum(map(counted_tokens, fresh)))
            yield settings.model_copy(update={"min_turns_to_keep": 0, "tail_tokens": tokens})
        case "threshold":
            recent = min(settings.recent_messages_to_keep, len(messages)) // 2
            while recent >= LEAST_RECENT:
                yield settings.model_copy(update={"recent_messages_to_keep": recent})
                recent //= 2
