"""The fake provider's record of a request: its content, its token counts, and whether it was refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

JSON: TypeAlias = dict[str, Any]
"""A JSON object on the wire; the fake reads foreign documents, so their fields are untyped."""

Wire = Literal["openai", "anthropic", "responses"]

Rule = Literal[
    "json",
    "auth",
    "headers",
    "shape",
    "order",
    "pairing",
    "ids",
    "empty",
    "arguments",
    "tools",
    "cache_control",
    "thinking",
    "parameter",
    "image",
    "blind",
    "overflow",
    "insistence",
]
"""Why a request was refused. All but `parameter`, `blind`, `overflow` and `insistence` mean that the caller sent
something broken."""


class Refused(Exception):
    """A request that the provider does not accept. `message`, `kind`, `param` and `code` fill the dialect's error
    object; `body` replaces the whole document where a provider has a shape of its own (`b""` is no body)."""

    def __init__(
        self,
        rule: Rule,
        message: str,
        param: str | None = None,
        code: str | None = None,
        *,
        status: int = 400,
        kind: str = "invalid_request_error",
        body: JSON | bytes | None = None,
    ) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.status = status
        self.kind = kind
        self.param = param
        self.code = code
        self.body = body


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal as it was sent; `request` is the index of the request."""

    rule: Rule
    status: int
    message: str
    request: int


@dataclass(frozen=True, slots=True)
class Reading:
    """The parts of a body used by tests, in neutral form."""

    system: str = ""
    user_texts: tuple[str, ...] = ()
    assistant_texts: tuple[str, ...] = ()
    tool_calls: dict[str, tuple[str, Any]] = field(default_factory=dict)
    tool_results: dict[str, str] = field(default_factory=dict)
    tool_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request. `index` counts from 0, `arrived_at` is `time.monotonic()` in seconds. `tokens` is the whole prompt
    by the fake's own count, `shared_tokens` the part that an earlier request of the same model began with,
    `cached_tokens` and `written_tokens` the parts that are reported as read from the cache and written to it."""

    index: int
    wire: Wire
    headers: dict[str, str]
    raw: bytes
    body: JSON
    arrived_at: float
    reading: Reading
    tokens: int = 0
    shared_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0
    refusal: Refusal | None = None

    @property
    def accepted(self) -> bool:
        return self.refusal is None

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def stream(self) -> bool:
        return bool(self.body.get("stream", False))

    @property
    def messages(self) -> list[JSON]:
        """The messages, or the input items, in the wire's own form."""
        messages = self.body.get("messages", self.body.get("input", []))
        return messages if isinstance(messages, list) else []

    @property
    def max_output_tokens(self) -> int | None:
        names = ("max_completion_tokens", "max_tokens", "max_output_tokens")
        return next((value for name in names if isinstance(value := self.body.get(name), int)), None)

    @property
    def system(self) -> str:
        return self.reading.system

    @property
    def user_texts(self) -> tuple[str, ...]:
        """The text of each user message that has any, in order."""
        return self.reading.user_texts

    @property
    def first_user_text(self) -> str:
        return next(iter(self.reading.user_texts), "")

    @property
    def last_user_text(self) -> str:
        return next(reversed(self.reading.user_texts), "")

    @property
    def assistant_texts(self) -> tuple[str, ...]:
        return self.reading.assistant_texts

    @property
    def tool_calls(self) -> dict[str, tuple[str, Any]]:
        """Name and arguments (parsed where they are JSON) of the calls in the history, by call id."""
        return self.reading.tool_calls

    @property
    def tool_results(self) -> dict[str, str]:
        """The text of each tool result in the history, by call id."""
        return self.reading.tool_results

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools offered."""
        return self.reading.tool_names
