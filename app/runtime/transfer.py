"""Import and export of histories: the transaction that stores one, and the pages of an export."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from sqlalchemy import Connection

from app.db.repositories import messages, sessions, transfer
from app.eventlog.log import Appender, StreamItem
from app.events import MessageCreated
from app.interchange import WireFormat, begun_by_user, is_told, page_length, settled, to_wire
from app.messages import Message, Role
from app.runtime.history import PAGE_BYTES
from app.runtime.values.history import ExportPage

CHUNK = 500
"""Messages per statement: bounds the memory of a statement's parameters, in addition to the messages themselves."""

GROWTH = 8
"""How much further an export reads if a page cannot end at its limit; after that it reads everything."""


def store_history(connection: Connection, session_id: str, history: Sequence[Message]) -> list[StreamItem]:
    """Adds imported messages in order, each with its event; returns the events to publish after the commit."""
    items: list[StreamItem] = []
    waiting = iter(history)
    while chunk := list(islice(waiting, CHUNK)):
        appender = Appender(connection, session_id)
        first = appender.take(len(chunk))
        stored = [
            message.model_copy(update={"seq": seq, "created_at": appender.at})
            for seq, message in enumerate(chunk, start=first)
        ]
        transfer.add_all(connection, session_id, stored)
        for message in stored:
            appender.add(message.seq, MessageCreated(session_id=session_id, at=appender.at, message=message))
        items += appender.flush()
    return items


def export_page(connection: Connection, session_id: str, format: WireFormat, after: int, limit: int) -> ExportPage:
    """A page of the history in a wire format, of about `limit` stored messages: fewer if they are large, and a few more
    to keep a call with its results, and together what the format joins in one message. A running step is left out until
    it has ended; summaries are always left out, since the messages they replace are included."""
    last_seq = sessions.row(connection, session_id).last_seq
    begins = after == 0
    after = _start(connection, session_id, after)
    limit = messages.fitting(connection, session_id, after, limit, PAGE_BYTES)
    for size in (limit + 1, GROWTH * limit + 1, None):
        rows = messages.history(connection, session_id, after=after, limit=size)
        ends_here = size is None or len(rows) < size
        live = [row for row in (settled(rows) if ends_here else rows) if is_told(row)]
        length = page_length(live, limit, format)
        if length is not None or ends_here:
            break
    page = live if length is None else live[:length]
    cursor = None if length is None else str(page[-1].seq)
    wires = to_wire(page, format)
    if begins:
        wires = begun_by_user(wires, format)
    return ExportPage(items=tuple(wires), last_seq=last_seq, next_cursor=cursor)


def _start(connection: Connection, session_id: str, after: int) -> int:
    """Where a page after `after` starts: before the calls, if their results come next."""
    following = messages.history(connection, session_id, after=after, limit=1)
    if not following or following[0].role is not Role.TOOL:
        return after
    answer = transfer.last_answer(connection, session_id, following[0].seq)
    return after if answer is None else answer - 1
