"""Malformed provider responses: mutated valid ones of all wire formats, or no response at all."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import strategies as st

from tests.fuzz.values import anything, changed, encoded, hostile
from tests.provider import Interleaved, Reasoning, Reply, Text, ToolCall
from tests.provider.anthropic import ANTHROPIC
from tests.provider.dialect import Answering, Dialect, Spent
from tests.provider.openai import OPENAI
from tests.provider.responses import RESPONSES
from tests.provider.thinking import SealBook

Wire = Literal["openai", "anthropic", "responses"]
WIRES: tuple[Wire, ...] = ("openai", "anthropic", "responses")
DIALECTS: dict[Wire, Dialect] = {"openai": OPENAI, "anthropic": ANTHROPIC, "responses": RESPONSES}
MAX_EVENTS = 60


@dataclass(frozen=True)
class Answer:
    """A provider's response: `chunks` as received, sent as a JSON document if `is_json`. `kind` says how it was
    generated."""

    wire: Wire
    kind: str
    chunks: tuple[bytes, ...] = field(default=())
    is_json: bool = False

    @property
    def data(self) -> bytes:
        return b"".join(self.chunks)


words = st.sampled_from(["", "a", "Hello, world.", "é😀", "\x00", "line\n\nline", "x" * 2_000])
names = st.sampled_from(["read_file", "write_file", "execute_command", "", "no such tool", "a" * 300])
sound_arguments = ["{}", '{"path":"a.txt"}', '{"path":"a.txt","content":"b"}', '{"items":[{"text":"é"}]}']
broken_arguments = ["", '{"path":', "[]", "null", '"x"', "{}{}"]
parts = st.one_of(
    st.builds(Text, words, chunks=st.integers(1, 3)),
    st.builds(Reasoning, words, chunks=st.integers(1, 3), redacted=st.booleans()),
)


def replies_with(arguments: list[str]) -> st.SearchStrategy[Reply]:
    """Replies of text, reasoning and calls with such arguments, in sequence or interleaved."""
    call = st.builds(
        ToolCall,
        names,
        st.sampled_from(arguments),
        chunks=st.integers(1, 4),
        whole=st.booleans(),
        omit_id=st.booleans(),
        repeat_id=st.booleans(),
    )
    return st.builds(
        lambda some, asked, mixed, finish: Reply(*some, *((Interleaved(*asked),) if mixed else asked), finish=finish),
        st.lists(parts, max_size=3),
        st.lists(call, max_size=3),
        st.booleans(),
        st.sampled_from([None, "stop", "length", "content_filter", "refusal", "context_overflow"]),
    )


replies = replies_with([*sound_arguments, *broken_arguments])
whole_replies = replies_with(sound_arguments)
"""Anthropic's format has arguments as an object if it does not stream."""


def answering(reply: Reply, *, stream: bool) -> Answering:
    asked = {"stream_options": {"include_usage": True}, "include": ["reasoning.encrypted_content"]}
    body: dict[str, Any] = {"model": "m", "stream": stream, **asked}
    return Answering(0, "m", reply, Spent(20, 5, 5, 10, 2), "last_chunk", body, SealBook())


def sound_events(wire: Wire, reply: Reply) -> list[bytes]:
    """The server-sent events of a reply, as the strict provider sends them."""
    return [frame for frame in DIALECTS[wire].stream(answering(reply, stream=True)) if isinstance(frame, bytes)]


def sound_document(wire: Wire, reply: Reply) -> Any:
    """The reply of a server that does not stream."""
    return next(frame for frame in DIALECTS[wire].whole(answering(reply, stream=False)) if isinstance(frame, dict))


