"""Counts of tokens in the shapes that providers report them, converted to the neutral shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.messages import Usage

MAX_COST_USD = 1e6
"""US dollars for one call; a higher cost is an error of the server."""

_COUNTS = frozenset(
    {
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "input_tokens",
        "output_tokens",
        "cached_tokens",
        "cache_write_tokens",
        "prompt_cache_hit_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        "reasoning_tokens",
        "thinking_tokens",
        "cost",
    }
)
_DETAILS = frozenset(
    {"prompt_tokens_details", "completion_tokens_details", "input_tokens_details", "output_tokens_details"}
)


def merged_usage(known: Mapping[str, Any], report: Mapping[str, Any]) -> dict[str, Any]:
    """A provider's counts so far, updated with a later report: servers fill fields that they do not count with zeros,
    which replace no number."""
    merged = dict(known)
    for name, value in report.items():
        if name in _DETAILS and isinstance(value, dict):
            merged[name] = merged_usage(merged.get(name, {}), value)
        elif name in _COUNTS and isinstance(value, int | float) and (value or name not in merged):
            merged[name] = value
    return merged


def count(value: Any) -> int:
    """A number of tokens from a provider's usage, 0 if it is missing or invalid."""
    return int(value) if isinstance(value, int | float) and 0 <= value < 1e12 else 0


def chat_usage(raw: Mapping[str, Any]) -> Usage:
    """The usage of Chat Completions: the prompt's tokens exclude cached ones, the output's include reasoning.

    Some servers do not count reasoning as completion, which shows in their total. `cost_usd` is what OpenRouter billed.
    """
    details, out = _dict(raw.get("prompt_tokens_details")), _dict(raw.get("completion_tokens_details"))
    reasoning = count(out.get("reasoning_tokens"))
    prompt, output = count(raw.get("prompt_tokens")), count(raw.get("completion_tokens"))
    read = min(prompt, count(details.get("cached_tokens")) or count(raw.get("prompt_cache_hit_tokens")))
    write = min(prompt - read, count(details.get("cache_write_tokens")))
    if reasoning and count(raw.get("total_tokens")) == prompt + output + reasoning:
        output += reasoning
    return Usage(
        input_tokens=prompt - read - write,
        cache_read_tokens=read,
        cache_write_tokens=write,
        output_tokens=output,
        reasoning_tokens=min(reasoning, output),
        cost_usd=_cost(raw.get("cost")),
    )


def responses_usage(raw: Mapping[str, Any]) -> Usage:
    """The usage of Responses: the same as in Chat Completions, under other names."""
    return chat_usage(
        {
            **raw,
            "prompt_tokens": raw.get("input_tokens"),
            "prompt_tokens_details": raw.get("input_tokens_details"),
            "completion_tokens": raw.get("output_tokens"),
            "completion_tokens_details": raw.get("output_tokens_details"),
        }
    )


def messages_usage(raw: Mapping[str, Any]) -> Usage:
    """The usage of Anthropic Messages, whose `input_tokens` already excludes cached ones. The number of reasoning
    tokens in the output is in `output_tokens_details`, if at all."""
    output = count(raw.get("output_tokens"))
    return Usage(
        input_tokens=count(raw.get("input_tokens")),
        cache_read_tokens=count(raw.get("cache_read_input_tokens")),
        cache_write_tokens=count(raw.get("cache_creation_input_tokens")),
        output_tokens=output,
        reasoning_tokens=min(output, count(_dict(raw.get("output_tokens_details")).get("thinking_tokens"))),
        cost_usd=None,
    )


def _cost(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= MAX_COST_USD else None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
