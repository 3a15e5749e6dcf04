"""Settings of the fake provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tests.provider.overflow import OverflowStyle
from tests.provider.records import JSON
from tests.provider.script import Gate, HttpError, UsageStyle

Insistence = Literal["mistral", "alternating", "two_roles", "echo"]
"""`mistral`: its validator of roles. `alternating`: a template of user and assistant in turns, calls and results apart,
behind llama.cpp. `two_roles`: one that knows nothing else, behind vLLM. `echo`: DeepSeek's thinking mode."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`key` is the one that requests must carry; None takes any or none. `window` is in tokens by the fake's count,
    `windows` differs by model. `overflow` is the shape of that refusal; None is the format's own. `refused_parameters`
    are top-level fields that get the "unsupported parameter" refusal, as newer models do with `max_tokens` and
    `temperature`. `insists` are rules about messages that only some servers of the Chat Completions format have.
    `efforts` are the values of `reasoning_effort` that are taken, in words of each server; None takes
    any. `responses_only` are models that Chat Completions does not know, `tools_on_responses` those that take tools at
    Responses alone; `has_responses` is false for a server without that endpoint. `binds_thinking` has replayed thinking
    verified against all that comes before it, as newer Claude models do. `models` are listed by `GET /v1/models`.
    `documents` take the place of what a GET of their path would give; behind a gate that is given all the same.
    With `refuses_in_stream` a refused request that asked for a stream gets status 200 and an error event. `max_body` is
    in bytes, beyond it 413. `blind_models` see no images; `broken_images` are the base64 of images that cannot be
    processed. `keep` bounds the recorded requests for long loads; None keeps all. Without `strict` nothing is checked,
    read or counted, so that the fake costs little under load; the key is still asked for.
    """

    key: str | None = None
    window: int = 128_000
    windows: Mapping[str, int] = field(default_factory=dict)
    overflow: OverflowStyle | None = None
    usage: UsageStyle = "last_chunk"
    refused_parameters: frozenset[str] = frozenset()
    efforts: frozenset[str] | None = None
    responses_only: frozenset[str] = frozenset()
    tools_on_responses: frozenset[str] = frozenset()
    has_responses: bool = True
    binds_thinking: bool = True
    blind_models: frozenset[str] = frozenset()
    broken_images: frozenset[str] = frozenset()
    insists: frozenset[Insistence] = frozenset()
    models: tuple[str, ...] = ("fake-model",)
    documents: Mapping[str, JSON | HttpError | Gate] = field(default_factory=dict)
    refuses_in_stream: bool = False
    max_body: int | None = None
    keep: int | None = None
    strict: bool = True

    def window_of(self, model: str) -> int:
        return self.windows.get(model, self.window)
