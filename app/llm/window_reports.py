"""The windows of models in the reports of their servers, in their various formats. Pure functions of untrusted JSON
documents.

From the servers' documentation and sources: vLLM and SGLang use `max_model_len`, OpenRouter and others
`context_length`, Groq `context_window`, Mistral `max_context_length`, Anthropic `max_input_tokens`; for llama.cpp's
server and LM Studio see below. Ollama's list has no window.
"""

from __future__ import annotations

from typing import Any

from app.llm.base import LEAST_WINDOW, MOST_WINDOW

_NAMES = ("max_model_len", "context_length", "context_window", "max_context_length", "max_input_tokens")

_LM_STUDIO = ("organization_owner", "organization-owner")
"""The owner of every model in LM Studio's list."""


def entry_of(listing: Any, model: str) -> dict[str, Any] | None:
    """A model's entry in a list of models, by its id or an alias. A llama.cpp server with one model serves it under
    every name."""
    if isinstance(listing, dict):
        listing = listing.get("data")
    entries = [entry for entry in listing if isinstance(entry, dict)] if isinstance(listing, list) else []
    named = next((entry for entry in entries if entry.get("id") == model), None)
    named = named or next((entry for entry in entries if model in _aliases(entry)), None)
    if named is None and len(entries) == 1 and is_llama_cpp(entries[0]):
        return entries[0]
    return named


def listed_window(entry: dict[str, Any]) -> int | None:
    """The window in tokens in an entry of a list. The window that a model was trained for (`n_ctx_train`, and LM
    Studio's maximum of a model that is not loaded) does not count: it may not be served."""
    if "loaded_context_length" in entry or "compatibility_type" in entry:
        return plausible(entry.get("loaded_context_length"))
    meta = entry.get("meta")
    windows = [plausible(entry.get(name)) for name in _NAMES]
    windows.append(plausible(meta.get("n_ctx")) if isinstance(meta, dict) else None)
    return next((window for window in windows if window is not None), None)


def is_llama_cpp(entry: dict[str, Any]) -> bool:
    """Whether the entry is from a llama.cpp server, whose `/props` contain the window of a slot."""
    meta = entry.get("meta")
    return entry.get("owned_by") == "llamacpp" or (isinstance(meta, dict) and "n_ctx_train" in meta)


def is_lm_studio(entry: dict[str, Any]) -> bool:
    """Whether the entry is from LM Studio, which reports windows only in its own API."""
    return entry.get("owned_by") in _LM_STUDIO


def props_window(props: Any) -> int | None:
    """The window in tokens in the `/props` of a llama.cpp server, where 0 means that the model is not loaded."""
    settings = props.get("default_generation_settings") if isinstance(props, dict) else None
    return plausible(settings.get("n_ctx")) if isinstance(settings, dict) else None


def plausible(value: Any) -> int | None:
    """The value, if it is a plausible window."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and LEAST_WINDOW <= value <= MOST_WINDOW else None


def _aliases(entry: dict[str, Any]) -> list[Any]:
    aliases = entry.get("aliases")
    return aliases if isinstance(aliases, list) else []
