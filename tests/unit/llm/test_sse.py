from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.errors import ProviderError
from app.llm.sse import SseParser

Event = tuple[bytes, bytes]


def parse(*chunks: bytes, limit: int = 1024) -> list[Event]:
    parser = SseParser(limit)
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return events + parser.close()


def reference(stream: bytes) -> list[Event]:
    """The WHATWG algorithm, line by line, not optimized."""
    text = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events: list[Event] = []
    name, data = b"", list[bytes]()
    for line in [*text.split(b"\n"), b""]:
        if not line:
            events += [(name, b"\n".join(data))] if data else []
            name, data = b"", []
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    return events


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: one\n\ndata: two\n\n", [(b"", b"one"), (b"", b"two")]),
        (b"event: ping\ndata: {}\n\n", [(b"ping", b"{}")]),
        (b"data: a\ndata:b\ndata:  c\n\n", [(b"", b"a\nb\n c")]),
        (b": a comment\n\ndata: x\n\n", [(b"", b"x")]),
        (b"event: lonely\n\n", []),
        (b"data\n\n", [(b"", b"")]),
        (b"data:\n\n", [(b"", b"")]),
        (b"id: 7\nretry: 10\nunknown: y\ndata: x\n\n", [(b"", b"x")]),
        (b"data: a\r\n\r\ndata: b\r\rdata: c\n\r\n", [(b"", b"a"), (b"", b"b"), (b"", b"c")]),
        (b"\xef\xbb\xbfdata: x\n\n", [(b"", b"x")]),
        (b"data: [DONE]\n", [(b"", b"[DONE]")]),
        (b"data: [DONE]", [(b"", b"[DONE]")]),
        (b"\n\n\n\ndata: x\n\n\n\n\n", [(b"", b"x")]),
        (b'data: {"a":\ndata: 1}\n\n', [(b"", b'{"a":\n1}')]),
        ("data: Füße 🦶\n\n".encode(), [(b"", "Füße 🦶".encode())]),
        (b"", []),
    ],
)
def test_a_stream_becomes_its_events(stream: bytes, events: list[Event]) -> None:
    assert parse(stream) == events
    assert parse(*(bytes([byte]) for byte in stream)) == events


_lines = st.sampled_from(
    [b"data: x", b"data:", b"data", b"data: \xc3\xa9\xf0\x9f\xa6\xb6", b"event: e", b": c", b"", b"", b"id: 1", b"dat"]
)
_ends = st.sampled_from([b"\n", b"\r\n", b"\r"])


@st.composite
def _streams(draw: st.DrawFn) -> bytes:
    bom = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    return bom + b"".join(draw(_lines) + draw(_ends) for _ in range(draw(st.integers(0, 12))))


@given(_streams(), st.lists(st.integers(0, 120), max_size=12))
@example(b"data: x\r\n\r\n", [8])
@example(b"\xef\xbb\xbfdata: x\n\n", [1, 2])
def test_chunks_may_be_split_anywhere(stream: bytes, cuts: list[int]) -> None:
    places = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    chunks = [stream[start:end] for start, end in itertools.pairwise(places)]
    assert parse(*chunks) == reference(stream)


@given(st.binary(max_size=60), st.integers(0, 60))
def test_garbage_is_parsed_as_the_standard_says(stream: bytes, cut: int) -> None:
    assert parse(stream[:cut], stream[cut:]) == reference(stream)


@pytest.mark.parametrize("stream", [b"data: x\n\n", b"data: x\r\r", b"event: e\ndata: x\n\n"])
def test_an_event_is_returned_with_the_byte_that_completes_it(stream: bytes) -> None:
    parser = SseParser()
    counts = [len(parser.feed(bytes([byte]))) for byte in stream]
    assert counts == [0] * (len(stream) - 1) + [1]


SINGLE = [
    (b'data: {"a":1}\ndata: {"b":2}\ndata: [DONE]\n\n', [(b"", b'{"a":1}'), (b"", b'{"b":2}'), (b"", b"[DONE]")]),
    (b'event: e\ndata: {"a":1}\nevent: f\ndata: {"b":2}\n', [(b"e", b'{"a":1}'), (b"f", b'{"b":2}')]),
    (b'data:{"a":1}\r\n: c\r\nid: 1\r\ndata:{"b":2}\r\n', [(b"", b'{"a":1}'), (b"", b'{"b":2}')]),
    (b'id: 1\ndata: {"a":1}\nid: 2\ndata: {"b":2}\n\n', [(b"", b'{"a":1}'), (b"", b'{"b":2}')]),
    (b'data: {"a":1}\nretry: 9\nid: 2\nevent: f\ndata: {"b":2}\n\n', [(b"", b'{"a":1}'), (b"f", b'{"b":2}')]),
    (b'data: {"a":1}\nid: 1\n\ndata: {"b":2}\nid: 2\n\n', [(b"", b'{"a":1}'), (b"", b'{"b":2}')]),
    (b'data: ping\ndata: {"a":1}\ndata: null\n', [(b"", b'{"a":1}'), (b"", b"null")]),
    (b'data: {\ndata: "a": {\ndata: }\ndata: , "b": [{}\ndata: ]}\n\n', [(b"", b'{\n"a": {\n}\n, "b": [{}\n]}')]),
]


@pytest.mark.parametrize(("stream", "events"), SINGLE)
def test_a_document_ends_its_event_even_without_a_blank_line(stream: bytes, events: list[Event]) -> None:
    for size in (1, 2, 7, len(stream)):
        assert parse(*(stream[at : at + size] for at in range(0, len(stream), size))) == events


@pytest.mark.parametrize("first", [b"", b"id: 1\n", b"event: e\n", b"retry: 5\n"])
def test_a_stream_without_blank_lines_is_returned_as_it_comes(first: bytes) -> None:
    parser = SseParser(100)
    count = sum(len(parser.feed(first + b'data: {"number": %d}\n' % number)) for number in range(1_000))
    assert count >= 998


def test_endless_comments_after_braces_are_cheap() -> None:
    started = time.process_time()
    parse(b"data: {}\n" + b":}\n" * 300_000 + b"\n", limit=1024 * 1024)
    assert time.process_time() - started < 5


def test_an_event_over_the_limit_is_refused_while_it_grows() -> None:
    parser = SseParser(100)
    parser.feed(b"data: " + b"x" * 90)
    with pytest.raises(ProviderError, match="more than 100 bytes"):
        parser.feed(b"x" * 20)


def test_an_event_over_the_limit_is_refused_in_one_chunk() -> None:
    with pytest.raises(ProviderError) as caught:
        SseParser(100).feed(b"data: " + b"x" * 200 + b"\n\ndata: y\n\n")
    assert caught.value.code == "provider_bad_response"


def test_many_small_events_are_not_one_large_event() -> None:
    assert len(parse(b"data: 0123456789\n\n" * 100, limit=50)) == 100


def test_endless_blank_lines_are_cheap() -> None:
    """60 MB of them took 17 seconds."""
    parser = SseParser()
    blanks = b"\n" * 65_536
    started = time.process_time()
    for _ in range(1_000):
        assert parser.feed(blanks) == []
    assert time.process_time() - started < 5
    assert parser.feed(b"data: x\n\n") == [(b"", b"x")]
