"""What a command says of a failed request to a model that is sent again."""

from __future__ import annotations

from typing import Any

from app.cli.screen import one_line, seconds


def failed_attempt(data: dict[str, Any], *, is_partial: bool = False) -> str:
    """`attempt 5 failed (provider_unreachable): The connection failed; retrying in 9 s`. `is_partial`: some of the
    reply was shown."""
    why = one_line(data["detail"], 200).rstrip(" .;")
    discarded = "; partial reply discarded" if is_partial else ""
    return f"attempt {data['attempt']} failed ({data['code']}): {why}{discarded}; {_again(data['delay_ms'] / 1000)}"


def _again(delay_s: float) -> str:
    if delay_s < 0.05:
        return "retrying now"
    short = f"{delay_s:.1f}".removesuffix(".0")
    return f"retrying in {f'{short} s' if delay_s < 10 else seconds(delay_s)}"
