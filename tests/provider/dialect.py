"""What the two wire formats have in common: a dialect checks, reads, counts and answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.provider.counting import Block
from tests.provider.overflow import OverflowStyle
from tests.provider.records import JSON, Reading, Refused, Wire
from tests.provider.script import Control, Reply, UsageStyle
from tests.provider.settings import Settings
from tests.provider.thinking import SealBook

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Valid tool names in both formats."""

Frame: TypeAlias = bytes | JSON | Control
"""A piece of an answer: bytes of a stream, the whole document of an answer that is not streamed, or a control."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens of one answer as they are reported; `input` excludes cached ones, `reasoning` is part of `output`."""

    input: int
    cache_read: int
    cache_write: int
    output: int
    reasoning: int

    @property
    def prompt(self) -> int:
        return self.input + self.cache_read + self.cache_write


@dataclass(frozen=True, slots=True)
class Answering:
    """A reply on its way to one request. `number` is the request's index, from which ids are made."""

    number: int
    model: str
    reply: Reply
    spent: Spent
    usage_style: UsageStyle
    body: JSON
    seals: SealBook
    headers: dict[str, str] = field(default_factory=dict)
    binds_thinking: bool = True


@dataclass(frozen=True, slots=True)
class Dialect:
    """One wire format. `bad_json` is said of a body that is no JSON object; `authorize` and `check`
    raise `Refused`; `error` is the document of a refusal, `status_error` that of a scripted error status."""

    wire: Wire
    overflow: OverflowStyle
    explicit_cache: bool
    bad_json: str
    authorize: Callable[[dict[str, str], str], None]
    check: Callable[[JSON, dict[str, str], Settings, SealBook], None]
    read: Callable[[JSON], Reading]
    blocks: Callable[[JSON], list[Block]]
    error: Callable[[Refused], JSON]
    status_error: Callable[[int], JSON]
    stream: Callable[[Answering], Iterator[Frame]]
    whole: Callable[[Answering], Iterator[Frame]]


STATUS_WORDS: dict[int, tuple[str, str]] = {
    400: ("invalid_request_error", "Bad request"),
    401: ("authentication_error", "invalid x-api-key"),
    403: ("permission_error", "Your API key does not have permission to use the specified resource"),
    404: ("not_found_error", "Not found"),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "Rate limit reached for requests"),
    500: ("api_error", "Internal server error"),
    503: ("api_error", "Service unavailable"),
    529: ("overloaded_error", "Overloaded"),
}
"""Kind and sentence of an error status that a script gives no body for."""


def status_words(status: int) -> tuple[str, str]:
    return STATUS_WORDS.get(status, ("api_error", f"Error {status}"))
