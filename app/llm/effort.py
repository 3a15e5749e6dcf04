"""Which reasoning efforts a model accepts, and the wire value of each.

From the makers' pages on reasoning and the refusals of their APIs, which list what they accept. A missing or wrong
family corrects itself: a refused value is remembered by `Quirks`, and the nearest one is sent instead.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import TypeVar

from app.sessions import ReasoningEffort

Value = TypeVar("Value", bound=str)

SCALE = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""All values that any API accepts, from the least reasoning to the most."""

_FAMILIES = tuple(
    (re.compile(pattern), tuple(values.split()))
    for pattern, values in (
        # OpenAI. "Unsupported value: 'minimal' is not supported with the 'gpt-5.4-mini' model. Supported values are:
        # 'none', 'low', 'medium', 'high', and 'xhigh'."
        (r"gpt-(?:[5-9]|\d\d)(?:\.\d+)?-chat", ""),
        (r"gpt-5-pro", "high"),
        (r"gpt-(?:[5-9]|\d\d)(?:\.\d+)?-pro", "medium high xhigh"),
        (r"gpt-5(?:\.1)?-codex(?!-max)", "low medium high"),
        (r"gpt-(?:[5-9]|\d\d)(?:\.\d+)?-codex", "low medium high xhigh"),
        (r"gpt-5(?!\.)", "minimal low medium high"),
        (r"gpt-5\.1(?!\d)", "none low medium high"),
        (r"gpt-(?:[5-9]|\d\d)", "none low medium high xhigh"),
        (r"gpt-oss", "low medium high"),
        (r"(?:chat)?gpt-", ""),
        (r"o1-(?:mini|preview)", ""),
        (r"o[134](?:-|$)", "low medium high"),
        # Anthropic: `output_config.effort`; `none` is thinking switched off.
        (r"claude-(?:opus-4[-.]5)", "none low medium high"),
        (r"claude-(?:opus|sonnet)-4[-.][6-9]", "none low medium high max"),
        (r"claude-(?:opus|sonnet|haiku|fable|mythos)-(?:[5-9]|\d\d)(?!\d)", "none low medium high max"),
        # Models with a thinking budget in tokens instead.
        (r"claude-3[-.]7|claude-(?:opus|sonnet|haiku)-4", "none low medium high"),
        (r"claude-", ""),
        # DeepSeek: lower efforts than `high` count as `high`; `none` is thinking switched off.
        (r"deepseek-(?:v4|v[5-9])", "none high max"),
        # Gemini's compatible endpoint.
        (r"gemini-2\.5-flash", "none low medium high"),
        (r"gemini-2\.5", "low medium high"),
        (r"gemini-3(?:\.\d+)?-pro", "low medium high"),
        (r"gemini-(?:[3-9])", "minimal low medium high"),
    )
)


def efforts(model: str) -> tuple[ReasoningEffort, ...] | None:
    """The efforts that a model offers, by its name (a `vendor/` prefix is ignored); empty if it does not reason, None
    if it is unknown."""
    values = _values(model)
    return None if values is None else tuple(dict.fromkeys(map(_neutral, values)))


def offered_effort(effort: ReasoningEffort | None, offered: Sequence[ReasoningEffort] | None) -> ReasoningEffort | None:
    """The effort to request from a model that offers these (None: unknown): the nearest one, preferring lower ones;
    None if the model does not reason."""
    return effort if effort is None or offered is None else _nearest(offered, effort)


def wire_effort(model: str, effort: ReasoningEffort | None, refused: Collection[str] = ()) -> str | None:
    """The value to send for an effort that the model offers, None to send nothing. A value that the model has refused
    is replaced by the nearest one that it has not."""
    if effort is None:
        return None
    values = _values(model)
    # The operator may know better than the table, and unknown models have no table: the value is sent as it is.
    known = values if values is not None and effort in map(_neutral, values) else SCALE
    wanted = "high" if effort == "max" and values is None else effort
    return _nearest([value for value in known if value not in refused], wanted)


def reasons(model: str) -> bool:
    """Whether a model may reason: all except those known not to."""
    return _values(model) != ()


@lru_cache(maxsize=256)
def _values(model: str) -> tuple[str, ...] | None:
    """The wire values of a model's family, None for an unknown family."""
    name = model.lower().rpartition("/")[2]
    return next((values for pattern, values in _FAMILIES if pattern.match(name)), None)


def _neutral(value: str) -> ReasoningEffort:
    match value:
        case "none" | "minimal" | "low" | "medium" | "high":
            return value
        case _:
            return "max"


def _nearest(values: Sequence[Value], wanted: str) -> Value | None:
    """The nearest value, never `none` for another effort: sending no value is closer to the request."""
    fit = [value for value in values if value != "none" or wanted == "none"]
    return min(fit, key=lambda value: (abs(_rank(value) - _rank(wanted)), _rank(value)), default=None)


def _rank(value: str) -> int:
    return SCALE.index(value)
