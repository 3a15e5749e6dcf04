"""Finds the provider and the model behind a name such as `openai/gpt-5`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from app.errors import MissingApiKeyError, UnknownModelError
from app.llm.adapter import HttpProvider
from app.llm.anthropic import AnthropicProvider
from app.llm.base import ModelInfo, Provider
from app.llm.catalog import Catalog
from app.llm.openai import OpenAiProvider
from app.llm.quirks import QuirkMemory
from app.llm.reachability import Condition
from app.llm.scripted import DEMO_MODEL, ScriptedProvider
from app.llm.windows import ServerWindows

DEFAULT_IDLE_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """One configured provider. `needs_key` is false for a provider with its own base URL. `base_url` and `api_key` are
    ignored for the kind `scripted`."""

    name: str
    kind: Literal["openai-responses", "openai", "anthropic", "scripted"]
    base_url: str = ""
    api_key: str | None = None
    needs_key: bool = True

    def __repr__(self) -> str:
        """Without the key: configurations end up in logs."""
        return f"ProviderConfig(name={self.name!r}, kind={self.kind!r}, base_url={self.base_url!r})"

    @property
    def ready(self) -> bool:
        return bool(self.api_key) or not self.needs_key or self.kind == "scripted"


class Providers:
    """All configured providers, shared by all sessions. They are created at the start, so that no session waits for
    certificates to be loaded; connections are opened only by calls."""

    def __init__(
        self,
        configs: Iterable[ProviderConfig],
        catalog: Catalog,
        idle_timeout_s: float = DEFAULT_IDLE_TIMEOUT_S,
        quirks: QuirkMemory | None = None,
    ) -> None:
        """`quirks` persists what is learned from refusals."""
        self._configs = {config.name: config for config in configs}
        self._catalog = catalog
        self._idle_timeout_s = idle_timeout_s
        self._quirks = quirks
        self._server_windows = ServerWindows()
        self._open = {config.name: self._build(config) for config in self._configs.values() if config.ready}

    @property
    def catalog(self) -> Catalog:
        return self._catalog

    def resolve(self, model: str) -> tuple[Provider, str]:
        """The provider of `provider/model` and the model's name there, which may contain slashes.

        Raises `UnknownModelError` or `MissingApiKeyError`.
        """
        config, name = self._split(model)
        if not config.ready:
            raise MissingApiKeyError(f"The provider {config.name} has no API key; set one, or choose another model.")
        if config.name not in self._open:
            self._open[config.name] = self._build(config)
        return self._open[config.name], name

    def info(self, model: str) -> ModelInfo:
        """What is known of a model. Raises `UnknownModelError`; a missing key is not an error here."""
        config, name = self._split(model)
        info = self._with_learned(self._catalog.info(model, config.ready), config, name)
        if self._server_decides(info) and (window := self._server_windows.get(self.place(model))) is not None:
            return replace(info, context_window=window, window_source="server")
        return info

    def _server_decides(self, info: ModelInfo) -> bool:
        """Whether the window reported by a model's server takes precedence: if nothing else is known, or if the catalog
        only knows a model of that name, which a local server may serve with a smaller window."""
        known_elsewhere = info.window_source == "catalog" and self._catalog.is_known_elsewhere(info.name)
        return info.window_source == "assumed" or known_elsewhere

    async def ask_window(self, model: str) -> None:
        """Asks a model's server for its window if neither a setting nor the catalog has it, so that `info` has it.
        Waits for a model's first answer, at most `ASK_TIMEOUT_S`. Never raises: if the server does not report one or
        does not answer, the window stays assumed, and the server is asked again later."""
        try:
            config, name = self._split(model)
        except UnknownModelError:
            return
        if not config.ready or not self._server_decides(self._catalog.info(model, config.ready)):
            return
        provider, _ = self.resolve(model)
        if isinstance(provider, HttpProvider):
            await self._server_windows.ask(self.place(model), model, lambda: provider.window(name))

    async def conditions(self, default: str) -> list[Condition]:
        """The conditions of recently used providers, and of the `default` model's provider if it has its key."""
        first = default.partition("/")[0]
        opened = [(name, p) for name, p in self._open.items() if isinstance(p, HttpProvider)]
        asked = [provider.reach.check() for name, provider in opened if name == first or provider.reach.is_used]
        return await asyncio.gather(*asked)

    def place(self, model: str) -> str:
        """A model's unique place: base URL and name. Two providers may offer one name with different windows."""
        config, name = self._split(model)
        return f"{config.base_url} {name}"

    def models(self, default: str) -> list[ModelInfo]:
        """The models worth offering, in the order of the configured providers, the demo last. `default` comes first if
        it is not one of them."""
        scripted = [c.name for c in self._configs.values() if c.kind == "scripted"]
        chat_completions = [c.name for c in self._configs.values() if c.kind == "openai"]
        asked = (name for name in self._configs if name not in scripted)
        names = self._catalog.known(asked, chat_completions=chat_completions)
        names = [name for name in names if name.partition("/")[0] in self._configs]
        names += [f"{name}/{DEMO_MODEL}" for name in scripted]
        if default not in names and default.partition("/")[0] in self._configs:
            names = [default, *names]
        return [self.info(name) for name in dict.fromkeys(names)]

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._server_windows.aclose()
        providers, self._open = list(self._open.values()), {}
        await asyncio.gather(*(provider.aclose() for provider in providers))

    def _split(self, model: str) -> tuple[ProviderConfig, str]:
        provider, _, name = model.partition("/")
        config = self._configs.get(provider)
        if config is None or not name or (config.kind == "scripted" and name != DEMO_MODEL):
            known = ", ".join(sorted(self._configs)) or "none"
            raise UnknownModelError(
                f"There is no model {model[:200]!r}; a name is `provider/model`, and the providers are: {known}."
            )
        return config, name

    def _with_learned(self, info: ModelInfo, config: ProviderConfig, name: str) -> ModelInfo:
        """What is known of a model, with what its answers and refusals have shown."""
        provider = self._open.get(config.name)
        if not isinstance(provider, HttpProvider):
            return info
        quirks = provider.look_up(name)
        return replace(
            info,
            echoes_reasoning=provider.echoes(name),
            sees_images=quirks.sees_images if info.sees_images is None else info.sees_images,
            refused_tools=frozenset(quirks.refused_tools),
        )

    def _build(self, config: ProviderConfig) -> Provider:
        provider = self._make(config)
        if isinstance(provider, HttpProvider) and self._quirks is not None:
            provider.remember(f"{config.kind} {config.base_url}", self._quirks)
        return provider

    def _make(self, config: ProviderConfig) -> Provider:
        match config.kind:
            case "scripted":
                return ScriptedProvider(config.name)
            case "anthropic":
                return AnthropicProvider(
                    config.name, config.base_url, config.api_key, idle_timeout_s=self._idle_timeout_s
                )
            case "openai" | "openai-responses":
                return OpenAiProvider(
                    config.name,
                    config.base_url,
                    config.api_key,
                    idle_timeout_s=self._idle_timeout_s,
                    endpoint="responses" if config.kind == "openai-responses" else "chat_completions",
                )
