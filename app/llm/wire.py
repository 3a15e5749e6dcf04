"""What the wire formats share: accepted names, arguments as a JSON object, documents from bytes, the memory of what was
encoded before, the state of a response and its numbered blocks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

from app.errors import ProviderError
from app.json_bounds import has_more_values
from app.llm.base import BlockEnd, ReasoningDelta, StreamEvent, TextDelta, ToolArgumentsDelta, ToolCallStart
from app.messages import Message, clean_text, is_deeper, parse_arguments

MAX_DOCUMENT_DEPTH = 200
"""Maximum nesting in an event; providers need ten levels, and arguments sent as an object at most a hundred. orjson
cannot write more than 254 levels."""
MAX_DOCUMENT_VALUES = 50_000
"""Maximum values in an event or a complete answer: fifty for each part that it may have."""
_LENIENT_BYTES = 1024 * 1024
"""Largest document, in bytes, that is parsed a second time to replace halves of surrogate pairs."""
_NAME = re.compile(r"[^A-Za-z0-9_-]")

MAX_BLOCKS = 1_000
"""Maximum blocks of one response: ten times what any model asks for at once. Calls that did not start are closed one by
one when their run is cancelled, a thousand of them in a third of a second."""
_DELTAS = (TextDelta, ReasoningDelta, ToolArgumentsDelta)


@dataclass(frozen=True, slots=True)
class Settled:
    """The encoded prefix of a history as one piece of bytes: `count` messages, the last of which has the id `last_id`.

    Within a context generation a request extends the previous one, so all but a short tail of it is reused and the work
    per step does not grow with the history.
    """

    count: int = 0
    last_id: str = ""
    data: bytes = b""

    def extended(self, count: int, last_id: str, pieces: Sequence[bytes]) -> Settled:
        """The prefix extended by `pieces` to `count` messages."""
        return Settled(count, last_id, joined([self.data, *pieces]))


def settled_front(cache: Mapping[str, Any], key: str, messages: Sequence[Message]) -> Settled:
    """The cached prefix of these messages; empty if they are from another history."""
    known = cache.get(key)
    if (
        isinstance(known, Settled)
        and 0 < known.count <= len(messages)
        and messages[known.count - 1].id == known.last_id
    ):
        return known
    return Settled()


def forget(cache: MutableMapping[str, Any], prefix: str, messages: Sequence[Message]) -> None:
    """Drops the bytes of single messages that are now part of the prefix."""
    for message in messages:
        cache.pop(prefix + message.id, None)


def joined(pieces: Sequence[bytes]) -> bytes:
    """Pieces as members of a JSON array, empty ones left out."""
    return b",".join(filter(None, pieces))


def wire_name(name: str) -> str:
    """A tool's name in a form that providers accept: a model can invent a name that its provider refuses later."""
    return _NAME.sub("_", name)[:64] or "unknown"


def wire_arguments(text: str) -> str:
    """A call's arguments for the history: unchanged if they are a JSON object, so that the provider's prompt cache
    matches; else an object with the raw text as `_invalid`."""
    if not isinstance(parse_arguments(text), dict):
        return orjson.dumps({"_invalid": text}).decode()
    return text if text.strip() else "{}"


def parse_document(data: bytes) -> dict[str, Any]:
    """An event's JSON object. Raises a retryable `ProviderError` if it is not one: the stream was cut or garbled.

    Proxies written in JavaScript cut text between the halves of a surrogate pair, which orjson refuses; the halves
    become U+FFFD.
    """
    if has_more_values(data, MAX_DOCUMENT_VALUES):
        detail = f"The provider sent an event of more than {MAX_DOCUMENT_VALUES:,} values."
        raise ProviderError(detail, code="provider_bad_response")
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        document = _parse_leniently(data) if len(data) <= _LENIENT_BYTES else None
    if not isinstance(document, dict) or _is_too_deep(data, document):
        raise ProviderError(
            "The provider sent an event that is not JSON.", code="provider_bad_response", retryable=True
        )
    return document


def _is_too_deep(data: bytes, document: dict[str, Any]) -> bool:
    """Whether a document is nested too deeply; checked only if it has enough brackets, which almost none has."""
    brackets = data.count(b"{") + data.count(b"[")
    return brackets > MAX_DOCUMENT_DEPTH and is_deeper(document, MAX_DOCUMENT_DEPTH)


