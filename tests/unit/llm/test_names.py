"""One model under its names at several providers: its window is found at each of them."""

from __future__ import annotations

import pytest

from app.llm.catalog import Catalog
from app.llm.known_models import max_output_tokens, plain_name, stripped_name

MILLION = 1_000_000
NAMES = [
    ("openrouter/anthropic/claude-sonnet-5.5", MILLION, 128_000),
    ("openrouter/anthropic/claude-sonnet-5-5", MILLION, 128_000),
    ("openrouter/openai/gpt-5.5", 1_050_000, 128_000),
    ("openrouter/openai/gpt-6-sol", 1_050_000, 128_000),
    ("gateway/anthropic/claude-sonnet-4.5:beta", 200_000, 64_000),
    ("gateway/anthropic/claude-opus-5-5:thinking", MILLION, 128_000),
    ("gateway/anthropic/claude-haiku-5-5-20260203", MILLION, 128_000),
    ("gateway/claude-fable-5-1-20260203", MILLION, 128_000),
    ("gateway/gpt-6.1-sol-2026-09-01", 1_050_000, 128_000),
    ("gateway/openai/gpt-5.6-sol-2026-05-01", 1_050_000, 128_000),
    ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000, 64_000),
    ("bedrock/anthropic.claude-haiku-5-5-v1:0", MILLION, 128_000),
    ("gateway/bedrock/us.anthropic.claude-sonnet-5-5-v1:0", MILLION, 128_000),
    ("gateway/eu.anthropic.claude-sonnet-5-v1:0", MILLION, 128_000),
    ("gateway/apac.anthropic.claude-fable-5-1-v1:0", MILLION, 128_000),
    ("vertex/claude-opus-4-5@20251101", 200_000, 64_000),
    ("gateway/claude-sonnet-5-5@20260203", MILLION, 128_000),
    ("gateway/publishers/anthropic/models/claude-opus-5-5@20260203", MILLION, 128_000),
    ("vertex/gemini-3.5-flash", MILLION, 65_536),
    ("gateway/models/gemini-3.8-flash", MILLION, 65_536),
    ("azure/gpt-5.4", 1_050_000, 128_000),
    ("azure/gpt-4.1", MILLION, 32_768),
    ("groq/openai/gpt-oss-120b", 131_072, None),
    ("together/zai-org/GLM-5.3", 1_048_575, None),
    ("gateway/zai-org/GLM-5.3-Flash", MILLION, None),
    ("gateway/moonshotai/Kimi-K3", 1_048_576, None),
    ("gateway/deepseek-ai/DeepSeek-V4-Pro", MILLION, 384_000),
    ("gateway/mistralai/mistral-large-4", 1_048_576, None),
    ("gateway/x-ai/grok-4.7", 500_000, None),
    ("ollama/gpt-oss:20b", 131_072, None),
    ("anthropic/claude-opus-5-5-20260203", MILLION, 128_000),
]


@pytest.mark.parametrize(("name", "window", "output"), NAMES)
def test_the_window_of_a_model_is_found_under_any_providers_name(name: str, window: int, output: int | None) -> None:
    info = Catalog().info(name, key_present=True)
    assert (info.context_window, info.window_source, info.max_output_tokens) == (window, "catalog", output)


def test_an_unlisted_model_stays_unknown() -> None:
    assert Catalog().info("ollama/my-own:13b", key_present=True).window_source == "assumed"


def test_a_window_missing_in_one_list_is_taken_from_another() -> None:
    """The data has no window of Google's own `gemini-2.5-pro`, but others serve it."""
    assert Catalog().info("google/gemini-2.5-pro", key_present=True).window_source == "catalog"


def test_a_name_of_another_provider_leaves_the_window_to_the_server() -> None:
    catalog = Catalog()
    assert catalog.is_known_elsewhere("local/Qwen/Qwen3-Coder-480B-A35B-Instruct")
    assert not catalog.is_known_elsewhere("local/gpt-5")
    assert not catalog.is_known_elsewhere("scripted/demo")


@pytest.mark.parametrize(
    ("name", "stripped"),
    [
        ("deepseek-v4", "deepseek-v4"),
        ("gpt-5.4", "gpt-5.4"),
        ("llama3.1:8b", "llama3.1-8b"),
        ("databricks-claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("mistral-large-latest", "mistral-large"),
        ("", ""),
    ],
)
def test_only_additions_to_a_name_are_stripped(name: str, stripped: str) -> None:
    assert stripped_name(name) == stripped
    assert plain_name(name) == stripped.replace(".", "-")


def test_limits_are_found_under_such_names_too() -> None:
    assert max_output_tokens("us.anthropic.claude-opus-5-5-v1:0") == 128_000


def test_chat_completions_do_not_offer_models_of_the_responses_endpoint() -> None:
    names = Catalog().known(["openai"])
    chat = Catalog().known(["openai"], chat_completions=["openai"])
    assert "openai/gpt-5.3-codex" in names
    assert not any("codex" in name or "-pro" in name for name in chat)
    assert chat[0] == names[0] == "openai/gpt-6.1-sol", "newest first"
