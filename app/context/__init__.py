"""The context of a step: what of a session's history the model sees, what it costs and how much room there is.

Everything here is a function of values. A `Transcript` is a history's projection, kept up to date and valid; a `Budget`
says how large it may be; a `Generation` holds what stays the same from request to request.
"""

from app.context.budget import Budget, context_state, context_tokens, make_budget, trigger
from app.context.generation import Generation, GenerationReason
from app.context.policies import CompactionSettings, preset, public, resolve
from app.context.projection import Checkpoint, ContextItem, Projection, Transcript, project
from app.context.prompts import ControlKind, PromptEnvironment, control_text, load_template, render_system
from app.context.tokens import Calibration, estimate_message, estimate_part, estimate_text, estimate_tools
from app.context.validator import Repair, SoundnessCheck, repair

__all__ = [
    "Budget",
    "Calibration",
    "Checkpoint",
    "CompactionSettings",
    "ContextItem",
    "ControlKind",
    "Generation",
    "GenerationReason",
    "Projection",
    "PromptEnvironment",
    "Repair",
    "SoundnessCheck",
    "Transcript",
    "context_state",
    "context_tokens",
    "control_text",
    "estimate_message",
    "estimate_part",
    "estimate_text",
    "estimate_tools",
    "load_template",
    "make_budget",
    "preset",
    "project",
    "public",
    "render_system",
    "repair",
    "resolve",
    "trigger",
]
