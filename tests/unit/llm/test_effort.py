"""Which efforts models accept, and which value is sent."""

from __future__ import annotations

import pytest

from app.llm.known_models import efforts, offered_effort, wire_effort
from app.sessions import ReasoningEffort


@pytest.mark.parametrize(
    ("model", "offered"),
    [
        ("gpt-5", "minimal low medium high"),
        ("openai/gpt-5-mini-2025-08-07", "minimal low medium high"),
        ("gpt-5.1", "none low medium high"),
        ("gpt-5.4-mini", "none low medium high max"),
        ("openrouter/openai/gpt-5.6", "none low medium high max"),
        ("gpt-6-astra", "none low medium high max"),
        ("gpt-5.3-codex", "low medium high max"),
        ("gpt-5-codex", "low medium high"),
        ("gpt-5-pro", "high"),
        ("gpt-5-chat-latest", ""),
        ("o4-mini", "low medium high"),
        ("o1-mini", ""),
        ("gpt-4o", ""),
        ("gpt-oss-120b", "low medium high"),
        ("claude-opus-5-5", "none low medium high max"),
        ("claude-opus-4-6", "none low medium high max"),
        ("claude-sonnet-4-20250514", "none low medium high"),
        ("claude-3-5-haiku-20241022", ""),
        ("deepseek-v4-flash", "none high max"),
        ("gemini-2.5-pro", "low medium high"),
        ("gemini-3-flash", "minimal low medium high"),
        ("llama-3.3-70b", ""),
    ],
)
def test_a_model_offers_the_efforts_of_its_family(model: str, offered: str) -> None:
    assert list(efforts(model) or ()) == offered.split()


@pytest.mark.parametrize(
    ("model", "effort", "refused", "sent"),
    [
        ("gpt-5.6", "max", (), "xhigh"),
        ("gpt-5.6", "minimal", (), "low"),
        ("gpt-5.6", "none", (), "none"),
        ("gpt-5", "none", (), "minimal"),
        ("gpt-5.6", "max", ("xhigh",), "high"),
        ("gpt-5.6", "low", ("low",), "medium"),
        ("gpt-5.6", "low", ("low", "medium", "high", "xhigh"), None),
        ("o3", "max", (), "high"),
        ("gpt-4o", "high", (), None),
        ("claude-3-5-haiku", "high", (), None),
        ("gpt-5-chat-latest", "high", (), None),
        ("gpt-5.6", None, (), None),
        ("claude-opus-5-5", "max", (), "max"),
        ("deepseek-v4-pro", "low", (), "high"),
        ("unknown", "max", (), "high"),
        ("unknown", "medium", ("medium",), "low"),
    ],
)
def test_the_nearest_value_is_sent(
    model: str, effort: ReasoningEffort | None, refused: tuple[str, ...], sent: str | None
) -> None:
    assert wire_effort(model, offered_effort(effort, efforts(model)), refused) == sent


def test_the_operators_setting_wins_over_the_table() -> None:
    assert wire_effort("gpt-5", offered_effort("minimal", ("medium", "high"))) == "medium"
    assert wire_effort("gpt-5.6", offered_effort("minimal", ("minimal", "high"))) == "minimal"
    assert wire_effort("gpt-4o", offered_effort("high", ("low",))) == "low"


def test_a_model_that_does_not_reason_differs_from_an_unknown_one() -> None:
    assert efforts("gpt-4o") == ()
    assert efforts("claude-3-5-sonnet") == ()
    assert efforts("llama-3.3-70b") is None
