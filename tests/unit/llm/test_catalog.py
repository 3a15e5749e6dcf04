from __future__ import annotations

import pytest
from genai_prices.data_snapshot import get_snapshot

from app.llm.base import UNKNOWN_PRICES, ModelInfo, ModelSettings, PriceSettings
from app.llm.catalog import ASSUMED_WINDOW, KNOWN_PER_PROVIDER, Catalog
from app.llm.known_models import FREE, flat_cost, max_output_tokens
from app.messages import Usage

MILLION = 1_000_000


def info(name: str, **models: ModelSettings) -> ModelInfo:
    return Catalog(models).info(name, key_present=True)


def test_a_known_model_has_its_window_and_prices() -> None:
    known = info("openai/gpt-5")
    assert (known.name, known.provider, known.key_present) == ("openai/gpt-5", "openai", True)
    assert (known.context_window, known.window_source) == (400_000, "catalog")
    assert known.max_output_tokens == 128_000
    assert known.prices.input is not None
    assert known.prices.output is not None
    assert known.prices.cache_read is not None
    assert known.prices.cache_read < known.prices.input < known.prices.output


def test_an_unknown_model_has_an_assumed_window_and_no_price() -> None:
    unknown = info("acme/thing-1")
    assert (unknown.context_window, unknown.window_source) == (ASSUMED_WINDOW, "assumed")
    assert unknown.prices == UNKNOWN_PRICES
    assert unknown.max_output_tokens is None


def test_the_operators_setting_wins_by_full_name_and_by_model() -> None:
    override = ModelSettings(context_window=5000, max_output_tokens=100, prices=PriceSettings(input=1.0, output=2.0))
    for name in ("openai/gpt-5", "gpt-5"):
        known = Catalog({name: override}).info("openai/gpt-5", key_present=False)
        assert (known.context_window, known.window_source, known.max_output_tokens) == (5000, "setting", 100)
        assert known.prices == PriceSettings(input=1.0, output=2.0)
        assert not known.key_present


def test_an_override_may_set_only_some_values() -> None:
    known = Catalog({"openai/gpt-5": ModelSettings(max_output_tokens=7)}).info("openai/gpt-5", key_present=True)
    assert (known.window_source, known.max_output_tokens) == ("catalog", 7)
    assert known.prices.input is not None


@pytest.mark.parametrize("name", ["gemini/gemini-2.5-flash", "google/gemini-2.5-flash", "xai/grok-4", "x-ai/grok-4"])
def test_common_names_of_providers_are_understood(name: str) -> None:
    assert info(name).prices.input is not None


def test_a_gateways_prices_come_before_the_makers() -> None:
    known = info("openrouter/anthropic/claude-sonnet-4.5")
    assert known.window_source == "catalog"
    assert known.prices.input is not None


def test_a_public_provider_is_recognized_by_its_address() -> None:
    catalog = Catalog(base_urls={"mine": "https://api.groq.com/openai/v1", "local": "http://127.0.0.1:1/v1"})
    assert catalog.info("mine/openai/gpt-oss-120b", key_present=True).prices.input is not None
    assert catalog.info("local/openai/gpt-oss-120b", key_present=True).prices.input is None


@pytest.mark.parametrize("name", ["local/gpt-5", "local/openai/gpt-5", "local/vendor/gpt-5"])
def test_an_unknown_server_of_a_known_model_has_its_window_but_no_price(name: str) -> None:
    known = info(name)
    assert (known.context_window, known.window_source) == (400_000, "catalog")
    assert known.prices == UNKNOWN_PRICES
    assert Catalog().cost(name, Usage(input_tokens=10)) is None


def test_a_free_model_costs_nothing() -> None:
    assert Catalog().cost("openrouter/google/gemma-3-27b-it:free", Usage(input_tokens=MILLION)) == 0.0


def test_the_demo_costs_nothing_and_has_a_description() -> None:
    demo = info("scripted/demo")
    assert demo.prices == FREE
    assert "no real model" in demo.description
    assert Catalog().cost("scripted/demo", Usage(input_tokens=MILLION)) == 0.0


def test_each_kind_of_token_has_its_own_price() -> None:
    prices = info("anthropic/claude-opus-4-5").prices
    catalog = Catalog()
    for kind, price in (
        ("input_tokens", prices.input),
        ("cache_read_tokens", prices.cache_read),
        ("cache_write_tokens", prices.cache_write),
        ("output_tokens", prices.output),
    ):
        assert catalog.cost("anthropic/claude-opus-4-5", Usage(**{kind: 100_000})) == pytest.approx((price or 0) / 10)


