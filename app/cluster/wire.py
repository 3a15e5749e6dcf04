"""What nodes tell each other about a session, as bytes: a line of JSON, then the JSON of the events as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from pydantic import Field, TypeAdapter, ValidationError

from app.eventlog.log import StreamItem

ASK, NUDGE, PING = b"ask ", b"nudge", b"ping"
"""The other messages: to the owner of a session, `ASK` followed by the id of the node that needs the open parts; to a
node itself, to see whether the broker delivers."""

MAX_EVENT_BYTES = 128 * 1024
"""A larger event is sent without its data, which readers then take from the log."""

MAX_BODY_BYTES = 4 * 1024 * 1024
"""The data of all events of a message; those beyond are sent without theirs."""

MAX_ITEMS = 20_000
"""Events, deltas or open parts of a message. An owner has at most some hundred of each."""

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""A larger message is refused before it is parsed. The largest ones have full data, and the names of 20,000 events."""


class MalformedUpdateError(ValueError):
    """Bytes that no node of this version has sent."""


@dataclass(frozen=True, slots=True)
class Delta:
    """Text of an open part from an offset on, in code points. `fields` and `event` describe a part that receivers may
    not know; without them they are None and empty."""

    part_id: str
    offset: int
    text: str
    stream: str
    event: str = ""
    fields: dict[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """News of a session. From its owner it has the owner's `epoch`, the newest seq published there as `head`, and
    `deltas`; if it is `full`, receivers drop the parts that are not `open`."""

    node: str
    session_id: str
    events: Sequence[StreamItem] = ()
    epoch: int = 0
    head: int = 0
    deltas: Sequence[Delta] = ()
    full: bool = False
    open: Sequence[str] = ()
    deleted: bool = False


def encode(update: Update) -> bytes:
    bodies = _bodies(update.events)
    events = [
        (item.type, item.seq, item.closes, item.voids, len(data))
        for item, data in zip(update.events, bodies, strict=True)
    ]
    deltas = [(d.part_id, d.offset, d.text, d.stream, d.event, d.fields) for d in update.deltas]
    head = (update.node, update.session_id, update.epoch, update.head, update.full, update.deleted)
    return b"\n".join([orjson.dumps((*head, update.open, events, deltas)), b"".join(bodies)])


def _bodies(events: Sequence[StreamItem]) -> list[bytes]:
    """The events' data as it is sent: empty where it is too large, or the message is full."""
    bodies: list[bytes] = []
    room = MAX_BODY_BYTES
    for item in events:
        fits = len(item.data) <= min(MAX_EVENT_BYTES, room)
        bodies.append(item.data if fits else b"")
        room -= len(bodies[-1])
    return bodies


_Natural = Annotated[int, Field(ge=0)]
_Event = tuple[str, int | None, str | None, str | None, _Natural]
_Delta = tuple[str, _Natural, str, str, str, dict[str, Any] | None]
_Opened = Annotated[list[str], Field(max_length=MAX_ITEMS)]
_Events = Annotated[list[_Event], Field(max_length=MAX_ITEMS)]
_Deltas = Annotated[list[_Delta], Field(max_length=MAX_ITEMS)]
_Head = tuple[str, str, _Natural, _Natural, bool, bool, _Opened, _Events, _Deltas]
_HEAD: TypeAdapter[_Head] = TypeAdapter(_Head)


def decode(message: bytes) -> Update:
    """Raises `MalformedUpdateError`: all types are checked, since a wrong one would fail only where it is applied, and
    all sizes, since they cost memory here."""
    if len(message) > MAX_MESSAGE_BYTES:
        raise MalformedUpdateError(f"{len(message):,} bytes are too many")
    line, _, body = message.partition(b"\n")
    try:
        head = _HEAD.validate_json(line, strict=True)
    except ValidationError as error:
        raise MalformedUpdateError(f"{error.error_count()} fields are not as expected") from error
    node, session_id, epoch, newest, full, deleted, opened, events, deltas = head
    if sum(event[-1] for event in events) != len(body):
        raise MalformedUpdateError("the events' sizes do not add up to that of their data")
    return Update(
        node,
        session_id,
        _with_data(events, body),
        epoch,
        newest,
        [Delta(*delta) for delta in deltas],
        full,
        opened,
        deleted,
    )


def _with_data(events: Sequence[_Event], body: bytes) -> list[StreamItem]:
    items: list[StreamItem] = []
    at = 0
    for type_, seq, closes, voids, size in events:
        items.append(StreamItem(type_, seq, body[at : at + size], closes, voids))
        at += size
    return items
