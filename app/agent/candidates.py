"""The contexts that a round could make: a summary composed of prose and computed facts, and the size of the result."""

from __future__ import annotations

from dataclasses import replace

from app.agent.conversation import Conversation
from app.agent.rounds import Candidate, Round
from app.context.budget import Budget
from app.context.clipping import clip_message
from app.context.facts_text import render_facts
from app.context.policies import CompactionSettings
from app.context.projection import Checkpoint
from app.context.selection import Selection
from app.context.summary import compose_summary, prose_of
from app.context.summary_prose import fold
from app.context.tokens import PER_MESSAGE, estimate_text
from app.context.turns import is_request
from app.messages import CompactionMarkerPart, Message, Role, TextPart, new_id, now
from app.sessions import Rung

TASK_TWICE = 500
"""Tokens of a task up to which the summary repeats it, although the task message itself stays."""

TASK_STAYS = "(It stands in this conversation as a message of the user's own, word for word.)"
TASK_IS_LATEST = "(It is the user's last request, with which this summary ends, word for word.)"
WHOLE, CLIPPED = "word for word", "with its middle left out"

SUMMARY_CAP = 4_000
"""Maximum tokens of a summary if the policy sets no cap."""


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
    return render_facts(known, budget.facts)


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
