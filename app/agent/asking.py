"""How a model is asked for the summary of a round: where, by which model, and with how much room."""

from __future__ import annotations

from app.agent.candidates import earlier_prose, summary_cap
from app.agent.conversation import Conversation
from app.agent.rounds import Round
from app.agent.summarizer import SummaryJob
from app.context.excerpts import fit_tokens
from app.context.selection import Selection
from app.context.tokens import estimate_text
from app.llm.base import ModelRequest

REASONING_ROOM = 4_096
"""Output tokens on top of a summary's cap for a model that has reasoned in this conversation."""

INSTRUCTION_ROOM = 1_000
"""Tokens that asking for a summary takes, with some to spare; an operator's sections of a summary and the wishes of
whoever asked for the round come on top."""

LEAST_CAP = 256
"""The shortest answer that a summary is asked for in; a third of the policy's cap is enough on a crowded window."""

TASK_SHARE = 0.2
"""Of the summariser's window, what the task takes at most in each request: the messages need the rest, and the
session's own model is shown the whole task anyway."""

LEAST_INPUT = 500
INPUT_SHARE = 0.9
"""Of the summariser's window, what a piece of the messages takes at most beside task, previous summary and answer; the
rest is for a wrong estimate."""


def summary_model(round: Round) -> str:
    """Which model writes the summary."""
    return round.settings.model or round.config.model


def summary_job(
    conversation: Conversation, round: Round, selection: Selection, window: int, request: ModelRequest | None = None
) -> SummaryJob:
    """How a model of this `window`, in tokens, is asked: in the conversation itself, which its cache knows, where the
    policy says so and there is room, else from text. A `request` of an earlier moment is taken instead of the next
    one."""
    settings, config = round.settings, round.config
    reasoning = REASONING_ROOM if conversation.has_reasoning else 0
    asking = INSTRUCTION_ROOM + sum(estimate_text(text or "") for text in (config.summary_template, round.instructions))
    cap = min(summary_cap(settings), max(LEAST_CAP, window // 4))
    left = window - conversation.estimate - reasoning - asking
    inside = _is_inside(round) and left >= min(cap, max(LEAST_CAP, cap // 3))
    if inside:
        cap = min(cap, left)
    task = fit_tokens(selection.task.text, int(window * TASK_SHARE)) if selection.task is not None else ""
    beside = 2 * cap + reasoning + asking + estimate_text(task)
    return SummaryJob(
        settings=settings,
        previous_round=conversation.round,
        model=summary_model(round),
        covered=selection.covered,
        previous=earlier_prose(selection),
        task=task,
        max_tokens=cap,
        reasoning_tokens=reasoning,
        input_tokens=max(LEAST_INPUT, int((window - beside) * INPUT_SHARE)),
        prefix=(request or conversation.sound_request(config)) if inside else None,
        instructions=round.instructions,
        template=config.summary_template,
    )


def _is_inside(round: Round) -> bool:
    """Whether the policy has its summary asked for in the conversation, by the session's own model."""
    return round.settings.model is None and round.settings.policy != "threshold"
