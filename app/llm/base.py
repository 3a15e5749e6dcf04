"""What a model provider is to the rest of the service: a request goes in, neutral stream events come out; and how long
to wait before a failed call is tried again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, Protocol

from pydantic import Field

from app.errors import ProviderError
from app.messages import Message, Usage, Value
from app.sessions import ReasoningEffort

StopReason = Literal["stop", "tool_calls", "length", "content_filter", "refusal", "context_overflow", "other"]
"""Why the model stopped. An unknown value is `other`, never an exception."""

MAX_ATTEMPTS = 5
BASE_S = 1.0
"""The first wait, before jitter; each later one is twice as long."""
CAP_S = 30.0
"""The longest wait by backoff alone."""
RETRY_AFTER_CAP_S = 120.0
"""The longest wait that a provider can request; a run should not pause for an hour because of one header."""


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool as a model sees it; `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: dict[str, Any]

    @property
    def key(self) -> str:
        """Its name with a digest of all that a provider may refuse of it."""
        text = json.dumps([self.description, self.parameters], sort_keys=True)
        return f"{self.name}:{hashlib.sha256(text.encode()).hexdigest()[:12]}"


RemedyKind = Literal[
    "repeat",
    "echo_reasoning",
    "sign_calls",
    "drop_reasoning",
    "drop_opaque",
    "drop_images",
    "clear_images",
    "drop_tools",
    "drop_parameters",
    "shrink",
]


@dataclass(frozen=True, slots=True)
class Remedy:
    """What may make a provider accept a request that it refused. `names` are the keys of tools, the parameters, the
    field that has to hold the reasoning, or the ids of images."""

    kind: RemedyKind
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model call, in neutral form.

    `messages` are valid by construction (see `context/validator.py`): user and control messages are sent in the user's
    role, and each assistant message with calls is followed by one tool message with a result for each of them.
    `reasoning_effort` None is the model's default. `drop_block` asks a provider that verifies replayed thinking to drop
    what it cannot verify instead of refusing the request. `cache_key` is shared by requests with the same prefix, so
    that a provider can route them to a warm prompt cache.
    `wire_cache` belongs to the caller and lives as long as a context generation: an adapter caches the encoded form of
    a message in it under the message's id, so that a long history is encoded once and not at every step.
    Without `has_images` no message is searched for them. `remedies` are tried with this request, and kept for its model
    once it is answered. `traceparent` is the trace that the call belongs to, as W3C
    Trace Context names it.
    """

    model: str
    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSchema] = ()
    max_output_tokens: int | None = None
    temperature: float | None = None
    stop: Sequence[str] = ()
    reasoning_effort: ReasoningEffort | None = None
    drop_block: bool = False
    cache_key: str | None = None
    wire_cache: MutableMapping[str, Any] = field(default_factory=dict)
    has_images: bool = True
    remedies: tuple[Remedy, ...] = ()
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Text of the block numbered `block`; blocks are numbered in order of first appearance within one response and each
    number names one block of one kind."""

    block: int
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    block: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """The model starts a call. `name` is complete. The provider's call id is dropped; requests use Palimpsest's ids."""

    block: int
    name: str


@dataclass(frozen=True, slots=True)
class ToolArgumentsDelta:
    block: int
    text: str


@dataclass(frozen=True, slots=True)
class BlockEnd:
    """The block is complete. `provider_data` is what only the provider understands and gets back, None if there is
    nothing:

    - for reasoning in Anthropic Messages and Responses the block or item itself, unchanged; unsigned thinking has no
      `signature`;
    - for reasoning in Chat Completions `{"type": "chat", "place": ..., "fields": {...}}`: where its text was (a `Place`
      of `openai_reasoning`; absent without text), and the fields of the message that are not understood (absent
      without any). A block without text has fields that came after the reasoning, or without it;
    - for a call `{"call": {...}, "function": {...}}`: the keys of the call, and of its `function`, that are not
      understood, each only if there are any;
    - for a text its `phase`."""

    block: int
    provider_data: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Tokens counted by the provider; replaces an earlier report of the same response. `cost_usd` is what the provider
    billed; if it is None, the caller applies the catalog's price."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class InputTransformed:
    """The provider's report of changes that it made to the request's input."""

    transformations: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """The last event of a complete response. A stream that ends without it has failed."""

    reason: StopReason


StreamEvent = (
    TextDelta | ReasoningDelta | ToolCallStart | ToolArgumentsDelta | BlockEnd | UsageReport | InputTransformed | Finish
)


class Provider(Protocol):
    """A model provider. One instance serves all sessions, concurrently."""

    name: str

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """Calls the model once, without retries, and yields its stream.

        Raises `ProviderError` (with `retryable` and `retry_after`) or `ContextOverflowError`, before or in the middle
        of the stream. A stream that stops without a finish reason is a retryable `ProviderError`. Closing the
        iterator, or cancelling the task that reads it, closes the connection at once.
        """
        ...

    async def aclose(self) -> None:
        """Closes the provider's connections."""
        ...


