"""What is known of models: windows, output limits and prices, from the operator's settings and the `genai-prices` data.

Nothing is fetched: the data comes with the installed package.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from functools import cache
from urllib.parse import urlsplit

from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelInfo as PricedModel
from genai_prices.types import Provider as PricedProvider
from genai_prices.types import Usage as PricedUsage

from app.llm.base import UNKNOWN_PRICES, ModelInfo, ModelSettings, Prices, WindowSource
from app.llm.known_models import (
    FREE,
    base_prices,
    binds_thinking,
    efforts,
    flat_cost,
    max_output_tokens,
    plain_name,
    sees_images,
    stripped_name,
)
from app.messages import Usage

ASSUMED_WINDOW = 128_000
KNOWN_PER_PROVIDER = 20
SCRIPTED = "scripted"
_SCRIPTED_WINDOW = 128_000
_DEMO = "A scripted demo; no real model. Shows the service in action without a key."

_ALIASES = {
    "xai": "x-ai",
    "grok": "x-ai",
    "gemini": "google",
    "vertex": "google",
    "bedrock": "aws",
    "moonshot": "moonshotai",
    "kimi": "moonshotai",
    "qwen": "openrouter",
    "z-ai": "zai",
    "togetherai": "together",
}
"""Common names of providers that have another name in the data."""

_NO_CHAT = re.compile(
    r"embed|audio|realtime|transcribe|tts|image|moderation|whisper|search|live|robotics|omni|vision|instruct|davinci"
    r"|rerank|guard|computer-use|deep-research|banana|cyber|ocr|preview|translate|rosalind|^ft:|^o\d|latest$"
)
"""Names of models that are not listed, because they cannot run an agent or a newer one is listed."""

_RESPONSES_ONLY = re.compile(r"codex|-pro(?:-|$)")
"""OpenAI models that are only available at its Responses endpoint."""

_VERSION = re.compile(r"(?<!\d)\d{1,3}(?![\db])")


_NOTHING = ModelSettings()

MAX_REMEMBERED = 1_000
"""Maximum cached look-ups of models, known or not."""


class Catalog:
    """Information about models by their full name, `provider/model`.

    `models` are the operator's overrides, by full name or by model name only. `base_urls` are the providers' base URLs
    by name; public ones are recognized by the data. Models of an unknown provider get no price, since its prices are
    unknown, but a window if the model's name is known.
    """

    def __init__(
        self, models: Mapping[str, ModelSettings] | None = None, *, base_urls: Mapping[str, str] | None = None
    ) -> None:
        self._models = dict(models or {})
        self._providers = {provider.id: provider for provider in get_snapshot().providers}
        self._at_url = {name: self._provider_at(url) for name, url in (base_urls or {}).items()}
        self._found: dict[str, tuple[PricedProvider | None, PricedModel | None]] = {}

    def info(self, name: str, key_present: bool) -> ModelInfo:
        """What is known of a model; an unknown window is `ASSUMED_WINDOW`, marked `assumed`."""
        provider, _, model = name.partition("/")
        override, found = self._override(name), self._find(name)[1]
        window, source = self._window(name, override, found)
        return ModelInfo(
            name=name,
            provider=provider,
            context_window=window,
            window_source=source,
            max_output_tokens=override.max_output_tokens or max_output_tokens(model),
            prices=self._prices(name),
            key_present=key_present,
            reasoning_efforts=efforts(model) if override.reasoning_efforts is None else override.reasoning_efforts,
            binds_thinking=binds_thinking(model),
            sees_images=sees_images(model) if override.sees_images is None else override.sees_images,
            description=_DEMO if provider == SCRIPTED else (found.name or "") if found else "",
        )

    def cost(self, name: str, usage: Usage) -> float | None:
        """US dollars for one call's usage, None if a price is unknown. Tiers by prompt size apply per call, so the
        usage of several calls must not be summed first."""
        if name.startswith(SCRIPTED + "/"):
            return 0.0
        if (prices := self._override(name).prices) is not None:
            return flat_cost(prices, usage)
        provider, model = self._priced(name)
        if provider is None or model is None or self._prices(name).input is None:
            return None
        counted = PricedUsage(
            input_tokens=usage.prompt_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            output_tokens=usage.output_tokens,
        )
        return float(round(model.calc_price(counted, provider).total_price, 10))

    def known(self, providers: Iterable[str], *, chat_completions: Container[str] = ()) -> list[str]:
        """Full names of models worth offering: the newest of each of these providers, and those with an override by
        full name. Providers in `chat_completions` support only that format."""
        names = [name for name in self._models if "/" in name]
        for provider in providers:
            data = self._provider_data(provider)
            if data is not None:
                offered = _offered(data, chat_completions=provider in chat_completions and data.id == "openai")
                names += [f"{provider}/{model.id}" for model in offered]
        return list(dict.fromkeys(names))

    def is_known_elsewhere(self, name: str) -> bool:
        """Whether the data describes no such model of this provider or of a maker, only possibly the window of a model
        that other providers serve under that name."""
        return self._find(name)[1] is None and not name.startswith(SCRIPTED + "/")

    def _override(self, name: str) -> ModelSettings:
        return self._models.get(name) or self._models.get(name.partition("/")[2]) or _NOTHING

    def _window(self, name: str, override: ModelSettings, found: PricedModel | None) -> tuple[int, WindowSource]:
        provider, _, model = name.partition("/")
        if override.context_window:
            return override.context_window, "setting"
        if provider == SCRIPTED:
            return _SCRIPTED_WINDOW, "catalog"
        known = found.context_window if found is not None else None
        known = known or _known_windows().get(plain_name(model))
        return (known, "catalog") if known else (ASSUMED_WINDOW, "assumed")

    def _prices(self, name: str) -> Prices:
        if (prices := self._override(name).prices) is not None:
            return prices
        if name.startswith(SCRIPTED + "/"):
            return FREE
        _, model = self._priced(name)
        return base_prices(model) if model else UNKNOWN_PRICES

    def _priced(self, name: str) -> tuple[PricedProvider | None, PricedModel | None]:
        provider, model = self._find(name)
        return (provider, model) if self._provider_data(name.partition("/")[0]) is provider else (None, None)

    def _provider_data(self, provider: str) -> PricedProvider | None:
        key = provider.lower()
        if (data := self._providers.get(_ALIASES.get(key, key))) is not None:
            return data
        return self._at_url.get(provider)

    def _provider_at(self, url: str) -> PricedProvider | None:
        if not urlsplit(url).hostname:
            return None
        return next((p for p in self._providers.values() if re.match(p.api_pattern, url)), None)

    def _find(self, name: str) -> tuple[PricedProvider | None, PricedModel | None]:
        """The model in the data and the provider whose terms apply; looked up once per name."""
        if name not in self._found:
            if len(self._found) >= MAX_REMEMBERED:
                # Bounded, since callers choose the names.
                self._found.clear()
            self._found[name] = self._search(name)
        return self._found[name]

    def _search(self, name: str) -> tuple[PricedProvider | None, PricedModel | None]:
        provider_name, _, model_name = name.partition("/")
        provider = self._provider_data(provider_name)
        if provider and (model := provider.find_model(model_name, all_providers=list(self._providers.values()))):
            return provider, model
        for variant in dict.fromkeys((model_name, stripped_name(model_name))):
            for data, model_part in self._vendors(variant):
                if model := data.find_model(model_part):
                    return data, model
        return provider, None

    def _vendors(self, model_name: str) -> Iterable[tuple[PricedProvider, str]]:
        """Other places that may describe a model of this name: the vendor it names, then the makers of models, then the
        largest list."""
        vendor, _, rest = model_name.rpartition("/")
        if vendor and (data := self._provider_data(vendor.rpartition("/")[2])):
            yield data, rest
        for maker in ("openai", "anthropic", "google", "mistral", "deepseek", "x-ai", "moonshotai", "openrouter"):
            if data := self._providers.get(maker):
                yield data, model_name if maker == "openrouter" else rest


def _offered(provider: PricedProvider, *, chat_completions: bool) -> list[PricedModel]:
    chat = [
        model
        for model in provider.models
        if not model.deprecated and model.context_window and model.context_window >= 100_000
        if base_prices(model).output is not None and not _NO_CHAT.search(model.id)
        if not (chat_completions and _RESPONSES_ONLY.search(model.id))
        if provider.find_model(model.id) is model  # some ids exist only in the data and are not model names
    ]
    return sorted(chat, key=_newest_first)[:KNOWN_PER_PROVIDER]


def _newest_first(model: PricedModel) -> tuple[list[int], str]:
    """Sort key: the version in the id, highest first; the data has no release dates. Numbers of four or more digits
    are dates, and `120b` is a size."""
    version = [-int(number) for number in _VERSION.findall(model.id)]
    return [*version, 0, 0, 0][:3], model.id


@cache
def _known_windows() -> dict[str, int]:
    """The windows of all models in the data by plain name. If providers serve a model with different windows, the
    smallest, which fits everywhere."""
    windows: dict[str, int] = {}
    for provider in get_snapshot().providers:
        for model in provider.models:
            if model.context_window and (name := plain_name(model.id)):
                windows[name] = min(model.context_window, windows.get(name, model.context_window))
    return windows
