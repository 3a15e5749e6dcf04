"""How the providers say that a prompt is too long, each in its own words.

Sources: the providers' documentation and public issue threads. A shape is a function of the sizes in tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tests.provider.records import JSON, Refused

OverflowStyle = Literal[
    "openai",
    "responses",
    "anthropic",
    "gemini",
    "openrouter",
    "vllm",
    "llama.cpp",
    "ollama",
    "ollama-error",
    "bedrock",
    "xai",
    "groq",
    "lmstudio",
    "mistral",
    "cerebras",
]
"""`ollama` is the silent one: it answers 200 and reports no more prompt tokens than fit its window."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The prompt's tokens, the output tokens asked for (0 if unsaid) and the window."""

    prompt: int
    output: int
    window: int

    @property
    def total(self) -> int:
        return self.prompt + self.output


Shape: TypeAlias = Callable[[Sizes], Refused]


def check_window(style: OverflowStyle, sizes: Sizes) -> None:
    """Raises the style's refusal if the prompt, or for some providers prompt and output together, does not fit."""
    if style == "ollama":
        return
    if sizes.prompt > sizes.window or (style in COUNTS_OUTPUT and sizes.total > sizes.window):
        raise SHAPES[style](sizes)


COUNTS_OUTPUT: frozenset[OverflowStyle] = frozenset({"openai", "anthropic", "openrouter", "vllm"})
"""Styles that refuse when prompt and requested output together exceed the window."""


def _refused(message: str, body: JSON | bytes | None = None, *, status: int = 400, code: str | None = None) -> Refused:
    param = "messages" if code else None
    return Refused("overflow", message, status=status, body=body, code=code, param=param)


def _openai(s: Sizes) -> Refused:
    start = f"This model's maximum context length is {s.window} tokens. However, "
    if s.prompt > s.window:
        rest = f"your messages resulted in {s.prompt} tokens. Please reduce the length of the messages."
    else:
        rest = (
            f"you requested {s.total} tokens ({s.prompt} in the messages, {s.output} in the completion)."
            " Please reduce the length of the messages or completion."
        )
    return _refused(start + rest, code="context_length_exceeded")


def _responses(s: Sizes) -> Refused:
    message = "Your input exceeds the context window of this model. Please adjust your input and try again."
    return Refused("overflow", message, param="input", code="context_length_exceeded")


def _anthropic(s: Sizes) -> Refused:
    if s.prompt > s.window:
        return _refused(f"prompt is too long: {s.prompt} tokens > {s.window} maximum")
    return _refused(
        f"input length and `max_tokens` exceed context limit: {s.prompt} + {s.output} > {s.window},"
        " decrease input length or `max_tokens` and try again"
    )


def _gemini(s: Sizes) -> Refused:
    message = f"The input token count ({s.prompt}) exceeds the maximum number of tokens allowed ({s.window})."
    return _refused(message, {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}})


def _openrouter(s: Sizes) -> Refused:
    message = (
        f"This endpoint's maximum context length is {s.window} tokens. However, you requested about {s.total} tokens"
        f" ({s.prompt} of text input, {s.output} in the output). Please reduce the length of either one, or use the"
        ' "middle-out" transform to compress your prompt automatically.'
    )
    return _refused(message, {"error": {"message": message, "code": 400, "metadata": {"provider_name": None}}})


def _vllm(s: Sizes) -> Refused:
    message = (
        f"This model's maximum context length is {s.window} tokens. However, you requested {s.output} output tokens and"
        f" your prompt contains at least {s.prompt} input tokens, for a total of at least {s.total} tokens. Please"
        " reduce the length of the input prompt or the number of requested output tokens."
        f" (parameter=input_tokens, value={s.prompt})"
    )
    error = {"message": message, "type": "BadRequestError", "param": "input_tokens", "code": 400}
    return _refused(message, {"error": error})


def _llama_cpp(s: Sizes) -> Refused:
    message = f"request ({s.prompt} tokens) exceeds the available context size ({s.window} tokens), try increasing it"
    error = {"code": 400, "message": message, "type": "exceed_context_size_error"}
    return _refused(message, {"error": {**error, "n_prompt_tokens": s.prompt, "n_ctx": s.window}})


def _ollama(s: Sizes) -> Refused:
    return _refused(f"prompt too long; exceeded max context length by {s.prompt - s.window} tokens")


def _bedrock(s: Sizes) -> Refused:
    message = "Input is too long for requested model"
    return _refused(message, {"__type": "ValidationException", "message": message})


def _xai(s: Sizes) -> Refused:
    message = f"This model's maximum prompt length is {s.window} but the request contains {s.prompt} tokens."
    return _refused(message, {"code": "Client specified an invalid argument", "error": message})


def _groq(s: Sizes) -> Refused:
    return _refused("Please reduce the length of the messages or completion.", code="context_length_exceeded")


def _lmstudio(s: Sizes) -> Refused:
    message = (
        "The number of tokens to keep from the initial prompt is greater than the context length."
        " Try to load the model with a larger context length, or provide a shorter input"
    )
    return _refused(message, {"error": message})


def _mistral(s: Sizes) -> Refused:
    message = (
        f"Prompt contains {s.prompt} tokens and 0 draft tokens, too large for model with {s.window}"
        " maximum context length"
    )
    body = {"object": "error", "message": message, "type": "invalid_request_prompt", "param": None, "code": "3051"}
    return _refused(message, body)


def _cerebras(s: Sizes) -> Refused:
    return _refused("", b"", status=413)


SHAPES: dict[OverflowStyle, Shape] = {
    "openai": _openai,
    "responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "openrouter": _openrouter,
    "vllm": _vllm,
    "llama.cpp": _llama_cpp,
    "ollama-error": _ollama,
    "bedrock": _bedrock,
    "xai": _xai,
    "groq": _groq,
    "lmstudio": _lmstudio,
    "mistral": _mistral,
    "cerebras": _cerebras,
}
