"""What nodes tell each other about a session, as bytes: a line of JSON, then the JSON of the events as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from app.eventlog.log import StreamItem

ASK, NUDGE, PING = b"ask ", b"nudge", b"ping"
"""The other messages: to the owner of a session, `ASK` followed by the id of the node that needs the open parts; to a
node itself, to see whether the broker delivers."""

MAX_EVENT_BYTES = 128 * 1024
"""A larger event is sent without its data, which readers then take from the log."""


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
    bodies = [item.data if len(item.data) <= MAX_EVENT_BYTES else b"" for item in update.events]
    events = [
        (item.type, item.seq, item.closes, item.voids, len(data))
        for item, data in zip(update.events, bodies, strict=True)
    ]
    deltas = [(d.part_id, d.offset, d.text, d.stream, d.event, d.fields) for d in update.deltas]
    head = (update.node, update.session_id, update.epoch, update.head, update.full, update.deleted)
    return b"\n".join([orjson.dumps((*head, update.open, events, deltas)), b"".join(bodies)])


def decode(message: bytes) -> Update:
    """Raises `MalformedUpdateError`."""
    line, _, body = message.partition(b"\n")
    try:
        node, session_id, epoch, head, full, deleted, opened, events, deltas = orjson.loads(line)
        _check(node, session_id, epoch, head, deltas)
        return Update(
            node,
            session_id,
            _events(events, body),
            epoch,
            head,
            [Delta(*delta) for delta in deltas],
            full,
            opened,
            deleted,
        )
    except (ValueError, TypeError) as error:
        raise MalformedUpdateError(str(error)) from error


def _check(node: object, session_id: object, epoch: object, head: object, deltas: list[Any]) -> None:
    """Raises `TypeError` for values that would fail only where they are applied."""
    sound = isinstance(node, str) and isinstance(session_id, str) and isinstance(epoch, int) and isinstance(head, int)
    for part_id, offset, text, stream, event, fields in deltas:
        sound = sound and isinstance(offset, int) and all(isinstance(v, str) for v in (part_id, text, stream, event))
        sound = sound and (fields is None or isinstance(fields, dict))
    if not sound:
        raise TypeError("a field has another type")


def _events(described: list[Any], body: bytes) -> list[StreamItem]:
    items: list[StreamItem] = []
    at = 0
    for type_, seq, closes, voids, size in described:
        if not (isinstance(type_, str) and isinstance(seq, int | None)):
            raise TypeError("an event has another type")
        items.append(StreamItem(type_, seq, body[at : at + size], closes, voids))
        at += size
    return items
