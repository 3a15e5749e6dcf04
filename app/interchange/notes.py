"""The notes that replace what cannot be imported, so that nothing is left out silently."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import orjson

from app.messages import Role

NOTE_CHARS = 2_000
"""Maximum characters of foreign content in a note; the head of an unknown block says what it is, and encoded media
after it would say nothing."""

METADATA = frozenset(
    {
        "id",
        "type",
        "object",
        "created",
        "index",
        "status",
        "model",
        "stop_reason",
        "stop_sequence",
        "stop_details",
        "finish_reason",
        "usage",
        "container",
        "context_management",
        "cache_control",
        "caller",
        "detail",
    }
)
"""Fields that say how a message was made, sent or billed, but not what was said."""


def empty_message(role: Role) -> str:
    """Replaces an empty message."""
    return f"[A message of the {role} stood here, without content.]"


def unknown_block(block: Mapping[str, Any]) -> str:
    """Replaces a content block without a counterpart."""
    return f"[Content of a kind that cannot be taken over: {_shown(block)}]"


def unread_image(why: str) -> str:
    return f"[An image that cannot be taken over: {why}]"


def linked_image(url: str) -> str:
    """Replaces an image that is stored elsewhere; nothing is ever fetched for a history."""
    return f"[An image that was not fetched: {_clipped(url)}]"


def document(names: Sequence[str]) -> str:
    """Heads a document's text: its title and its source."""
    return f"[Document: {_clipped(', '.join(names)) or 'untitled'}]"


def speaker(name: Any) -> str:
    """Gives the name that a message has for its speaker."""
    return f"[Name of the speaker: {_shown(name)}]"


def result_image(number: int) -> str:
    """Marks an image's position within a tool's result, which can only be text."""
    return f"[Image {number} of this result follows after the results.]"


RESULT_IMAGES = "[From the result of a tool call:]"
ASSISTANT_IMAGES = "[From the assistant's message:]"


def leftovers(fields: Mapping[str, Any], known: Collection[str]) -> Iterator[str]:
    """A note for each field that has a value and is neither `known` nor metadata."""
    for name, value in fields.items():
        if name not in known and name not in METADATA and value not in (None, "", [], {}, False):
            yield f"[Field {_clipped(name)} of the original: {_shown(value)}]"


def _shown(value: Any) -> str:
    return _clipped(value if isinstance(value, str) else orjson.dumps(value).decode())


def _clipped(text: str) -> str:
    if len(text) <= NOTE_CHARS:
        return text
    return f"{text[:NOTE_CHARS]}… ({len(text):,} characters in all)"
