"""What the wire formats share: accepted names, arguments as a JSON object, documents from bytes, the memory of what was
encoded before, and a response with its numbered blocks."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from app.errors import ProviderError
from app.json_bounds import has_more_values
from app.llm.base import (
    BlockEnd,
    Finish,
    ReasoningDelta,
    StopReason,
    StreamEvent,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallStart,
)
from app.llm.endings import meaning
from app.llm.stream_errors import error_in, error_status
from app.llm.tool_names import clean_name
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
        self._events.append(ToolCallStart(number, clean_name(name)))
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


ErrorFor = Callable[[int | None, str], ProviderError]

MAX_OWN_WORDS = 20
"""Unknown words for an end that are retried, for each model. A model with more of them invents words."""
_KEEP_ALIVE = (b"ping", b"keepalive", b"keep-alive", b"heartbeat")
_ENDS = (b"[DONE]", b'"[DONE]"')


class UnknownEndError(ProviderError):
    """The answer ended with a word of unknown meaning, which may be a failure."""

    def __init__(self, word: str) -> None:
        super().__init__(f'The answer ended with "{word}".', code="provider_stream_ended", retryable=True)
        self.word = word


class ResponseStream(ABC):
    """Folds one response's server-sent events into neutral events, up to `done`. `error_for` converts an error document
    inside the stream."""

    def __init__(self, error_for: ErrorFor) -> None:
        self._error_for = error_for
        self._out = Blocks()
        self._word: str | None = None
        self._reason: StopReason | None = None
        self._has_content = False
        self._is_complete = False
        """Whether the server has sent, after the content, what only follows a complete answer."""
        self.done = False

    @property
    def finished(self) -> bool:
        """Whether the server has sent how the response ended; a connection error after that does no harm."""
        return self._word is not None

    def feed(self, events: list[tuple[bytes, bytes]]) -> list[StreamEvent]:
        """Converts server-sent events; those without a document say nothing. Raises `ProviderError` for an error or an
        invalid event."""
        for name, data in events:
            if name in _KEEP_ALIVE:
                continue
            if data.startswith(b"{") or (data := data.strip()).startswith(b"{"):
                self._event(name.decode("utf-8", "replace"), parse_document(data), len(data))
            elif data in _ENDS:
                self.done = True
            elif name == b"error" and data:
                raise self._failure(data.decode("utf-8", "replace"))
        return self._out.take()

    def so_far(self) -> list[StreamEvent]:
        """The events that preceded an error in the same chunk."""
        return self._out.take()

    def whole(self, body: bytes, own_words: Collection[str] = ()) -> list[StreamEvent]:
        """Converts the response of a server that does not stream; raises its error if it sent one with status 200."""
        self._document(parse_document(_unlisted(body)))
        self.done = True
        return self.end(own_words)

    def end(self, own_words: Collection[str] = ()) -> list[StreamEvent]:
        """The last events. Raises a retryable `ProviderError` if the stream ended before the response, or with a word
        of unknown meaning that is not one of the model's `own_words`.

        Some servers send no reason at all: then an answer is complete if it was followed by the stream's last event, or
        by what only a complete answer has."""
        reason = self._reason
        if self._word is None:
            if not (self._has_content and (self.done or self._is_complete)):
                detail = "The provider's stream ended before the response was complete."
                raise ProviderError(detail, code="provider_stream_ended", retryable=True)
            reason = "stop"
        elif reason is None:
            if self._word not in own_words and len(own_words) < MAX_OWN_WORDS:
                raise UnknownEndError(self._word)
            reason = "other"
        self._out.add(Finish(self._close(reason)))
        return self._out.take()

    def _ended(self, word: str, document: dict[str, Any]) -> None:
        """Takes the provider's word for the end. Raises a retryable `ProviderError` if it means that the provider broke
        off; `document` may say why."""
        end = meaning(word)
        if end == "failure":
            if (error := error_in(document)) is not None:
                raise self._failure(error)
            detail = f'The provider broke off the answer: "{word}".'
            raise ProviderError(detail, code="provider_server_error", retryable=True)
        if end is not None or self._reason is None:
            self._word, self._reason = word, end

    def _failure(self, error: Any) -> ProviderError:
        """An error that was reported inside the stream, as an object or a text."""
        return self._error_for(error_status(error), orjson.dumps({"error": error}).decode())

    @abstractmethod
    def _event(self, name: str, event: dict[str, Any], size: int) -> None:
        """Handles an event whose document has `size` bytes."""

    @abstractmethod
    def _document(self, response: dict[str, Any]) -> None:
        """Handles a complete response."""

    @abstractmethod
    def _close(self, reason: StopReason) -> StopReason:
        """Closes what is open; returns the reason, `stop` corrected by what there was."""


def _unlisted(body: bytes) -> bytes:
    """A document without the list around it, in which Gemini sends its errors."""
    body = body.strip()
    return body[1:-1] if body.startswith(b"[") and body.endswith(b"]") else body


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
