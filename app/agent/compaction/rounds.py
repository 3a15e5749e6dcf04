"""A round of compaction: what it must reach, which old outputs it clears and which messages its summary stands for, the
contexts that it could make, and how many may be made in the background."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

from app.agent.conversation import Conversation
from app.agent.protocols import AgentConfig
from app.context.budget import RECENT_SHARE, Budget, tail_bounds, trigger
from app.context.checkpoints import Checkpoint
from app.context.clipping import clip_message
from app.context.facts_text import render_facts
from app.context.policies import CompactionSettings, given_settings
from app.context.selection import Selection, is_request, select
from app.context.shrinking import PruneBatch, may_do, select_prunable, shrunk, spilled
from app.context.summary import compose_summary, fold, prose_of
from app.context.tokens import PER_MESSAGE, counted_tokens, estimate_text
from app.messages import CompactionMarkerPart, Message, Role, TextPart, new_id, now
from app.sessions import Rung

TASK_TWICE = 500
"""Tokens of a task up to which the summary repeats it, although the task message itself stays."""
TASK_STAYS = "(The user's message with the task is in this conversation, word for word.)"
TASK_IS_LATEST = "(The task is the user's latest request, at the end of this summary, word for word.)"
WHOLE, CLIPPED = "word for word", "with its middle left out"
SUMMARY_CAP = 4_000
"""Maximum tokens of a summary if the policy sets no cap."""

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


@dataclass(slots=True)
class BackgroundSlots:
    """`most` summaries may be prepared at the same time; `refused` counts those that found no free slot."""

    most: int = 8
    taken: int = 0
    refused: int = 0

    def has_room(self) -> bool:
        """Whether a slot is free; if not, this counts as a refusal."""
        if self.taken < self.most:
            return True
        self.refused += 1
        return False

    def take(self) -> None:
        self.taken += 1

    def give_back(self) -> None:
        self.taken -= 1


class RoomResult(Enum):
    """The result of fitting a context; after `REVERTED` it must be looked at again, since a round was reverted
    meanwhile. `AWAY`: the summarizer's provider did not answer, and the context is unchanged."""

    ENOUGH = "enough"
    MADE = "made"
    REVERTED = "reverted"
    AWAY = "away"
    STOPPED = "stopped"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Target:
    """What a smaller context must reach, in calibrated tokens: at most `tokens`, and below `before`."""

    tokens: int
    before: int

    def accepts(self, tokens: int) -> bool:
        return tokens <= self.tokens and tokens < self.before


