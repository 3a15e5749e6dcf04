"""The texts that stand for what cannot be taken over, so that nothing is left out without a word."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import orjson

from app.messages import Role

NOTE_CHARS = 2_000
"""Characters of foreign content that a note repeats; the head of an unknown block says what it is, and encoded media
behind it would say nothing."""

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
"""Fields that say how a message was made, sent or billed and nothing of what was said."""


def empty_message(role: Role) -> str:
    """In the place of a message that holds nothing."""
    return f"[A message of the {role} stood here, without content.]"


def unknown_block(block: Mapping[str, Any]) -> str:
    """For a content block that has no counterpart here."""
    return f"[Content of a kind that cannot be taken over: {_shown(block)}]"


def unread_image(why: str) -> str:
    return f"[An image that cannot be taken over: {why}]"


def linked_image(url: str) -> str:
    """For an image that is somewhere else; nothing is ever fetched on behalf of a history."""
    return f"[An image that was not fetched: {_clipped(url)}]"


def document(names: Sequence[str]) -> str:
    """Above a document's text: its title, and where it comes from."""
    return f"[Document: {_clipped(', '.join(names)) or 'untitled'}]"


def speaker(name: Any) -> str:
    """For the name that a message gives its speaker."""
    return f"[Name of the speaker: {_shown(name)}]"


def result_image(number: int) -> str:
    """At an image's place within a tool's result, which holds text alone."""
    return f"[Image {number} of this result follows after the results.]"


RESULT_IMAGES = "[From the result of a tool call:]"
ASSISTANT_IMAGES = "[From the assistant's message:]"


def leftovers(fields: Mapping[str, Any], known: Collection[str]) -> Iterator[str]:
    """A note for each field that carries something and is neither `known` nor metadata."""
    for name, value in fields.items():
        if name not in known and name not in METADATA and value not in (None, "", [], {}, False):
            yield f"[Field {_clipped(name)} of the original: {_shown(value)}]"


def _shown(value: Any) -> str:
    return _clipped(value if isinstance(value, str) else orjson.dumps(value).decode())


def _clipped(text: str) -> str:
    if len(text) <= NOTE_CHARS:
        return text
    return f"{text[:NOTE_CHARS]}… ({len(text):,} characters in all)"
