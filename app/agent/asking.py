"""How a model is asked for a round's summary: in the conversation or from text, by which model, with what limits."""

from __future__ import annotations

from app.agent.candidates import earlier_prose, summary_cap
from app.agent.conversation import Conversation
from app.agent.rounds import Round
from app.agent.summarizer import SummaryJob
from app.context.excerpts import fit_tokens
from app.context.selection import Selection
from app.context.tokens import estimate_text
from app.llm.base import ModelRequest

REASONING_ROOM, REASONING_SHARE = 4_096, 1 / 8
"""Extra output tokens for a model that has reasoned in this conversation, and their maximum share of the window."""

INSTRUCTION_ROOM, LEAST_INSTRUCTION_ROOM = 1_000, 700
"""Tokens reserved for the request for a summary: the longest built-in one has about 600. Windows below 4,000 tokens
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


def summary_model(round: Round) -> str:
    """The model that writes the summary."""
    return round.settings.model or round.config.model


def summary_job(
    conversation: Conversation, round: Round, selection: Selection, window: int, request: ModelRequest | None = None
) -> SummaryJob:
    """How a model with this `window`, in tokens, is asked: in the conversation itself, whose prefix is cached, if the
    policy says so and there is room, else from text. An earlier `request` is used instead of the next one if given."""
    settings, config = round.settings, round.config
    reasoning = min(REASONING_ROOM, int(window * REASONING_SHARE)) if conversation.has_reasoning else 0
    asking = min(INSTRUCTION_ROOM, max(LEAST_INSTRUCTION_ROOM, window // 4))
    asking += sum(estimate_text(text or "") for text in (config.summary_template, round.instructions))
    cap = min(summary_cap(settings, round.budget), max(LEAST_CAP, window // 4))
    left = window - conversation.estimate - reasoning - asking
    inside = _is_inside(round) and left >= min(cap, max(LEAST_CAP, cap // 3))
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
        prefix=(request or conversation.sound_request(config)) if inside else None,
        instructions=round.instructions,
        template=config.summary_template,
    )


def _is_inside(round: Round) -> bool:
    """Whether the policy asks for the summary in the conversation, from the session's own model."""
    return round.settings.model is None and round.settings.policy != "threshold"
