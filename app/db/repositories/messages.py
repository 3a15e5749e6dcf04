"""Messages with their parts. History is append-only: a row changes only while its message is being written, when its
attempt is voided, or when a mark is set on it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    bindparam,
    func,
    insert,
    select,
    update,
)

from app.db.dialects import STREAMED, streamed, utf8_length
from app.db.models import IN_MESSAGE, message_parts, messages
from app.db.prepared import Prepared
from app.db.repositories import parts
from app.db.repositories.parts import part_row
from app.messages import FinishReason, Message, Role

ADDED_AT_ONCE = 500
"""Rows of one statement when a history is added."""

_FIELDS = tuple(name for name in Message.model_fields if name != "parts")
_COLUMNS = [messages.c[name] for name in _FIELDS]
"""The columns that a message is made of."""

_ADD = Prepared(insert(messages))
_ADD_SOME = insert(messages)
_THIS = (messages.c.session_id == bindparam("sid")) & (messages.c.id == bindparam("mid"))
"""One message, in statements that are made once because every step runs them."""


def _is(session_id: str, message_id: str) -> ColumnElement[bool]:
    return (messages.c.session_id == session_id) & (messages.c.id == message_id)


def add(connection: Connection, session_id: str, message: Message) -> None:
    """Adds a message with its parts, all closed."""
    fields = message.model_dump(exclude={"parts"})
    _ADD.run(connection, {"session_id": session_id, **fields})
    for part in message.parts:
        parts.put(connection, session_id, message.id, part, closed=True)


_UPDATE = update(messages).where(_THIS)
_CLOSE = Prepared(
    _UPDATE.values(finish_reason=bindparam("reason"), tokens=bindparam("size"), error=bindparam("problem"))
)


def close(
    connection: Connection,
    session_id: str,
    message_id: str,
    finish_reason: FinishReason,
    tokens: int,
    error: dict[str, Any] | None,
) -> None:
    """Records how an assistant message ended and its size."""
    ended = {"reason": finish_reason, "size": tokens, "problem": error}
    _CLOSE.run(connection, {"sid": session_id, "mid": message_id, **ended})


def void(connection: Connection, session_id: str, message_id: str, at: datetime) -> None:
    """Marks a message as void: its attempt was retried."""
    connection.execute(update(messages).where(_is(session_id, message_id)).values(voided_at=at))


_ADD_TOKENS = Prepared(_UPDATE.values(tokens=messages.c.tokens + bindparam("more")))


def add_tokens(connection: Connection, session_id: str, message_id: str, tokens: int) -> None:
    """Adds to the size of a message that grows part by part."""
    _ADD_TOKENS.run(connection, {"sid": session_id, "mid": message_id, "more": tokens})


_HISTORY = (
    select(*_COLUMNS)
    .where(messages.c.session_id == bindparam("sid"), messages.c.seq > bindparam("after_seq"))
    .order_by(messages.c.seq)
)
_WHOLE_HISTORY = Prepared(_HISTORY)


def history(
    connection: Connection,
    session_id: str,
    *,
    after: int = 0,
    before: int | None = None,
    limit: int | None = None,
) -> list[Message]:
    """Messages with their parts, in order, between two seqs, both excluded."""
    given = {"sid": session_id, "after_seq": after}
    if limit is None and before is None:
        rows: Sequence[Row[Any]] = _WHOLE_HISTORY.all(connection, given)
    else:
        query = _HISTORY if before is None else _HISTORY.where(messages.c.seq < before)
        rows = connection.execute(query.limit(limit), given).all()
    if limit is not None:
        return _with_parts(connection, session_id, rows, [row.id for row in rows])
    if after == 0 and before is None:
        return _with_parts(connection, session_id, rows, None)
    ids = select(messages.c.id).where(messages.c.session_id == session_id, messages.c.seq > after)
    return _with_parts(connection, session_id, rows, ids if before is None else ids.where(messages.c.seq < before))


def named(connection: Connection, session_id: str, ids: Collection[str]) -> list[Message]:
    """The messages with these ids, in the history's order."""
    query = select(*_COLUMNS).where(messages.c.session_id == session_id, messages.c.id.in_(ids))
    rows = connection.execute(query.order_by(messages.c.seq)).all()
    return _with_parts(connection, session_id, rows, list(ids))


def requests(connection: Connection, session_id: str, *, newest_first: bool) -> Iterator[Message]:
    """The user's messages, read lazily one by one."""
    # Summaries also have the user role, but a model; this condition lets SQLite use an index.
    query = streamed(select(*_COLUMNS)).where(
        messages.c.session_id == session_id, messages.c.role == Role.USER, messages.c.model.is_(None)
    )
    with connection.execute(query.order_by(messages.c.seq.desc() if newest_first else messages.c.seq)) as rows:
        for row in rows:
            yield from _with_parts(connection, session_id, [row], [row.id])


