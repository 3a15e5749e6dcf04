"""What a round of compaction covers: which old outputs it clears and which messages its summary stands for."""

from __future__ import annotations

from app.agent.candidates import candidate, facts, summary_cap
from app.agent.conversation import Conversation
from app.agent.rounds import Candidate, Round
from app.context.budget import Budget, tail_bounds, trigger
from app.context.policies import CompactionSettings
from app.context.pruning import PruneBatch, may_do, select_prunable
from app.context.selection import Selection, select
from app.context.shrinking import shrunk, spilled
from app.context.tokens import counted_tokens, estimate_text

ROOMY = 0.75
"""Share of a target that a smaller context is to leave alone: else the very next step would meet the trigger again."""

SUMMARY_SHARE = 0.2
"""Share of such a context that a summary is taken to have, where its cap is larger."""

LEAST_SUMMARY = 100
"""Tokens of the shortest prose that is of any use: the headings that it is asked for, with a line under each."""

SHORTEST = "." * 4 * LEAST_SUMMARY
"""A prose of that length: its size alone counts."""

LEAST_RECENT = 2
"""Messages that `threshold` keeps even where they are large: the last call with its result."""


def prunable(conversation: Conversation, budget: Budget, settings: CompactionSettings) -> PruneBatch | None:
    """Old outputs that may be cleared now by these settings; only `reactive` clears any."""
    if settings.policy != "reactive":
        return None
    return select_prunable(conversation.transcript.messages, settings, budget, conversation.in_force.pruned)


def may_be_cleared(conversation: Conversation, budget: Budget, settings: CompactionSettings) -> bool:
    """Whether clearing alone may do once the trigger is reached, if what comes until then can be cleared too."""
    if settings.policy != "reactive":
        return False
    left = trigger(budget, settings) - conversation.state(budget).tokens
    growth = max(0, int(left / conversation.calibration.factor))
    return may_do(conversation.transcript.messages, settings, budget, conversation.in_force.pruned, growth)


def selection(
    conversation: Conversation, round: Round, *, urgent: bool = False, spill: bool = False
) -> Selection | None:
    """What a round would cover now, with the outputs of its batch cleared; `urgent`: it must cover something, `spill`:
    or clip what always stays."""
    in_force = conversation.in_force.clearing(round.cleared)
    return select(
        conversation.rows,
        in_force.checkpoints,
        _with_room(conversation, round),
        round.budget,
        round.config.model,
        pruned=in_force.pruned,
        urgent=urgent,
        spill=spill,
        task_id=conversation.task_id,
    )


def shortest(conversation: Conversation, round: Round, selection: Selection) -> Candidate:
    """The context that the shortest summary of any use would leave, with its facts: no model's leaves a smaller one."""
    return candidate(conversation, round, selection, SHORTEST, "summary")


def is_hopeless(conversation: Conversation, round: Round, selection: Selection) -> bool:
    """Whether not even the last rung would do: then there is nothing to ask a model for."""
    *_, least = selection, *shrunk(selection)
    return not round.target.accepts(candidate(conversation, round, least, "", "shrink").tokens)


def covering(conversation: Conversation, round: Round, *, must: bool) -> Selection | None:
    """What a round would cover, if the last rung at least would do; `must` is one without which there is no next step:
    where the requests that always stay are too large for it, they are clipped. None where nothing helps."""
    found = selection(conversation, round)
    chosen = selection(conversation, round, urgent=True) if found is None and must else found
    if chosen is not None and not is_hopeless(conversation, round, chosen):
        return chosen
    if not must:
        return None
    found = found or selection(conversation, round, spill=True)
    return None if found is None else _spilled(conversation, round, found)


def _spilled(conversation: Conversation, round: Round, selection: Selection) -> Selection | None:
    """The selection with as much of its requests as leaves room to work in, else as little as is ever shown of them;
    None where even that is too large."""
    fits = None
    for smaller in spilled(selection):
        *_, least = smaller, *shrunk(smaller)
        made = candidate(conversation, round, least, "", "shrink")
        if round.target.accepts(made.tokens):
            fits = smaller
            if made.tokens <= ROOMY * round.target.tokens:
                break
    return fits


def _with_room(conversation: Conversation, round: Round) -> CompactionSettings:
    """The round's settings with a shorter tail where little room is left beside what always stays, as on a small
    window: the next steps are to fit before the next round is due."""
    settings = round.settings
    aim = ROOMY * trigger(round.budget, settings) / conversation.calibration.factor
    stays = conversation.generation.fixed_tokens + min(summary_cap(settings, round.budget), int(aim * SUMMARY_SHARE))
    stays += estimate_text(facts(conversation, round.budget))
    room = max(0, int(aim - stays))
    if settings.policy == "threshold":
        recent = min(settings.recent_messages_to_keep, max(LEAST_RECENT, _messages_within(conversation, room)))
        return settings.model_copy(update={"recent_messages_to_keep": recent})
    least = tail_bounds(round.budget, settings).least
    return settings if room >= least else settings.model_copy(update={"tail_tokens": room})


def _messages_within(conversation: Conversation, tokens: int) -> int:
    """How many of the newest messages fit into so many tokens."""
    count = 0
    for message in reversed(conversation.transcript.messages):
        tokens -= counted_tokens(message)
        if tokens < 0:
            break
        count += 1
    return count