@dataclass(frozen=True, slots=True)
class Round:
    """A round in progress. `settings` are its own: a manual round's may differ from the session's, and then so does its
    budget, `manual_budget`. `batch` are old outputs that are cleared with it. Without `must` there is room for the next
    step, so a provider that is away is no reason for a summary without a model; `is_guess` says that a refusal may mean
    something else, so a provider that refuses the summary too is none either."""

    number: int
    config: AgentConfig
    settings: CompactionSettings
    target: Target
    batch: PruneBatch | None = None
    instructions: str | None = None
    manual_budget: Budget | None = None
    must: bool = False
    is_guess: bool = False
    started: float = field(default_factory=time.monotonic)

    @property
    def budget(self) -> Budget:
        """The budget that it measures by."""
        return self.manual_budget or self.config.budget

    @property
    def is_manual(self) -> bool:
        """Whether a user requested it."""
        return self.manual_budget is not None

    @property
    def cleared(self) -> tuple[str, ...]:
        """The calls whose outputs are cleared with it."""
        return self.batch.call_ids if self.batch is not None else ()

    def batch_beside(self, covered: Iterable[Message]) -> PruneBatch | None:
        """The part of its batch that is cleared next to a summary that covers `covered`."""
        return self.batch.without(covered) if self.batch is not None else None

    @property
    def elapsed_ms(self) -> int:
        return int((time.monotonic() - self.started) * 1000)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A context that would be smaller: its checkpoint with the summary, the messages that it covers, and its size;
    `counted` if the provider counted it."""

    checkpoint: Checkpoint
    summary: Message
    prose: str
    rung: Rung
    covered: tuple[Message, ...]
    tokens: int
    counted: bool = False


def summary_cap(settings: CompactionSettings, budget: Budget) -> int:
    """The longest summary, in tokens, that these settings allow within this budget."""
    return budget.summary_cap(settings.summary_max_tokens or SUMMARY_CAP)


def earlier_prose(selection: Selection) -> str | None:
    """The prose of the summary in force, without the facts around it; None without a summary."""
    return prose_of(selection.previous.text) if selection.previous is not None else None


def candidate(conversation: Conversation, round: Round, selection: Selection, prose: str, rung: Rung) -> Candidate:
    """The context that this prose would make, measured."""
    summary = _summary(conversation, round, selection, prose)
    checkpoint = Checkpoint(
        round.number, summary.id, selection.first_seq, selection.last_seq, selection.kept, selection.clips
    )
    in_force = conversation.in_force.covering(checkpoint).clearing(round.cleared)
    tokens = conversation.measure(in_force, summary, config=round.config)
    return Candidate(checkpoint, summary, prose, rung, selection.covered, tokens)


def folded(conversation: Conversation, round: Round, selection: Selection) -> Candidate:
    """The context that a summary made without a model would leave."""
    prose = fold(selection.covered, earlier_prose(selection), summary_cap(round.settings, round.budget))
    return candidate(conversation, round, selection, prose, "fold")


def facts(conversation: Conversation, budget: Budget, selection: Selection | None = None) -> str:
    """The computed facts about the work, within their share of the context. User messages that stay in the context are
    not repeated, nor is a long task; without a `selection` everything but the task is included."""
    known = replace(conversation.facts(), searchable="history_search" in _tools(conversation))
    instead = TASK_STAYS
    if selection is not None:
        quoted = selection.quoted(conversation.history)
        requests = filter(is_request, conversation.rows)
        known = known.without({m.id for m in requests if m is quoted or selection.stands(m)})
        instead = _task_note(selection, quoted)
    if instead and estimate_text(known.task) > TASK_TWICE:
        known = replace(known, task=instead)
    covered = None if selection is None else sum(map(counted_tokens, selection.covered))
    return render_facts(known, budget.facts, None if covered is None else covered // 2)


def _task_note(selection: Selection, quoted: Message | None) -> str:
    """What the facts say in place of a long task; empty if only the facts contain it."""
    if selection.task is None:
        return ""
    if quoted is not None and quoted.id == selection.task.id:
        note = TASK_IS_LATEST
    else:
        note = TASK_STAYS if selection.stands(selection.task) else ""
    return note.replace(WHOLE, CLIPPED) if selection.is_clipped(selection.task) else note


def _tools(conversation: Conversation) -> set[str]:
    return {tool.name for tool in conversation.generation.tools}


def _summary(conversation: Conversation, round: Round, selection: Selection, prose: str) -> Message:
    """The summary's message, with the computed facts. Its seq is a placeholder behind all messages; the real one is
    assigned when it is stored."""
    settings = round.settings
    quoted = selection.quoted(conversation.history)
    text = compose_summary(
        round.number,
        prose,
        facts(conversation, round.budget, selection),
        clip_message(quoted, dict(selection.clips)).text if quoted is not None else None,
        earlier=len(conversation.in_force.checkpoints),
        tools=_tools(conversation),
    )
    part = TextPart(id=new_id(), index=0, text=text, tokens=estimate_text(text))
    marker = CompactionMarkerPart(id=new_id(), index=1, round=round.number)
    return Message(
        id=new_id(),
        seq=conversation.history[-1].seq + 1,
        role=Role.ASSISTANT if settings.policy == "threshold" else Role.USER,
        parts=(part, marker),
        tokens=PER_MESSAGE + part.tokens,
        model=settings.model or round.config.model,
        is_summary=True,
        created_at=now(),
    )


def _clears(settings: CompactionSettings) -> bool:
    """Whether old outputs may be cleared before a summarizer has read them."""
    return settings.policy == "reactive" and settings.clear_first


def prunable(conversation: Conversation, budget: Budget, settings: CompactionSettings) -> PruneBatch | None:
    """Old outputs that these settings allow to clear now; only `reactive` clears any."""
    if not _clears(settings):
        return None
    return select_prunable(conversation.transcript.messages, settings, budget, conversation.in_force.pruned)


def may_be_cleared(conversation: Conversation, budget: Budget, settings: CompactionSettings) -> bool:
    """Whether clearing alone may be enough at the trigger, if everything that comes until then can be cleared too."""
    if not _clears(settings):
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
        if "recent_messages_to_keep" not in given_settings(settings):
            room = min(room, int(RECENT_SHARE * trigger(round.budget, settings)))
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
