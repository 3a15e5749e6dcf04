"""Manual rounds: compaction on request, whatever the size of the context."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from app.agent.candidates import folded
from app.agent.conversation import AgentConfig, Conversation
from app.agent.coverage import LEAST_RECENT, is_hopeless, prunable, selection
from app.agent.faults import RungCode
from app.agent.rounds import Round, Target
from app.agent.triggers import most
from app.context.budget import TAIL_SHARE, Budget
from app.context.policies import CompactionSettings
from app.context.selection import Selection
from app.context.tokens import counted_tokens
from app.context.turns import after_last_summary, is_request


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


def asked_round(conversation: Conversation, config: AgentConfig, asked: ManualRound, budget: Budget) -> Round:
    """The round and its target. `budget` is that of the round's own settings; the context must also fit the session's
    budget, which applies to the next step."""
    tokens = min(most(budget, asked.settings), config.budget.usable)
    target = Target(tokens, conversation.size)
    batch = prunable(conversation, budget, asked.settings)
    return Round(asked.number, config, asked.settings, target, batch, asked.instructions, asked_budget=budget)


def asked_selection(conversation: Conversation, round: Round) -> Selection | Refusal:
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
            tokens = int(TAIL_SHARE * sum(map(counted_tokens, fresh)))
            yield settings.model_copy(update={"min_turns_to_keep": 0, "tail_tokens": tokens})
        case "threshold":
            recent = min(settings.recent_messages_to_keep, len(messages)) // 2
            while recent >= LEAST_RECENT:
                yield settings.model_copy(update={"recent_messages_to_keep": recent})
                recent //= 2
