"""`GET /v1/models`, and llama.cpp's `/props`."""

from __future__ import annotations

from tests.provider.records import JSON
from tests.provider.settings import Settings


def openai_models(settings: Settings) -> JSON:
    """The list, with the window if this kind of server reports it."""
    return {"object": "list", "data": [_openai_model(settings, name) for name in settings.models]}


def _openai_model(settings: Settings, name: str) -> JSON:
    model: JSON = {"id": name, "object": "model", "created": 0, "owned_by": "fake"}
    window = settings.window_of(name)
    match settings.overflow:
        case "vllm":
            return {**model, "max_model_len": window}
        case "openrouter":
            return {**model, "context_length": window}
        case "llama.cpp":
            return {**model, "owned_by": "llamacpp", "meta": {"n_ctx": window, "n_ctx_train": 4 * window}}
        case _:
            return model


def anthropic_models(settings: Settings) -> JSON:
    data = [
        {"type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z"}
        for name in settings.models
    ]
    return {"data": data, "has_more": False, "first_id": settings.models[0], "last_id": settings.models[-1]}


def props(settings: Settings) -> JSON:
    """The properties document of llama.cpp's server."""
    window = settings.window_of(settings.models[0])
    return {"default_generation_settings": {"n_ctx": window}, "total_slots": 1, "model_path": settings.models[0]}
