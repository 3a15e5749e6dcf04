"""Shared by the wire formats: names that providers accept, arguments as a JSON object, parsing of documents, and the
cache of encoded messages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from app.errors import ProviderError
from app.json_bounds import has_more_values
from app.messages import Message, clean_text, is_deeper, parse_arguments

MAX_DOCUMENT_DEPTH = 200
"""Maximum nesting in an event; providers need ten levels, and arguments sent as an object at most a hundred. orjson
cannot write more than 254 levels."""

MAX_DOCUMENT_VALUES = 50_000
"""Maximum values in an event or a complete answer: fifty for each part that it may have."""

_LENIENT_BYTES = 1024 * 1024
"""Largest document, in bytes, that is parsed a second time to replace halves of surrogate pairs."""

_NAME = re.compile(r"[^A-Za-z0-9_-]")


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


def count(value: Any) -> int:
    """A number of tokens from a provider's usage, 0 if it is missing or invalid."""
    return int(value) if isinstance(value, int | float) and 0 <= value < 1e12 else 0
