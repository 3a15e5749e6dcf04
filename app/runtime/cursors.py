"""Pagination cursors: `next_cursor` of sessions, and the seq of messages and steps."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime

from app.errors import MalformedRequestError
from app.sessions import Session

MAX_SEQ = 2**62

_PLACE = re.compile(r"(?P<ms>[0-9]{1,15})/(?P<id>[0-9a-f-]{36})")
"""The content of a cursor: when a session was created, in milliseconds, and its id."""


def session_cursor(session: Session) -> str:
    """An opaque cursor for the end of a page of sessions."""
    place = f"{round(session.created_at.timestamp() * 1000)}/{session.id}"
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def read_session_cursor(text: str | None) -> tuple[datetime, str] | None:
    """The place in a cursor. Raises `MalformedRequestError`."""
    if text is None:
        return None
    try:
        place = _PLACE.fullmatch(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode())
        if place is None:
            raise ValueError("not a place in the list")
        seconds, rest = divmod(int(place["ms"]), 1000)
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1000), place["id"]
    except (ValueError, binascii.Error, OverflowError, OSError) as error:
        raise MalformedRequestError("The cursor is invalid.", code="malformed_cursor") from error


def read_seq(text: str | None) -> int:
    """A place in the history. Raises `MalformedRequestError` (code `malformed_cursor`)."""
    if text is None:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) < MAX_SEQ):
        raise MalformedRequestError("`after` must be a seq or a `next_cursor`.", code="malformed_cursor")
    return int(text)
