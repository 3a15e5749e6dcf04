"""What servers say of the windows of their models, each in its own words. Functions of JSON documents, which may hold
anything.

From the servers' documentation and sources: vLLM and SGLang say `max_model_len`, OpenRouter and others
`context_length`, Groq `context_window`, Mistral `max_context_length`, Anthropic `max_input_tokens`; for llama.cpp's
server and LM Studio see below. Ollama's list says nothing.
"""

from __future__ import annotations

from typing import Any

from app.llm.base import LEAST_WINDOW, MOST_WINDOW

_NAMES = ("max_model_len", "context_length", "context_window", "max_context_length", "max_input_tokens")

_LM_STUDIO = ("organization_owner", "organization-owner")
"""Whom LM Studio names as the owner of every model."""


def entry_of(listing: Any, model: str) -> dict[str, Any] | None:
    """What a list of models says of one, by its id or an alias. A llama.cpp server with one model answers to every
    name with it."""
    if isinstance(listing, dict):
        listing = listing.get("data")
    entries = [entry for entry in listing if isinstance(entry, dict)] if isinstance(listing, list) else []
    named = next((entry for entry in entries if entry.get("id") == model), None)
    named = named or next((entry for entry in entries if model in _aliases(entry)), None)
    if named is None and len(entries) == 1 and is_llama_cpp(entries[0]):
        return entries[0]
    return named


def listed_window(entry: dict[str, Any]) -> int | None:
    """The window in tokens that an entry of a list names. What a model was trained for (`n_ctx_train`, and LM Studio's
    maximum of a model that is not loaded) is no window that is served."""
    if "loaded_context_length" in entry or "compatibility_type" in entry:
        return plausible(entry.get("loaded_context_length"))
    meta = entry.get("meta")
    windows = [plausible(entry.get(name)) for name in _NAMES]
    windows.append(plausible(meta.get("n_ctx")) if isinstance(meta, dict) else None)
    return next((window for window in windows if window is not None), None)


def is_llama_cpp(entry: dict[str, Any]) -> bool:
    """Whether a llama.cpp server wrote the entry, whose `/props` name the window of a slot."""
    meta = entry.get("meta")
    return entry.get("owned_by") == "llamacpp" or (isinstance(meta, dict) and "n_ctx_train" in meta)


def is_lm_studio(entry: dict[str, Any]) -> bool:
    """Whether LM Studio wrote the entry, which names windows in an API of its own alone."""
    return entry.get("owned_by") in _LM_STUDIO


def props_window(props: Any) -> int | None:
    """The window in tokens in the `/props` of a llama.cpp server; 0 stands there for a model that is not loaded."""
    settings = props.get("default_generation_settings") if isinstance(props, dict) else None
    return plausible(settings.get("n_ctx")) if isinstance(settings, dict) else None


def plausible(value: Any) -> int | None:
    """The value, if it is a number that can be a window."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and LEAST_WINDOW <= value <= MOST_WINDOW else None


def _aliases(entry: dict[str, Any]) -> list[Any]:
    aliases = entry.get("aliases")
    return aliases if isinstance(aliases, list) else []
