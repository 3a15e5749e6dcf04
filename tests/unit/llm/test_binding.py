"""Which models verify replayed thinking, by name."""

from __future__ import annotations

import pytest

from app.llm.known_models import binds_thinking


@pytest.mark.parametrize(
    ("name", "binds"),
    [
        ("claude-opus-5-5", True),
        ("claude-sonnet-5.5", True),
        ("claude-haiku-5-5-20260901", True),
        ("claude-fable-5-1", True),
        ("claude-mythos-6", True),
        ("openrouter/anthropic/claude-opus-5.5", True),
        ("us.anthropic.claude-sonnet-6-20270101-v1:0", True),
        ("claude-opus-5", False),
        ("claude-opus-5-20260301", False),
        ("claude-fable-5", False),
        ("claude-sonnet-4-20250514", False),
        ("claude-opus-4-8", False),
        ("claude-3-7-sonnet", False),
        ("gpt-5.5", False),
    ],
)
def test_by_family_and_version(name: str, binds: bool) -> None:
    assert binds_thinking(name) is binds
