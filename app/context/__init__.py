"""The context of a step: what the model sees of a session's history, how many tokens that takes, and how many it may.

Everything here is a function of values. A `Transcript` is a history's projection, kept up to date and valid; a `Budget`
says how large it may be; a `Generation` holds what stays the same from request to request. `select_prunable`, `select`
and `shrunk` choose what to clear, summarize or cut once it is too large; the caller acts on it.
"""

from app.context.budget import (
    Budget,
    PruneBounds,
    TailBounds,
    context_state,
    context_tokens,
    make_budget,
    prune_bounds,
    tail_bounds,
    trigger,
)
from app.context.generation import Generation, GenerationReason
from app.context.policies import CompactionSettings, preset, public, resolve
from app.context.projection import Checkpoint, ContextItem, Projection, Transcript, project
from app.context.prompts import ControlKind, PromptEnvironment, control_text, render_system, with_plan
from app.context.pruning import PruneBatch, select_prunable
from app.context.selection import Selection, select
from app.context.shrinking import FixedPart, largest_fixed, shrunk
from app.context.tokens import Calibration, estimate_message, estimate_part, estimate_text, estimate_tools
from app.context.validator import Repair, SoundnessCheck, repair

__all__ = [
    "Budget",
    "Calibration",
    "Checkpoint",
    "CompactionSettings",
    "ContextItem",
    "ControlKind",
    "FixedPart",
    "Generation",
    "GenerationReason",
    "Projection",
    "PromptEnvironment",
    "PruneBatch",
    "PruneBounds",
    "Repair",
    "Selection",
    "SoundnessCheck",
    "TailBounds",
    "Transcript",
    "context_state",
    "context_tokens",
    "control_text",
    "estimate_message",
    "estimate_part",
    "estimate_text",
    "estimate_tools",
    "largest_fixed",
    "make_budget",
    "preset",
    "project",
    "prune_bounds",
    "public",
    "render_system",
    "repair",
    "resolve",
    "select",
    "select_prunable",
    "shrunk",
    "tail_bounds",
    "trigger",
    "with_plan",
]
