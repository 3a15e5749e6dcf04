"""Thinking that a provider binds to the conversation it was written in, and how requests ask for it.

Since Claude 5.5 a thinking block that is sent back is verified against all that stands before it. From Amazon's page on
preserved thinking: "The API checks that the system prompt, the tool list, and all messages before the block are
unchanged when you replay that block in a later request."
"""

from __future__ import annotations

import re
from typing import Any

from app.llm.effort import wire_effort
from app.sessions import ReasoningEffort

BINDING_HEADER = {"anthropic-beta": "thinking-binding-controls-2026-08-01"}
"""Allows a request to say what becomes of blocks that cannot be verified."""

_DROP = {"prefix_mismatch_behavior": "drop_block"}

_VERSION = re.compile(r"claude-(?P<family>[a-z]+)-(?P<major>\d{1,2})(?:[-.](?P<minor>\d{1,2}))?(?!\d)")

_ADAPTIVE_SINCE = (4, 6)
"""The first version whose models decide themselves how much to think."""

_BOUND_SINCE = {"fable": (5, 1)}
_BOUND_SINCE_OTHERS = (5, 5)

_REFUSAL = re.compile(r"invalid `?signature`? in `?thinking`? block|thinking.{0,80}bound to a different", re.I | re.S)


def binds_thinking(model: str) -> bool:
    """Whether a model's name, with whatever a reseller puts around it, is that of one that verifies what is before its
    thinking: Opus, Sonnet and Haiku from 5.5 on, Fable from 5.1."""
    found = _VERSION.search(model.lower())
    return found is not None and _version(found) >= _BOUND_SINCE.get(found["family"], _BOUND_SINCE_OTHERS)


def is_binding_refusal(body: str) -> bool:
    """Whether an error says that a thinking block could not be verified."""
    return _REFUSAL.search(body) is not None


def thinking_parameters(model: str, effort: ReasoningEffort | None, *, drop_block: bool) -> dict[str, Any]:
    """`thinking` and `output_config` of a request; nothing where the model's defaults are what is wanted. With
    `drop_block` the provider drops what it cannot verify."""
    value = wire_effort(model, effort)
    parameters: dict[str, Any] = {}
    if value == "none":
        return {"thinking": {"type": "disabled"}}
    if value is not None:
        parameters["output_config"] = {"effort": value}
        if _is_adaptive(model):
            parameters["thinking"] = {"type": "adaptive"}
    if drop_block:
        parameters["thinking"] = {"type": "adaptive", "block_binding": _DROP}
    return parameters


def _is_adaptive(model: str) -> bool:
    found = _VERSION.search(model.lower())
    return found is not None and _version(found) >= _ADAPTIVE_SINCE


def _version(found: re.Match[str]) -> tuple[int, int]:
    return int(found["major"]), int(found["minor"] or 0)