class Prices(Value):
    """US dollars per million tokens; null if unknown."""

    input: float | None
    output: float | None
    cache_read: float | None
    cache_write: float | None


class PriceSettings(Prices):
    """US dollars per million tokens of one model."""

    input: float | None = Field(None, ge=0)
    output: float | None = Field(None, ge=0)
    cache_read: float | None = Field(None, ge=0)
    cache_write: float | None = Field(None, ge=0)


UNKNOWN_PRICES = Prices(input=None, output=None, cache_read=None, cache_write=None)


class ModelSettings(Value):
    """The operator's description of a model; overrides the catalog."""

    context_window: int | None = Field(None, ge=1024)
    max_output_tokens: int | None = Field(None, ge=1)
    reasoning_efforts: tuple[ReasoningEffort, ...] | None = None
    sees_images: bool | None = None
    prices: PriceSettings | None = None


WindowSource = Literal["setting", "catalog", "server", "assumed"]
LEAST_WINDOW, MOST_WINDOW = 1_024, 20_000_000
"""Bounds in tokens for a window reported by a server: less is a misreading, and the maximum is twice the largest window
of any model."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is known about a model: `context_window` and `max_output_tokens` in tokens. `reasoning_efforts` are those
    that it accepts, None if unknown; `binds_thinking` means that it verifies replayed thinking against everything
    before it, `echoes_reasoning` that it gets its own reasoning back as plain text, `sees_images` None that images are
    sent until it refuses one, and `refused_tools` are the keys of tools that it does not accept."""

    name: str
    provider: str
    context_window: int
    window_source: WindowSource
    max_output_tokens: int | None
    prices: Prices
    key_present: bool
    description: str = ""
    reasoning_efforts: tuple[ReasoningEffort, ...] | None = None
    binds_thinking: bool = False
    echoes_reasoning: bool = False
    sees_images: bool | None = None
    refused_tools: frozenset[str] = frozenset()


def delay_s(
    attempt: int,
    error: ProviderError,
    rng: Random,
    *,
    max_attempts: int = MAX_ATTEMPTS,
    base_s: float = BASE_S,
) -> float | None:
    """Seconds to wait after attempt number `attempt` (from 1) failed with `error`, or None to give up.

    Exponential backoff with jitter between half and all of the step. A provider's `retry_after` is honored up to
    `RETRY_AFTER_CAP_S`, plus up to a tenth, so that sessions with the same `retry_after` do not all retry at once.
    """
    if not error.retryable or attempt >= max_attempts:
        return None
    if error.retry_after is not None:
        wish = min(max(error.retry_after, 0.0), RETRY_AFTER_CAP_S)
        return min(wish * (1 + rng.random() / 10), RETRY_AFTER_CAP_S)
    step = min(base_s * 2.0 ** min(attempt - 1, 30), CAP_S)
    return step * (0.5 + rng.random() / 2)