def _with_parts(
    connection: Connection, session_id: str, rows: Sequence[Row[Any]], ids: Sequence[str] | Select[tuple[str]] | None
) -> list[Message]:
    found = parts.fields_by_message(connection, session_id, ids)
    return [_message(row, found.get(row.id, ())) for row in rows]


_SIZES = (
    select(messages.c.id, utf8_length(message_parts.c.body))
    .outerjoin(message_parts, IN_MESSAGE)
    .where(messages.c.session_id == bindparam("sid"), messages.c.seq > bindparam("after_seq"))
    .order_by(messages.c.seq)
    .execution_options(**STREAMED)
)


def fitting(connection: Connection, session_id: str, after: int, limit: int, most_bytes: int) -> int:
    """How many of the next `limit` messages fit into `most_bytes` together; 1 if even the first is larger."""
    seen: set[str] = set()
    size = 0
    with connection.execute(_SIZES, {"sid": session_id, "after_seq": after}) as rows:
        for message_id, length in rows:
            size += length or 0
            if seen and message_id not in seen and (size > most_bytes or len(seen) == limit):
                break
            seen.add(message_id)
    return max(1, len(seen))


def has_more(connection: Connection, session_id: str, most_bytes: int) -> bool:
    """Whether the messages have more than `most_bytes` together."""
    size = 0
    with connection.execute(_SIZES, {"sid": session_id, "after_seq": 0}) as rows:
        for _, length in rows:
            size += length or 0
            if size > most_bytes:
                return True
    return False


def _message(row: Row[Any], content: Iterable[parts.Fields]) -> Message:
    return Message.model_validate({**dict(zip(_FIELDS, row, strict=True)), "parts": tuple(content)})


_EXISTS = Prepared(select(messages.c.id).where(_THIS))


def exists(connection: Connection, session_id: str, message_id: str) -> bool:
    return _EXISTS.first(connection, {"sid": session_id, "mid": message_id}) is not None


_IMAGES = (
    select(messages.c.seq, message_parts.c.body)
    .join(message_parts, IN_MESSAGE)
    .where(messages.c.session_id == bindparam("sid"), messages.c.seq > bindparam("after_seq"))
    .where(message_parts.c.type == "image")
    .order_by(messages.c.seq)
    .execution_options(**STREAMED)
)
_COUNT_BETWEEN = select(func.count()).where(
    messages.c.session_id == bindparam("sid"), messages.c.seq > bindparam("after_seq"), messages.c.seq < bindparam("to")
)


def fitting_images(connection: Connection, session_id: str, after: int, limit: int, most_bytes: int) -> int:
    """How many of the next `limit` messages have images of `most_bytes` together; at least 1."""
    size, beyond = 0, None
    with connection.execute(_IMAGES, {"sid": session_id, "after_seq": after}) as rows:
        for seq, body in rows:
            size += body.get("bytes") or 0
            if size > most_bytes:
                beyond = seq
                break
    if beyond is None:
        return limit
    count = connection.execute(_COUNT_BETWEEN, {"sid": session_id, "after_seq": after, "to": beyond}).scalar_one()
    return max(1, min(limit, count))


def find(connection: Connection, session_id: str, message_id: str) -> Message | None:
    """A message, summaries and voided attempts included; None if it does not exist."""
    query = select(*_COLUMNS).where(_is(session_id, message_id))
    row = connection.execute(query).first()
    if row is None:
        return None
    return _message(row, parts.fields_by_message(connection, session_id, [row.id]).get(row.id, ()))


def is_open(connection: Connection, session_id: str, message_id: str) -> bool:
    """Whether an assistant message is still being streamed."""
    query = select(messages.c.finish_reason, messages.c.voided_at).where(_is(session_id, message_id))
    row = connection.execute(query).first()
    return row is not None and row.finish_reason is None and row.voided_at is None


def finish_reason(connection: Connection, session_id: str, message_id: str) -> FinishReason | None:
    """How an assistant message ended, None if it has not."""
    query = select(messages.c.finish_reason).where(_is(session_id, message_id))
    found = connection.execute(query).scalar()
    return None if found is None else FinishReason(found)


_VOIDED_AT = select(messages.c.voided_at).where(_THIS)


def is_voided(connection: Connection, session_id: str, message_id: str) -> bool:
    return connection.execute(_VOIDED_AT, {"sid": session_id, "mid": message_id}).scalar() is not None


