"""Rounds that somebody asks for, whatever the size of the context."""

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
    """A round that somebody asked for; its number was given when it was accepted."""

    number: int
    settings: CompactionSettings
    instructions: str | None = None


class Refusal(NamedTuple):
    """Why a round that somebody asked for is not made: code and detail of its `compaction.failed`."""

    code: RungCode
    detail: str


NOTHING = Refusal("nothing_to_compact", "There is nothing old enough: all that the context holds has to stay.")


def asked_round(conversation: Conversation, config: AgentConfig, asked: ManualRound, budget: Budget) -> Round:
    """The round, with what it must reach. `budget` is that of its own settings; the next step goes by the session's
    again, in which the context has to fit as well."""
    tokens = min(most(budget, asked.settings), config.budget.usable)
    target = Target(tokens, conversation.size)
    batch = prunable(conversation, budget, asked.settings)
    return Round(asked.number, config, asked.settings, target, batch, asked.instructions, asked_budget=budget)


def asked_selection(conversation: Conversation, round: Round) -> Selection | Refusal:
    """What a round covers that somebody asks for, with the longest tail that leaves a smaller context.

    Whoever asks wants a smaller context, and expects the newest turns to stay as they are. So the policy's own tail
    comes first. It may be all that there is, as in any context much smaller than usable; then the newest turns alone
    stay, then fewer of them, then the newest steps up to a quarter of the context, and only where that is not enough
    either all is covered that the model has seen. What a selection leaves is measured with prose made without a model,
    so that none is asked for a summary that saves nothing. Only a context that is too large for its settings, which
    clipping may help, goes up the ladder all the same.
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
        detail = f"{size}, which is not less than the {round.target.before:,} of now; no model was asked for one."
    else:
        detail = f"{size}; {round.target.tokens:,} are wanted at most. No model was asked for one."
    return Refusal("not_small_enough", detail)


def _ever_more(conversation: Conversation, round: Round) -> Iterator[Selection]:
    """What could be covered, from the policy's own choice up to all that the model has seen; each once."""
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
    """The settings with ever shorter tails than their own: without its least size, then of half as many turns or
    messages at a time."""
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
