"""Pagination cursors: they round-trip, and invalid ones are refused."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import MalformedRequestError
from app.messages import new_id
from app.runtime.history import MAX_SEQ, read_place, read_seq, session_cursor
from app.sessions import Session


def session_at(at: datetime) -> Session:
    fields: dict[str, Any] = dict.fromkeys(Session.model_fields)
    return Session.model_construct(**{**fields, "id": new_id(), "created_at": at})


milliseconds = st.integers(0, int(datetime(2999, 1, 1, tzinfo=UTC).timestamp() * 1000))


@given(ms=milliseconds)
def test_a_cursor_round_trips(ms: int) -> None:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    session = session_at(at)
    text = session_cursor(session, "created")
    assert read_place(text) == (at, session.id)
    assert text.isascii()
    assert text.replace("-", "").replace("_", "").isalnum(), "it needs no escaping in a query"


def test_no_cursor_means_the_beginning() -> None:
    assert read_place(None) is None


def encoded(place: str) -> str:
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


ID = "0197a1b2-0000-7000-8000-000000000000"
FOREIGN = ["1/x", f"-1/{ID}", f"{10**15}/{ID}", f"{10**15 - 1}/{ID}", f"1/{ID} ", f"1/{ID}x", f"1/{ID.upper()}"]


@pytest.mark.parametrize("text", ["", "x", "ä", "!!!!", *map(encoded, FOREIGN)])
def test_an_invalid_cursor_is_refused(text: str) -> None:
    with pytest.raises(MalformedRequestError) as caught:
        read_place(text)
    assert caught.value.code == "malformed_cursor"


@given(text=st.text(max_size=80) | st.binary(max_size=60).map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_any_text_is_a_valid_cursor_or_refused(text: str) -> None:
    try:
        place = read_place(text)
    except MalformedRequestError:
        return
    assert place is not None
    assert place[0].tzinfo is UTC


@given(seq=st.integers(0, MAX_SEQ - 1))
def test_a_place_in_the_history_is_a_number(seq: int) -> None:
    assert read_seq(str(seq)) == seq
    assert read_seq(None) == 0


@pytest.mark.parametrize("text", ["", "-1", "1.0", " 1", "x", "٣", "²", str(MAX_SEQ), "9" * 19, "0" * 20])
def test_an_invalid_seq_is_refused(text: str) -> None:
    with pytest.raises(MalformedRequestError) as caught:
        read_seq(text)
    assert caught.value.code == "malformed_cursor"