def writers(connection: Connection, session_id: str) -> frozenset[str | None]:
    """The models of the answers, None for an unknown one. There are few models and many answers, so each model is found
    by skipping past the previous one in the index."""
    model = messages.c.model
    answers = select(func.min(model)).where(messages.c.session_id == session_id, messages.c.role == Role.ASSISTANT)
    unknown = answers.with_only_columns(messages.c.id).where(model.is_(None)).limit(1)
    found: set[str | None] = set() if connection.execute(unknown).first() is None else {None}
    last: str | None = ""
    while (last := connection.execute(answers.where(model > last)).scalar()) is not None:
        found.add(last)
    return frozenset(found)


def first_id(connection: Connection, session_id: str) -> str | None:
    """The id of the history's first message."""
    query = select(messages.c.id).where(messages.c.session_id == session_id).order_by(messages.c.seq).limit(1)
    return connection.execute(query).scalar()


def newest_seq(connection: Connection, session_id: str, place: int) -> int:
    """The seq of the message at a place counted back from the newest, which is 1; 0 if there are fewer."""
    query = select(messages.c.seq).where(messages.c.session_id == session_id).order_by(messages.c.seq.desc())
    return connection.execute(query.offset(place - 1).limit(1)).scalar() or 0


def last_id(connection: Connection, session_id: str) -> str | None:
    """The id of the history's last message, except summaries."""
    query = select(messages.c.id).where(messages.c.session_id == session_id, messages.c.is_summary.is_(False))
    query = query.order_by(messages.c.seq.desc()).limit(1)
    return connection.execute(query).scalar()


def last_before(connection: Connection, session_id: str, seq: int) -> Message | None:
    """The last message before a seq, except summaries and void ones; None without one."""
    query = select(*_COLUMNS).where(
        messages.c.session_id == session_id,
        messages.c.seq < seq,
        messages.c.is_summary.is_(False),
        messages.c.voided_at.is_(None),
    )
    row = connection.execute(query.order_by(messages.c.seq.desc()).limit(1)).first()
    if row is None:
        return None
    return _message(row, parts.fields_by_message(connection, session_id, [row.id]).get(row.id, ()))


_LAST_OF_MODEL = (
    select(*_COLUMNS)
    .where(
        messages.c.session_id == bindparam("sid"),
        messages.c.role == Role.ASSISTANT,
        messages.c.is_summary.is_(False),
        messages.c.voided_at.is_(None),
    )
    .order_by(messages.c.seq.desc())
    .limit(1)
)


def last_of_model(connection: Connection, session_id: str) -> Message | None:
    """The newest message that a model wrote, except summaries and void ones; None without one."""
    row = connection.execute(_LAST_OF_MODEL, {"sid": session_id}).first()
    if row is None:
        return None
    return _message(row, parts.fields_by_message(connection, session_id, [row.id]).get(row.id, ()))


def tool_message_after(connection: Connection, session_id: str, seq: int) -> str | None:
    """The id of the next tool message after a seq, None without one."""
    query = (
        select(messages.c.id)
        .where(messages.c.session_id == session_id, messages.c.seq > seq, messages.c.role == Role.TOOL)
        .order_by(messages.c.seq)
        .limit(1)
    )
    return connection.execute(query).scalar()


def add_all(
    connection: Connection,
    session_id: str,
    added: Sequence[Message],
    stored: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> None:
    """Adds complete messages with the marks on their parts; `stored` are the columns with the locations of raw outputs,
    by call."""
    rows = ({"session_id": session_id, **message.model_dump(exclude={"parts"})} for message in added)
    for batch in _batches(rows):
        connection.execute(_ADD_SOME, batch)
    for batch in _batches(_part_rows(session_id, added, stored)):
        connection.execute(insert(message_parts), batch)


def _batches(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The rows of an import, some at a time: the database does not wait long for the next ones."""
    left = iter(rows)
    while batch := list(islice(left, ADDED_AT_ONCE)):
        yield batch


def _part_rows(
    session_id: str, added: Iterable[Message], stored: Mapping[str, Mapping[str, Any]]
) -> Iterable[dict[str, Any]]:
    nowhere = {"output_ref": None, "output_swept_at": None}
    for message in added:
        for part in message.parts:
            row = part_row(session_id, message.id, part, closed=True, output_ref=None)
            place = stored.get(row["call_id"], nowhere) if part.type == "tool_result" else nowhere
            yield {**row, "compacted_at": getattr(part, "compacted_at", None), **place}


def last_answer(connection: Connection, session_id: str, before: int) -> int | None:
    """The seq of the last assistant message before another seq that is not void, None without one."""
    query = select(func.max(messages.c.seq)).where(
        messages.c.session_id == session_id,
        messages.c.seq < before,
        messages.c.role == Role.ASSISTANT,
        messages.c.voided_at.is_(None),
    )
    return connection.execute(query).scalar()
