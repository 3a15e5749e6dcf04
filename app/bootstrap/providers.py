"""The configured model providers, their keys, and the default model."""

from __future__ import annotations

import os

from dotenv import dotenv_values

from app.db.backends import password_of
from app.llm.catalog import Catalog
from app.llm.quirks import QuirkMemory
from app.llm.registry import ProviderConfig, Providers
from app.settings import DEMO_MODEL, Settings

DEFAULT_MODELS = {"openai": "openai/gpt-5", "anthropic": "anthropic/claude-sonnet-5"}
"""The default model if only this provider's key is set."""

OPENAI_URL = "https://api.openai.com/v1"
ANTHROPIC_URL = "https://api.anthropic.com"


def provider_configs(settings: Settings) -> list[ProviderConfig]:
    """All configured providers. A key named by `api_key_env` is read from the environment or from `.env`."""
    environment = {**dotenv_values(".env"), **os.environ}
    configs = [
        ProviderConfig("scripted", "scripted"),
        ProviderConfig(
            "openai",
            "openai-responses" if _is_openai(settings.openai_base_url) else "openai",
            settings.openai_base_url or OPENAI_URL,
            _secret(settings.openai_api_key),
            needs_key=settings.openai_base_url is None,
        ),
        ProviderConfig(
            "anthropic",
            "anthropic",
            settings.anthropic_base_url or ANTHROPIC_URL,
            _secret(settings.anthropic_api_key),
            needs_key=settings.anthropic_base_url is None,
        ),
    ]
    for name, provider in settings.providers.items():
        key = environment.get(provider.api_key_env) if provider.api_key_env else None
        configs.append(ProviderConfig(name, provider.kind, provider.base_url, key, needs_key=False))
    return configs


def _is_openai(base_url: str | None) -> bool:
    """Whether `openai` is OpenAI itself, not another server that speaks its older format."""
    return base_url is None or base_url.rstrip("/") == OPENAI_URL


def _secret(value: object) -> str | None:
    get = getattr(value, "get_secret_value", None)
    return get() or None if get is not None else None


def default_model(settings: Settings) -> str:
    """The model of sessions without one: the setting, else the default of the first key, else the demo."""
    if settings.model:
        return settings.model
    keyed = {"openai": settings.openai_api_key, "anthropic": settings.anthropic_api_key}
    return next((DEFAULT_MODELS[name] for name, key in keyed.items() if _secret(key)), DEMO_MODEL)


def secrets_of(settings: Settings) -> list[str]:
    """All keys that this server knows, to redact them in logs."""
    keys = [config.api_key for config in provider_configs(settings) if config.api_key]
    broker = settings.broker.get_secret_value() if settings.broker else ""
    keys += [password for url in (settings.url, broker) if (password := password_of(url))]
    keys += [key.get_secret_value() for key in (settings.temporal_api_key, settings.secret_key) if key is not None]
    return keys + [key.get_secret_value() for key in settings.api_keys]


def build_providers(settings: Settings, quirks: QuirkMemory | None = None) -> Providers:
    """The model providers with their catalog; `quirks` persists what was learned from refusals."""
    configs = provider_configs(settings)
    catalog = Catalog(settings.models, base_urls={config.name: config.base_url for config in configs})
    return Providers(configs, catalog, settings.provider_idle_timeout_s, quirks)
