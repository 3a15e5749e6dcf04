"""The context windows of models, as servers reveal them: in the refusal of a request that was too large, or in a report
that is requested once and remembered for a while."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import structlog

from app.errors import ContextOverflowError, PalimpsestError
from app.llm.base import LEAST_WINDOW, MOST_WINDOW

_OTHER_STATUSES = frozenset({401, 402, 403, 408, 429, 503, 504, 529})
"""Statuses about the key, the account, the rate or the server. Gateways pass refusals on with any other, also 500."""
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
            r"context shift is disabled",  # llama.cpp, once an answer has filled the window
        )
    ),
    re.I,
)
_REQUEST_TOO_LARGE = re.compile(
    r"tokens.{0,300}\blimit:? ([\d,]{1,15})\b.{0,40}\brequested:? ([\d,]{1,15})\b", re.I | re.S
)
"""Groq and OpenAI, of one request with more tokens than a minute allows: it would be refused at any time."""
_BODY_TOO_LARGE = re.compile(r"too large|too big|maximum size|max\w* (?:body|content|size)|exceed|<html", re.I)
"""What servers and proxies say with a 413 of a body that is too long."""
_SIZE = re.compile(r"token|length|prompt|\binputs?\b|context|conversation|history|输入|长度|上下文|超长", re.I)
_TOO_MUCH = re.compile(
    r"exceed|too (?:long|large|big|many)|longer|larger|bigger|greater|more than|\bover\b|limit|maxim|\bmax\b|\bfull\b"
    r"|reduce|shorten|<=|at most|range of|\bfit|超|过长|最大",
    re.I,
)
_OUTPUT_LIMIT = re.compile(r"max_?(?:completion_|output_|new_)?tokens?|(?:completion|output) tokens?", re.I)
_OTHER_SIZE = re.compile(
    r"string|array|characters|\b(?:bytes|[mk]i?b)\b|deadline|time[- ]?d?[- ]?out|cancel|please wait", re.I
)
_OF_IMAGE = re.compile(r"image|picture|pixel|\bfiles?\b", re.I)
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
        rf"context length(?:: | \(){_N}",
        rf"token limit: {_N}",
        rf"maximum (?:input|model) length (?:of )?\(?{_N}",
        rf"input length should be \[1, {_N}\]",
        rf"context window limit \({_N}\)",
        rf"must be <= {_N}",
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
        rf"\(requested: {_N}\)",
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

_NAMES = ("max_model_len", "context_length", "context_window", "max_context_length", "max_input_tokens")
_LM_STUDIO = ("organization_owner", "organization-owner")
"""The owner of every model in LM Studio's list."""

ASK_TIMEOUT_S = 5.0
"""Timeout in seconds for a server's answer; the first run of a model waits for it."""
BELIEVED_S = 3_600.0
"""How long a reported window is trusted, in seconds. A local server may be restarted with another one."""
ASK_AGAIN_S = 60.0
"""Seconds before a retry after a failure or an answer without a window: a model may still be loading."""
MAX_REMEMBERED = 1_000
"""Maximum models remembered; callers choose the names."""
log = structlog.get_logger(__name__)


def classify(status: int | None, body_text: str) -> ContextOverflowError | None:
    """The overflow reported by an error answer, None if it is another error.

    `status` is the HTTP status, None for an error inside a stream. A 413 may be about bytes rather than tokens; it
    counts as an overflow, because a smaller context fixes both, unless it mentions an image.
    """
    if over := _over_rate(status, body_text):
        return over
    if not _is_overflow(status, body_text):
        return None
    limit, requested, prompt = _first(_LIMITS, body_text), _requested(body_text), _first(_PROMPTS, body_text)
    detail = _sentence(limit, requested)
    return ContextOverflowError(detail, limit=limit, requested=requested, prompt=prompt, http_status=status)


def speaks_of_size(text: str) -> bool:
    """Whether a refusal that is in no list may mean that the request was too large: it says of tokens, length, prompt,
    input or context that they exceed something. The output limit, images and single texts are something else."""
    if speaks_of_rate(text) or _OTHER_SIZE.search(text) or (_OF_IMAGE.search(text) and "token" not in text.lower()):
        return False
    rest = _OUTPUT_LIMIT.sub("", text)
    return _SIZE.search(rest) is not None and _TOO_MUCH.search(rest) is not None


def speaks_of_rate(text: str) -> bool:
    """Whether an error is about how much may be sent in a time."""
    return _RATE.search(text) is not None


def named_window(text: str) -> int | None:
    """The window in tokens that a refusal names."""
    return plausible(_first(_LIMITS, text))


def _over_rate(status: int | None, text: str) -> ContextOverflowError | None:
    """The refusal of one request that is larger than what its provider accepts in a minute."""
    match = _REQUEST_TOO_LARGE.search(text)
    if match is None:
        return None
    limit, requested = _number(match[1]), _number(match[2])
    if requested <= limit:
        return None
    return ContextOverflowError(_sentence(limit, requested), limit=limit, requested=requested, http_status=status)


def _is_overflow(status: int | None, text: str) -> bool:
    if status in _OTHER_STATUSES:
        return False
    if _CODE.search(text):
        return True
    if _RATE.search(text):
        return False
    if _SENTENCES.search(text):
        return True
    return status == 413 and "image" not in text.lower() and (not text.strip() or bool(_BODY_TOO_LARGE.search(text)))


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


@dataclass(frozen=True, slots=True)
class _Report:
    """What is known of one model; it is requested again at `until`."""

    window: int | None
    until: float


class ServerWindows:
    """Windows by place, which is a base URL and a model's name there. `clock` counts seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, timeout_s: float = ASK_TIMEOUT_S) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._known: dict[str, _Report] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    def get(self, place: str) -> int | None:
        """The window in tokens last reported, None if none was."""
        report = self._known.get(place)
        return report.window if report is not None else None

    async def ask(self, place: str, model: str, question: Callable[[], Awaitable[int | None]]) -> None:
        """Asks with `question`, if it is due, and waits for the answer if there was none before. Never raises: without
        an answer the known window is kept. `model` is for the log, since a base URL may contain a secret."""
        report = self._known.get(place)
        if report is not None and self._clock() < report.until:
            return
        task = self._asking.get(place)
        if task is None:
            task = self._asking[place] = asyncio.create_task(self._learn(place, model, question))
        if report is None:
            # Not the task itself: this waiter may be cancelled while others also wait for it.
            await asyncio.wait({task})

    async def aclose(self) -> None:
        """Cancels pending questions."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _learn(self, place: str, model: str, question: Callable[[], Awaitable[int | None]]) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                window = await question()
        except Exception as error:
            # Any error: a run must not fail because of this question.
            log.info("window_request_failed", model=model, reason=_reason(error))
            self._remember(place, self.get(place), ASK_AGAIN_S)
        else:
            log.debug("window_reported", model=model, tokens=window)
            if window is None:
                self._remember(place, self.get(place), ASK_AGAIN_S)
            else:
                self._remember(place, window, BELIEVED_S)
        finally:
            del self._asking[place]

    def _remember(self, place: str, window: int | None, seconds: float) -> None:
        if place not in self._known and len(self._known) >= MAX_REMEMBERED:
            self._known.clear()
        self._known[place] = _Report(window, self._clock() + seconds)


def _reason(error: Exception) -> str:
    """A description without secrets, which the texts of other errors may contain."""
    if isinstance(error, PalimpsestError):
        return error.detail
    return "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
