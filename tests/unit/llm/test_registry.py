from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
import pytest

from app.errors import MissingApiKeyError, ProviderError, UnknownModelError
from app.llm.anthropic import AnthropicProvider
from app.llm.base import ModelSettings
from app.llm.catalog import Catalog
from app.llm.openai import OpenAiProvider
from app.llm.registry import ProviderConfig, Providers
from app.llm.scripted import ScriptedProvider

from .servers import Scripted, local_server, sse
from .values import collect, prose, request

CONFIGS = (
    ProviderConfig("openai", "openai", "https://api.openai.com/v1", None),
    ProviderConfig("anthropic", "anthropic", "https://api.anthropic.com", "sk-ant-secret"),
    ProviderConfig("local", "openai", "http://127.0.0.1:1/v1", None, needs_key=False),
    ProviderConfig("scripted", "scripted"),
)


class Memory:
    def __init__(self) -> None:
        self.known: dict[str, Mapping[str, Any]] = {}

    def recall(self, place: str) -> Mapping[str, Any] | None:
        return self.known.get(place)

    async def learned(self, place: str, known: Mapping[str, Any]) -> None:
        self.known[place] = known


def providers(*configs: ProviderConfig, **models: ModelSettings) -> Providers:
    return Providers(configs or CONFIGS, Catalog(models))


async def test_a_name_resolves_to_its_provider_and_the_models_name_there() -> None:
    known = providers()
    provider, model = known.resolve("anthropic/claude-sonnet-5")
    assert isinstance(provider, AnthropicProvider)
    assert (provider.name, model) == ("anthropic", "claude-sonnet-5")
    provider, model = known.resolve("local/Qwen/Qwen3-32B")
    assert isinstance(provider, OpenAiProvider)
    assert (provider.name, model) == ("local", "Qwen/Qwen3-32B")
    assert isinstance(known.resolve("scripted/demo")[0], ScriptedProvider)
    await known.aclose()


async def test_two_kinds_of_provider_at_one_address_do_not_share_what_they_learned() -> None:
    error = {"error": {"message": "Unknown parameter: 'temperature'.", "param": "temperature"}}
    refused = Scripted(status=400, pieces=[orjson.dumps(error)])
    async with local_server(refused, Scripted(status=500)) as server:
        configs = [ProviderConfig(kind, kind, server.url, "a key") for kind in ("openai", "anthropic")]
        memory = Memory()
        known = Providers(configs, Catalog({}), quirks=memory)
        for config in configs:
            provider, model = known.resolve(f"{config.name}/model")
            with pytest.raises(ProviderError):
                await collect(provider.stream(replace(request(), model=model, temperature=0.5)))
        await known.aclose()
    (place,) = memory.known
    assert place == f"openai {server.url} model"
    assert "temperature" in server.asked[-1].json


async def test_a_provider_is_opened_once() -> None:
    known = providers()
    assert known.resolve("local/a")[0] is known.resolve("local/b")[0]
    await known.aclose()


@pytest.mark.parametrize("name", ["", "gpt-5", "nobody/gpt-5", "openai/", "/gpt-5", "scripted/other"])
def test_an_unknown_name_is_refused_with_a_list_of_the_providers(name: str) -> None:
    for ask in (providers().resolve, providers().info):
        with pytest.raises(UnknownModelError, match="anthropic, local, openai, scripted"):
            ask(name)


def test_a_very_long_name_is_truncated_in_the_error() -> None:
    with pytest.raises(UnknownModelError) as caught:
        providers().resolve("x" * 10_000)
    assert len(caught.value.detail) < 500


def test_without_a_key_a_model_can_be_described_but_not_called() -> None:
    with pytest.raises(MissingApiKeyError, match="openai has no API key"):
        providers().resolve("openai/gpt-5")
    described = providers().info("openai/gpt-5")
    assert (described.key_present, described.context_window) == (False, 400_000)


def test_a_provider_with_a_base_url_needs_no_key() -> None:
    assert providers().info("local/x").key_present


def test_the_models_on_offer_are_those_of_the_configured_providers_with_the_demo_last() -> None:
    offered = providers(**{"local/mine": ModelSettings(context_window=4096), "gone/x": ModelSettings()}).models(
        "scripted/demo"
    )
    names = [model.name for model in offered]
    assert names[0] == "local/mine"
    assert names[-1] == "scripted/demo"
    assert {model.provider for model in offered} == {"local", "openai", "anthropic", "scripted"}
    assert len(names) == len(set(names))
    keys = {model.provider: model.key_present for model in offered}
    assert keys == {"openai": False, "anthropic": True, "local": True, "scripted": True}


def test_no_scripted_provider_means_no_demo() -> None:
    assert providers(CONFIGS[2]).models("gone/x") == []


def test_the_default_model_is_listed_whether_the_catalog_knows_it_or_not() -> None:
    names = [info.name for info in providers().models("local/unheard-of")]
    assert names[0] == "local/unheard-of"
    assert names[1:] == [info.name for info in providers().models("scripted/demo")]


def test_a_key_is_not_in_a_configurations_text() -> None:
    assert "secret" not in repr(CONFIGS[1])


async def test_a_closed_registry_has_closed_its_connections_and_can_open_anew() -> None:
    answer = Scripted(pieces=sse({"choices": [{"delta": {"content": "ok"}, "finish_reason": "stop"}]}, "[DONE]"))
    async with local_server(answer) as server:
        known = providers(ProviderConfig("local", "openai", server.url + "/v1", needs_key=False))
        provider, model = known.resolve("local/x")
        assert prose(await collect(provider.stream(request(model=model)))) == "ok"
        await known.aclose()
        again, _ = known.resolve("local/x")
        assert again is not provider
        await known.aclose()