junk_events = st.one_of(
    st.sampled_from(
        [
            b"\n\n",
            b": comment\n\n",
            b"data\n\n",
            b"data:\n\n",
            b"event: error\ndata: {}\n\n",
            b"event: ping\ndata: {}\n\n",
            b"data: [DONE]\n\n",
            b'data: {"type":"message_stop"}\n\n',
            b'data: {"type":"response.completed"}\n\n',
            b'data: {"type":"response.failed","response":{"error":{"code":[]}}}\n\n',
            b"data: null\n\n",
            b"data: NaN\n\n",
            b"data: 1e999\n\n",
            b"data: " + b"[" * 3_000 + b"\n\n",
            b'data: {"error":' + b'{"a":' * 300 + b"1" + b"}" * 301 + b"\n\n",
            b'data: {"error":{"code":1e9,"message":"x"}}\n\n',
            b'data: {"type":"error","error":{"type":["overloaded_error"]}}\n\n',
            b"\xff\xfe\x00\xd8",
            b"\xef\xbb\xbf",
        ]
    ),
    hostile.map(lambda value: b"data: " + encoded(value) + b"\n\n"),
    anything.map(lambda value: b"data: " + encoded(value) + b"\n\n"),
)


@st.composite
def mutated_event(draw: st.DrawFn, event: bytes) -> bytes:
    """The event with another value somewhere in its document, or with its bytes cut, flipped or added to."""
    head, mark, data = event.partition(b"data: ")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if document is not None and draw(st.integers(0, 3)):
        return head + mark + encoded(draw(changed(document))) + b"\n\n"
    at = draw(st.integers(0, max(0, len(event) - 1)))
    match draw(st.sampled_from(["cut", "flip", "insert", "join", "ends"])):
        case "cut":
            return event[:at]
        case "flip":
            return event[:at] + bytes([event[at] ^ draw(st.integers(1, 255))]) + event[at + 1 :] if event else b""
        case "insert":
            return event[:at] + draw(st.binary(max_size=8)) + event[at:]
        case "join":
            return event.removesuffix(b"\n")
        case _:
            return event.replace(b"\n", draw(st.sampled_from([b"\r\n", b"\r", b"\n\n", b" \n"])))


@st.composite
def disordered(draw: st.DrawFn, events: list[bytes]) -> list[bytes]:
    """The events with a few of them gone, doubled, moved, changed, or with others between them."""
    events = list(events)
    for _ in range(draw(st.integers(0, 5))):
        at = draw(st.integers(0, max(0, len(events) - 1)))
        match draw(st.sampled_from(["change", "change", "change", "junk", "drop", "double", "move", "end"])):
            case "change" if events:
                events[at] = draw(mutated_event(events[at]))
            case "junk":
                events.insert(at, draw(junk_events))
            case "drop" if events:
                del events[at]
            case "double" if events:
                events[at:at] = [events[at]] * draw(st.integers(1, 3))
            case "move" if events:
                events.insert(draw(st.integers(0, len(events))), events.pop(at))
            case "end":
                del events[at:]
            case _:
                pass
    return events[:MAX_EVENTS]


@st.composite
def chunked(draw: st.DrawFn, data: bytes) -> tuple[bytes, ...]:
    """The bytes as they come off the wire, cut anywhere; now and then one by one."""
    if draw(st.integers(0, 9)) == 0 and len(data) < 3_000:
        return tuple(bytes([byte]) for byte in data)
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=6)))
    return tuple(data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True))


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    """Any answer."""
    wire: Wire = draw(st.sampled_from(WIRES))
    match draw(st.sampled_from(["stream", "stream", "stream", "mixed", "document", "bytes"])):
        case "stream":
            events = draw(disordered(sound_events(wire, draw(replies))))
            return Answer(wire, "stream", draw(chunked(b"".join(events))))
        case "mixed":
            other: Wire = draw(st.sampled_from([name for name in WIRES if name != wire]))
            both = [*sound_events(wire, draw(replies)), *sound_events(other, draw(replies))]
            events = draw(disordered(draw(st.permutations(both)) if draw(st.booleans()) else both))
            return Answer(wire, "mixed streams", draw(chunked(b"".join(events))))
        case "document":
            whole = sound_document(wire, draw(whole_replies))
            for _ in range(draw(st.integers(0, 4))):
                whole = draw(changed(whole))
            data = encoded(whole)
            end = draw(st.integers(0, len(data))) if draw(st.integers(0, 4)) == 0 else len(data)
            return Answer(wire, "document", (data[:end],), is_json=True)
        case _:
            data = b"".join(draw(st.lists(st.one_of(st.binary(max_size=30), junk_events), max_size=8)))
            return Answer(wire, "bytes", draw(chunked(data)), is_json=draw(st.booleans()))
