"""Human-readable figures."""

from __future__ import annotations

import pytest

from app.cli import screen


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.04, "40 ms"), (2.46, "2.5 s"), (12.4, "12 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")],
)
def test_seconds(value: float, expected: str) -> None:
    assert screen.seconds(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(None, "cost unknown"), (0.0, "$0.00"), (0.01234, "$0.0123"), (12.5, "$12.50")]
)
def test_money(value: float | None, expected: str) -> None:
    assert screen.money(value) == expected


def test_tokens_without_cached_ones() -> None:
    usage = {"input_tokens": 10, "cache_read_tokens": 0, "cache_write_tokens": 5, "output_tokens": 1}
    assert screen.tokens(usage) == "15 in · 1 out"


def test_unknown_figures_are_left_out() -> None:
    assert screen.share({"tokens": 5, "usable": 0}) == ""
    assert screen.share({"tokens": 113, "usable": 100}) == "context 100%"
    assert screen.between(None, "2026-11-22T10:00:00.000Z") == ""
    assert screen.joined("a", "", "b") == "a · b"
