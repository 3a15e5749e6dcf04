"""Recognizes a context overflow among a provider's errors, and learns the window from it.

There is no common shape: some providers send a code, most only a sentence. The code is checked first, then the
sentences; an error about rates is never an overflow, since it needs waiting and not compaction.
"""

from __future__ import annotations

import re

from app.errors import ContextOverflowError

_PATTERN_STATUSES = frozenset({400, 413, 422})
"""If the status is known, a sentence counts only with one of these."""

_RATE = re.compile(
    r"rate.?limit|per[ _-]?min|per[ _-]?(?:hour|day)\b|\btpm\b|\brpm\b|quota|throttl|too many requests", re.I
)

_CODE = re.compile(
    r"""["']?\b(?:code|type)["']?\s*[:=]\s*["']?(?:context_length_exceeded|exceed_context_size_error|"""
    r"""model_context_window_exceeded)\b"""
)

_SENTENCES = re.compile(
    "|".join(
        (
            r"maximum context length",  # OpenAI, OpenRouter, vLLM, Mistral
            r"context_length_exceeded",
            r"exceeds the context window of this model",  # OpenAI, Responses
            r"prompt is too long",  # Anthropic
            r"input length and `?max_tokens`? exceed context limit",  # Anthropic
            r"request_too_large",  # Anthropic, 413
            r"input token count.{0,40}exceeds the maximum number of tokens",  # Gemini
            r"exceeds the available context size",  # llama.cpp
            r"prompt too long; exceeded (?:max )?context length",  # Ollama
            r"input is too long for requested model",  # Bedrock
            r"too many input tokens",  # Bedrock
            r"maximum prompt length is",  # xAI
            r"reduce the length of the messages",  # Groq
            r"(?:greater|larger|longer) than the context length",  # LM Studio
            r"too large for model with",  # Mistral
        )
    ),
    re.I,
)

_N = r"(\d[\d,_]{0,20})"
"""A number, bounded so that a text of only digits is not scanned again from each digit."""

_LIMITS = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        rf"maximum context length (?:is|of) {_N}",
        rf"{_N} maximum context length",
        rf"exceed context limit: {_N} \+ {_N} > (?P<n>[\d,_]+)",
        rf"tokens > {_N} maximum",
        rf"maximum number of tokens allowed \({_N}\)",
        rf"available context size \({_N}",
        rf"\"n_ctx\"\s*:\s*{_N}",
        rf"maximum prompt length is {_N}",
        rf"context length of (?:only )?{_N}",
    )
)

_REQUESTED = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        rf"total of at least {_N}",
        rf"requested (?:about )?{_N} tokens",
        rf"prompt is too long: {_N} tokens",
        rf"input token count \({_N}\)",
        rf"\"n_prompt_tokens\"\s*:\s*{_N}",
        rf"request \({_N} tokens\)",
        rf"request contains {_N} tokens",
        rf"resulted in {_N} tokens",
        rf"prompt contains (?:at least )?{_N}",
    )
)

_INPUT_PLUS_OUTPUT = re.compile(rf"exceed context limit: {_N} \+ {_N}", re.I)

_PROMPTS = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        rf"exceed context limit: {_N} \+ ",  # Anthropic
        rf"tokens \({_N} in the messages, [^)]{{0,80}} in the completion\)",  # OpenAI
        rf"tokens \({_N} of text input, [^)]{{0,80}} in the output\)",  # OpenRouter
        rf"output tokens and your prompt contains (?:at least )?{_N} input tokens",  # vLLM
    )
)
"""A prompt's tokens, in sentences that count the tokens requested for the answer separately."""


def classify(status: int | None, body_text: str) -> ContextOverflowError | None:
    """The overflow reported by an error answer, None if it is another error.

    `status` is the HTTP status, None for an error inside a stream. A 413 may be about bytes rather than tokens; it
    counts as an overflow, because a smaller context fixes both, unless it mentions an image. One provider (Cerebras)
    sends a 400 or 413 without a body.
    """
    if status == 429 or not _is_overflow(status, body_text):
        return None
    limit, requested, prompt = _first(_LIMITS, body_text), _requested(body_text), _first(_PROMPTS, body_text)
    detail = _sentence(limit, requested)
    return ContextOverflowError(detail, limit=limit, requested=requested, prompt=prompt, http_status=status)


def _is_overflow(status: int | None, text: str) -> bool:
    if _CODE.search(text):
        return True
    if _RATE.search(text) or (status is not None and status not in _PATTERN_STATUSES):
        return False
    if _SENTENCES.search(text):
        return True
    if status == 413:
        return "image" not in text.lower()
    return status == 400 and not text.strip()


def _sentence(limit: int | None, requested: int | None) -> str:
    size = f"The request of {requested} tokens" if requested else "The request"
    window = f"the model's context window of {limit} tokens" if limit else "the model's context window"
    return f"{size} does not fit {window}."


def _requested(text: str) -> int | None:
    if both := _INPUT_PLUS_OUTPUT.search(text):
        return _number(both[1]) + _number(both[2])
    return _first(_REQUESTED, text)


def _first(patterns: tuple[re.Pattern[str], ...], text: str) -> int | None:
    for pattern in patterns:
        if match := pattern.search(text):
            return _number(match.groupdict().get("n") or match[1])
    return None


def _number(text: str) -> int:
    """The number, of which at most 12 digits count: a window is smaller, and the text is untrusted."""
    return int(re.sub(r"\D", "", text)[:12])
