"""What a round of compaction covers: which old outputs it clears and which messages its summary replaces."""

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
"""A smaller context should use at most this share of a target: otherwise the very next step would trigger again."""

SUMMARY_SHARE = 0.2
"""Assumed share of such a context for a summary, if its cap is larger."""

LEAST_SUMMARY = 100
"""Tokens of the shortest useful prose: the required headings, with a line under each."""

SHORTEST = "." * 4 * LEAST_SUMMARY
"""Prose of that length: only its size counts."""

LEAST_RECENT = 2
"""Messages that `threshold` keeps even if they are large: the last call with its result."""


def prunable(conversation: Conversation, budget: Budget, settings: CompactionSettings) -> PruneBatch | None:
    """Old outputs that these settings allow to clear now; only `reactive` clears any."""
    if settings.policy != "reactive":
        return None
    return select_prunable(conversation.transcript.messages, settings, budget, conversation.in_force.pruned)


def may_be_cleared(conversation: Conversation, budget: Budget, settings: CompactionSettings) -> bool:
    """Whether clearing alone may be enough at the trigger, if everything that comes until then can be cleared too."""
    if settings.policy != "reactive":
        return False
    left = trigger(budget, settings) - conversation.state(budget).tokens
    growth = max(0, int(left / conversation.calibration.factor))
    return may_do(conversation.transcript.messages, settings, budget, conversation.in_force.pruned, growth)


def selection(
    conversation: Conversation, round: Round, *, urgent: bool = False, spill: bool = False
) -> Selection | None:
    """What a round would cover now, with the outputs of its batch cleared. With `urgent` it must cover something, with
    `spill` it may clip messages that always stay."""
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
    """The context with the shortest useful summary and its facts: no model's summary leaves a smaller one."""
    return candidate(conversation, round, selection, SHORTEST, "summary")


def is_hopeless(conversation: Conversation, round: Round, selection: Selection) -> bool:
    """Whether even the last rung would not be enough: then no model is asked."""
    *_, least = selection, *shrunk(selection)
    return not round.target.accepts(candidate(conversation, round, least, "", "shrink").tokens)


def covering(conversation: Conversation, round: Round, *, must: bool) -> Selection | None:
    """What a round would cover, if at least the last rung would be enough; None if nothing helps. With `must`, there
    is no next step without the round: if the requests that always stay are too large for it, they are clipped."""
    found = selection(conversation, round)
    chosen = selection(conversation, round, urgent=True) if found is None and must else found
    if chosen is not None and not is_hopeless(conversation, round, chosen):
        return chosen
    if not must:
        return None
    found = found or selection(conversation, round, spill=True)
    return None if found is None else _spilled(conversation, round, found)


def _spilled(conversation: Conversation, round: Round, selection: Selection) -> Selection | None:
    """The selection with the longest clips of its requests that leave room to work in, else the shortest clips that are
    allowed; None if even those are too large."""
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
    """The round's settings with a shorter tail if what always stays leaves little room, as in a small window: the next
    steps should fit before another round is due."""
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
    """How many of the newest messages fit into this many tokens."""
    count = 0
    for message in reversed(conversation.transcript.messages):
        tokens -= counted_tokens(message)
        if tokens < 0:
            break
        count += 1
    return count
