"""Which reasoning efforts a model takes, and what each is called on the wire.

From the makers' pages on reasoning and the refusals of their APIs, which list what they accept. A family that is
missing or wrong corrects itself: a refused value is remembered by `Quirks`, and the nearest one is sent in its place.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from app.sessions import ReasoningEffort

SCALE = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""All values that any API takes, from the least reasoning to the most."""

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
    """The efforts that a model offers, by its name (`vendor/` in front does not matter); none where it does not reason,
    None where it is unknown."""
    values = _values(model)
    return None if values is None else tuple(dict.fromkeys(map(_neutral, values)))


def wire_effort(model: str, effort: ReasoningEffort | None, refused: Collection[str] = ()) -> str | None:
    """The value to send for `effort`, None where nothing is to be sent: the nearest one that the model takes and has
    not refused, a lower one first. An unknown model is tried with the value as it is. `none` takes the place of no
    other effort: no value at all is closer to what was asked."""
    values = _values(model)
    if effort is None or values == ():
        return None
    known = SCALE if values is None else values
    accepted = [value for value in known if value not in refused and (value != "none" or effort == "none")]
    wanted = _rank("high" if effort == "max" and values is None else effort)
    return min(accepted, key=lambda value: (abs(_rank(value) - wanted), _rank(value)), default=None)


def reasons(model: str) -> bool:
    """Whether a model may reason: all but those that are known not to."""
    return _values(model) != ()


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


def _rank(value: str) -> int:
    return SCALE.index(value)
