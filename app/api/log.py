"""Pages of a session's event log: parses the `types` filter and encodes the page."""

from __future__ import annotations

from typing import Any

from app.api.fields import MAX_TEXT_CHARS, in_prose
from app.errors import ValidationFailedError
from app.events import DURABLE_EVENTS
from app.runtime.values.events import LogPage, StreamItem

NAMES = tuple(event.type for event in DURABLE_EVENTS)
TYPES_SCHEMA: dict[str, Any] = {"type": "array", "items": {"type": "string", "enum": list(NAMES)}, "minItems": 1}


def event_types(text: str | None) -> frozenset[str]:
    """The names in a comma-separated list; empty means all. Raises `ValidationFailedError` for an unknown durable
    event."""
    names = frozenset(text.split(",")) if text is not None else frozenset()
    unknown = sorted(names.difference(NAMES))
    if unknown:
        message = f"No durable event is named {unknown[0][:MAX_TEXT_CHARS]!r}"
        errors = [{"field": "types", "message": message}]
        raise ValidationFailedError(f"The request is not valid: types: {in_prose(message)}.", errors=errors)
    return names


def page_body(page: LogPage) -> bytes:
    """The page as JSON. The events are stored as JSON and are copied without parsing."""
    items = b",".join([_event(item) for item in page.items])
    cursor = b"null" if page.next_cursor is None else b'"%b"' % page.next_cursor.encode()
    return b'{"items":[%b],"last_seq":%d,"next_cursor":%b}' % (items, page.last_seq, cursor)


def _event(item: StreamItem) -> bytes:
    return b'{"seq":%b,"type":"%b","data":%b}' % (str(item.seq).encode(), item.type.encode(), item.data)