def test_a_large_prompt_costs_its_tier() -> None:
    catalog = Catalog()
    small = catalog.cost("anthropic/claude-sonnet-4-5", Usage(input_tokens=100_000))
    large = catalog.cost("anthropic/claude-sonnet-4-5", Usage(input_tokens=50_000, cache_read_tokens=250_000))
    base = catalog.info("anthropic/claude-sonnet-4-5", key_present=True).prices
    assert small == pytest.approx((base.input or 0) / 10)
    assert large is not None
    assert large > ((base.input or 0) * 50_000 + (base.cache_read or 0) * 250_000) / MILLION


def test_the_operators_prices_are_flat() -> None:
    catalog = Catalog(
        {"acme/x": ModelSettings(prices=PriceSettings(input=1.0, output=10.0, cache_read=0.1, cache_write=2.0))}
    )
    spent = Usage(input_tokens=MILLION, cache_read_tokens=MILLION, cache_write_tokens=MILLION, output_tokens=MILLION)
    assert catalog.cost("acme/x", spent) == 13.1


def test_cached_tokens_without_a_price_cost_what_input_costs() -> None:
    spent = Usage(cache_read_tokens=MILLION, cache_write_tokens=MILLION, output_tokens=0)
    assert flat_cost(PriceSettings(input=3.0, output=1.0), spent) == 6.0
    assert flat_cost(PriceSettings(input=3.0, output=1.0, cache_read=0.0, cache_write=0.0), spent) == 0.0
    assert flat_cost(PriceSettings(input=None, output=1.0), spent) is None
    assert flat_cost(PriceSettings(input=1.0, output=None), spent) is None


def test_small_prices_add_up_without_binary_noise() -> None:
    assert flat_cost(PriceSettings(input=0.1, output=0.2), Usage(input_tokens=3, output_tokens=3)) == 0.0000009


def test_known_models_are_current_ones_that_an_agent_can_run_on() -> None:
    names = Catalog().known(["openai", "anthropic", "acme"])
    assert {name.partition("/")[0] for name in names} == {"openai", "anthropic"}
    assert len(names) <= 2 * KNOWN_PER_PROVIDER
    assert len(names) == len(set(names))
    for name in names:
        assert not any(word in name for word in ("embed", "whisper", "image", "realtime", "claude-2", "gpt-3.5", "tts"))
        assert info(name).context_window >= 100_000
        assert info(name).prices.output is not None


def test_newer_models_come_first() -> None:
    names = Catalog().known(["anthropic"])
    assert names.index("anthropic/claude-opus-4-5") > names.index("anthropic/claude-opus-5")


def test_models_that_the_operator_named_in_full_are_known() -> None:
    override = ModelSettings(context_window=4096)
    assert Catalog({"local/x": override, "bare": override}).known([]) == ["local/x"]


def test_every_model_of_the_data_can_be_described() -> None:
    catalog = Catalog()
    for provider in [data.id for data in get_snapshot().providers]:
        for name in catalog.known([provider]):
            described = catalog.info(name, key_present=False)
            assert described.context_window > 0
            assert catalog.cost(name, Usage(input_tokens=1000, cache_read_tokens=10, output_tokens=10)) is not None


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ("gpt-4", 8_192),
        ("gpt-4-turbo", 4_096),
        ("gpt-4o-mini", 16_384),
        ("gpt-4.1-nano", 32_768),
        ("gpt-5.1-codex", 128_000),
        ("gpt-5-chat-latest", 16_384),
        ("o3-mini", 100_000),
        ("o1", 100_000),
        ("claude-3-haiku-20240307", 4_096),
        ("claude-3-5-sonnet-latest", 8_192),
        ("claude-opus-4-20250514", 32_000),
        ("claude-opus-4-1", 32_000),
        ("claude-opus-4-5", 64_000),
        ("anthropic/claude-sonnet-4.5", 64_000),
        ("claude-sonnet-5", 128_000),
        ("gemini-2.5-pro", 65_536),
        ("ollama-thing", None),
        ("", None),
    ],
)
def test_output_limits_of_known_families(model: str, limit: int | None) -> None:
    assert max_output_tokens(model) == limit
