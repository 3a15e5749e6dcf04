"""The reader of the server's stream, however the network splits it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from hypothesis import given
from hypothesis import strategies as st

from app.cli.client import ServerEvent, read_events


async def _read(chunks: list[bytes]) -> list[ServerEvent]:
    async def source() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    return [event async for event in read_events(source())]


def _wire(event: ServerEvent) -> bytes:
    head = f"id: {event.id}\n" if event.id is not None else ""
    return f"{head}event: {event.event}\ndata: {json.dumps(event.data, ensure_ascii=False)}\n\n".encode()


_EVENTS = st.lists(
    st.builds(
        ServerEvent,
        st.none() | st.integers(1, 10**6),
        st.sampled_from(["text.delta", "session.idle"]),
        st.fixed_dictionaries({"text": st.text(alphabet=st.characters(codec="utf-8"))}),
    ),
    max_size=6,
)


@given(_EVENTS, st.integers(1, 40))
async def test_events_survive_being_cut_anywhere(events: list[ServerEvent], size: int) -> None:
    wire = b": ping\n\nretry: 1000\n\n" + b"".join(_wire(event) for event in events)
    chunks = [wire[at : at + size] for at in range(0, len(wire), size)]
    assert await _read(chunks) == events


async def test_other_line_separators_do_not_end_a_line() -> None:
    event = ServerEvent(3, "text.completed", {"text": "a\u2028b\u0085c\x1cd\r"})
    assert await _read([_wire(event)]) == [event]


async def test_an_incomplete_event_is_skipped() -> None:
    assert await _read([b'id: 1\nevent: a\ndata: {"x"']) == []


async def test_an_event_without_a_name_is_a_message() -> None:
    assert await _read([b"data:{}\n\n"]) == [ServerEvent(None, "message", {})]


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_a_json_line_is_one_ascii_line(text: str) -> None:
    event = ServerEvent(None, "text.delta", {"text": text})
    line = event.json_line()
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line) == {"id": None, "event": "text.delta", "data": {"text": text}}