def _parse_leniently(data: bytes) -> Any:
    try:
        text = json.dumps(json.loads(data.decode("utf-8", "replace")), ensure_ascii=False)
        return orjson.loads(clean_text(text))
    except (ValueError, RecursionError):
        return None


def as_dict(value: Any) -> dict[str, Any]:
    """An object of a document, empty if it is missing or something else."""
    return value if isinstance(value, dict) else {}


def as_text(value: Any) -> str:
    """Text as it is; some servers send arguments as the object itself."""
    if isinstance(value, dict):
        return orjson.dumps(value).decode()
    return value if isinstance(value, str) else ""


def count(value: Any) -> int:
    """A number of tokens from a provider's usage, 0 if it is missing or invalid."""
    return int(value) if isinstance(value, int | float) and 0 <= value < 1e12 else 0


ErrorFor = Callable[[int | None, str], ProviderError]
R = TypeVar("R", bound=str)


class ResponseState(Generic[R]):
    """What the state of one response has in every wire format. `error_for` converts an error document inside the
    stream."""

    def __init__(self, error_for: ErrorFor) -> None:
        self._error_for = error_for
        self._out = Blocks()
        self._reason: R | None = None
        self.done = False

    @property
    def finished(self) -> bool:
        """Whether the server has sent how the response ended; a connection error after that does no harm."""
        return self._reason is not None

    def so_far(self) -> list[StreamEvent]:
        """The events that preceded an error in the same chunk."""
        return self._out.take()

    def _ended(self) -> R:
        """How the response ended. Raises a retryable `ProviderError` if the stream ended before that."""
        if self._reason is None:
            detail = "The provider's stream ended before the response was complete."
            raise ProviderError(detail, code="provider_stream_ended", retryable=True)
        return self._reason


class Blocks:
    """Block numbers in order of first appearance, and the events that are ready to be sent.

    Deltas of one block that came in one network chunk are merged into one event: under load the network delivers
    several at once, and each event costs more than its bytes.
    """

    def __init__(self) -> None:
        self._events: list[StreamEvent] = []
        self._open: set[int] = set()
        self._count = 0

    def take(self) -> list[StreamEvent]:
        """The events since the last call, merged."""
        events, self._events = self._events, []
        return events if len(events) < 2 else _merged(events)

    def begin(self) -> int:
        """Opens a block and returns its number. Raises `ProviderError` if there are too many."""
        check_blocks(self._count)
        number = self._count
        self._count += 1
        self._open.add(number)
        return number

    def begin_call(self, name: str) -> int:
        number = self.begin()
        self._events.append(ToolCallStart(number, name))
        return number

    def text(self, block: int, text: str) -> None:
        self._events.append(TextDelta(block, _clean(text)))

    def reasoning(self, block: int, text: str) -> None:
        self._events.append(ReasoningDelta(block, _clean(text)))

    def arguments(self, block: int, text: str) -> None:
        self._events.append(ToolArgumentsDelta(block, _clean(text)))

    def end(self, block: int, provider_data: dict[str, Any] | None = None) -> None:
        """Closes a block; does nothing if it is closed."""
        if block in self._open:
            self._open.discard(block)
            self._events.append(BlockEnd(block, provider_data))

    def end_all(self) -> None:
        for block in sorted(self._open):
            self.end(block)

    def add(self, event: StreamEvent) -> None:
        """Adds an event that belongs to no block."""
        self._events.append(event)


def check_blocks(count: int) -> None:
    """Raises `ProviderError` if a response with `count` blocks cannot have another."""
    if count >= MAX_BLOCKS:
        raise ProviderError(f"The answer has more than {MAX_BLOCKS:,} parts.", code="provider_bad_response")


def _clean(text: str) -> str:
    """Removes NUL, which cannot be stored. The JSON decoder has already refused lone surrogates."""
    return text.replace("\x00", "\ufffd") if "\x00" in text else text


def _merged(events: list[StreamEvent]) -> list[StreamEvent]:
    merged: list[StreamEvent] = []
    pieces: list[str] = []
    for event, following in zip(events, [*events[1:], None], strict=True):
        if not isinstance(event, _DELTAS):
            merged.append(event)
            continue
        pieces.append(event.text)
        if type(following) is not type(event) or following.block != event.block:
            merged.append(type(event)(event.block, "".join(pieces)) if len(pieces) > 1 else event)
            pieces.clear()
    return merged
