"""What a model is asked for a summary, and with how much room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.agent.compaction.rounds import Round, earlier_prose, summary_cap
from app.agent.conversation import Conversation
from app.context.clipping import fit_tokens
from app.context.policies import CompactionSettings
from app.context.selection import Selection
from app.context.tokens import estimate_text
from app.llm.base import ModelRequest
from app.messages import Message

REASONING_ROOM, REASONING_SHARE = 4_096, 1 / 8
"""Extra output tokens for a model that has reasoned in this conversation, and their maximum share of the window."""
INSTRUCTION_ROOM, LEAST_INSTRUCTION_ROOM = 1_000, 700
"""Tokens reserved for the request for a summary: the longest built-in one has about 800. Windows below 4,000 tokens
reserve less. The operator's template and the user's instructions come on top."""
LEAST_CAP = 256
"""The lowest cap of a summary, in tokens; in a crowded window a third of the cap is enough."""
TASK_SHARE = 0.2
"""Maximum share of the summarizer's window for the task in each request: the messages need the rest. The session's own
model sees the whole task anyway."""
LEAST_INPUT, LEAST_INPUT_SHARE = 500, 1 / 6
INPUT_SHARE = 0.9
"""Maximum share of the summarizer's window for a piece of the messages, after task, previous summary and answer; the
rest absorbs estimation errors."""


@dataclass(frozen=True, slots=True)
class SummaryJob:
    """What to summarize, and how.

    `prefix` is the conversation's own next request, for a summary requested within it; with None the model gets the
    messages as text, in pieces of up to `input_tokens`. `max_tokens` is the longest answer; a model that reasons gets
    `reasoning_tokens` on top. `tail` is the number of newest messages that stay. `template` replaces the built-in
    sections.
    """

    settings: CompactionSettings
    previous_round: int
    model: str
    covered: Sequence[Message]
    previous: str | None
    task: str
    max_tokens: int
    reasoning_tokens: int
    input_tokens: int
    tail: int = 0
    prefix: ModelRequest | None = None
    instructions: str | None = None
    template: str | None = None


def summary_model(round: Round) -> str:
    """The model that writes the summary."""
    return round.settings.model or round.config.model


def summary_job(
    conversation: Conversation, round: Round, selection: Selection, window: int, request: ModelRequest | None = None
) -> SummaryJob:
    """How a model with this `window`, in tokens, is asked: in the conversation itself, whose prefix is cached, if it is
    the session's own and there is room, else from text. An earlier `request` replaces the next one if given."""
    settings, config = round.settings, round.config
    reasoning = min(REASONING_ROOM, int(window * REASONING_SHARE)) if conversation.has_reasoning else 0
    asking = min(INSTRUCTION_ROOM, max(LEAST_INSTRUCTION_ROOM, window // 4))
    asking += sum(estimate_text(text or "") for text in (config.summary_template, round.instructions))
    cap = min(summary_cap(settings, round.budget), max(LEAST_CAP, window // 4))
    left = window - conversation.estimate - reasoning - asking
    inside = settings.model is None and left >= min(cap, max(LEAST_CAP, cap // 3))
    if inside:
        cap = min(cap, left)
    task = fit_tokens(selection.task.text, int(window * TASK_SHARE)) if selection.task is not None else ""
    least_input = min(LEAST_INPUT, int(window * LEAST_INPUT_SHARE))
    reserved = 2 * cap + reasoning + asking + estimate_text(task)
    return SummaryJob(
        settings=settings,
        previous_round=conversation.round,
        model=summary_model(round),
        covered=selection.covered,
        previous=earlier_prose(selection),
        task=task,
        max_tokens=cap,
        reasoning_tokens=reasoning,
        input_tokens=max(least_input, int((window - reserved) * INPUT_SHARE)),
        tail=len(selection.tail),
        prefix=(request or conversation.sound_request(config)) if inside else None,
        instructions=round.instructions,
        template=config.summary_template,
    )
