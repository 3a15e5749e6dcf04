"""Human-readable tokens, money and time."""

from __future__ import annotations

from datetime import datetime
from typing import Any


def seconds(value: float) -> str:
    """`40 ms`, `2.5 s`, `12 s`, `3 min 20 s`, `2 h 05 min`."""
    if value < 1:
        return f"{round(value * 1000)} ms"
    if value < 10:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def money(cost_usd: float | None) -> str:
    """`$0.0123`, or `cost unknown`."""
    if cost_usd is None:
        return "cost unknown"
    return f"${cost_usd:.2f}" if cost_usd >= 1 or cost_usd == 0 else f"${cost_usd:.4f}"


def tokens(usage: dict[str, Any]) -> str:
    """`1,714 in (1,200 cached) · 132 out`."""
    cached = usage["cache_read_tokens"]
    read = usage["input_tokens"] + cached + usage["cache_write_tokens"]
    return f"{read:,} in{f' ({cached:,} cached)' if cached else ''} · {usage['output_tokens']:,} out"


def share(context: dict[str, Any]) -> str:
    """`context 14%` of the usable window, at most 100%; empty if the window is unknown."""
    usable = context.get("usable") or 0
    return f"context {min(100, round(100 * context.get('tokens', 0) / usable))}%" if usable else ""


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `3rd`, `11th`."""
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def joined(*items: str) -> str:
    return " · ".join(item for item in items if item)


def between(start: str | None, end: str | None) -> str:
    """The time between two RFC 3339 times; empty if one is missing."""
    if start is None or end is None:
        return ""
    return seconds((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())
