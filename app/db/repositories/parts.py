"""Parts of messages. A row changes only while its part is being written, or when a mark is set on it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import TypeAdapter
from sqlalchemy import Connection, Row, Select, Table, bindparam, exists, func, select, text, update

from app.db.dialects import upsert
from app.db.models import IN_MESSAGE, message_parts, messages, sessions
from app.db.prepared import Prepared
from app.messages import Part, ToolCallPart, ToolStatus, now

Fields = dict[str, Any]
_PART: TypeAdapter[Part] = TypeAdapter(Part)

_COLUMNS = {"id", "index", "type", "tokens", "call_id", "status", "arguments"}
"""The fields of a part that are stored outside its body (`arguments` is computed from its text)."""

_MARKS = {"compacted_at", "original_tokens"}
"""The fields of a part that come from marks set on it later."""


def with_calls(waiting: Table) -> Select[Any]:
    """The rows of a session's calls that wait, or waited, each with its call's `body` and `status`, in the model's
    order. `waiting` is their table; the session is the parameter `sid`."""
    its_call = (
        (message_parts.c.session_id == waiting.c.session_id)
        & (message_parts.c.call_id == waiting.c.call_id)
        & (message_parts.c.type == "tool_call")
    )
    # Each has its call. An outer join has SQLite begin with those that wait, instead of with all parts of the session.
    query = select(waiting, message_parts.c.body, message_parts.c.status).outerjoin(message_parts, its_call)
    return query.where(waiting.c.session_id == bindparam("sid")).order_by(
        waiting.c.requested_at, waiting.c.message_id, message_parts.c.index
    )


def part_row(session_id: str, message_id: str, part: Part, *, closed: bool, output_ref: str | None) -> dict[str, Any]:
    """A part's row."""
    body = part.model_dump(mode="json", exclude=_COLUMNS | _MARKS)
    if isinstance(part, ToolCallPart):
        body["arguments_text"] = part.arguments_text
    return {
        "session_id": session_id,
        "id": part.id,
        "message_id": message_id,
        "index": part.index,
        "type": part.type,
        "call_id": getattr(part, "call_id", None),
        "status": getattr(part, "status", None),
        "closed": closed,
        "tokens": part.tokens,
        "body": body,
        "output_ref": output_ref,
    }


_PUT = Prepared(
    upsert(
        message_parts,
        key=("session_id", "id"),
        changed=lambda new: {name: new[name] for name in ("closed", "status", "tokens", "body", "output_ref")},
    )
)


def put(
    connection: Connection,
    session_id: str,
    message_id: str,
    part: Part,
    *,
    closed: bool,
    output_ref: str | None = None,
) -> None:
    """Adds a part, or replaces what was stored while it was being written."""
    _PUT.run(connection, part_row(session_id, message_id, part, closed=closed, output_ref=output_ref))


class Unfinished(NamedTuple):
    """What has been written of a part so far, and the epoch of the session's owner, who got it from the model."""

    session_id: str
    epoch: int
    message_id: str
    part: Part


_CHANGED = ("status", "tokens", "body")
_NEW = ("session_id", "id", "message_id", "index", "type", "call_id", "closed", *_CHANGED)
_given = {name: bindparam(f"new_{name}", type_=message_parts.c[name].type) for name in _NEW}
_IS_OWNED = exists().where(sessions.c.id == _given["session_id"], sessions.c.epoch == bindparam("owner_epoch"))
_HAS_MESSAGE = exists().where(
    messages.c.session_id == _given["session_id"],
    messages.c.id == _given["message_id"],
    messages.c.voided_at.is_(None),
)
_PUT_UNFINISHED = Prepared(
    upsert(
        message_parts,
        key=("session_id", "id"),
        changed=lambda new: {name: new[name] for name in _CHANGED},
        where=message_parts.c.closed.is_(False),
        rows=select(*(value.label(name) for name, value in _given.items())).where(_IS_OWNED, _HAS_MESSAGE),
    )
)
_TOUCH = Prepared(
    update(sessions)
    .where(sessions.c.id == bindparam("sid"), sessions.c.epoch == bindparam("owner_epoch"))
    .values(updated_at=bindparam("at"))
)


def put_unfinished(connection: Connection, written: Sequence[Unfinished]) -> None:
    """Stores what has been written of parts of any sessions, in two statements for all of them: a running model causes
    this several times a second. Parts that are complete or of a void message are not changed, nor are those of sessions
    that have another owner now, who has closed them."""
    at = now()
    owners = dict.fromkeys((part.session_id, part.epoch) for part in written)
    _TOUCH.run_all(connection, [{"sid": sid, "owner_epoch": epoch, "at": at} for sid, epoch in owners])
    rows = []
    for session_id, epoch, message_id, part in written:
        row = part_row(session_id, message_id, part, closed=False, output_ref=None)
        rows.append({"owner_epoch": epoch, **{f"new_{name}": row[name] for name in _NEW}})
    _PUT_UNFINISHED.run_all(connection, rows)


_SET_STATUS = Prepared(
    update(message_parts)
    .where(
        message_parts.c.session_id == bindparam("sid"),
        message_parts.c.call_id == bindparam("call"),
        message_parts.c.type == "tool_call",
    )
    .values(status=bindparam("new_status"))
)


def set_call_status(connection: Connection, session_id: str, call_id: str, status: ToolStatus) -> None:
    """Sets the status of a call's part to that of its result."""
    _SET_STATUS.run(connection, {"sid": session_id, "call": call_id, "new_status": status})


_TURN_CALLS = Prepared(
    update(message_parts)
    .where(
        message_parts.c.session_id == bindparam("sid"),
        message_parts.c.message_id == bindparam("mid"),
        message_parts.c.type == "tool_call",
        message_parts.c.status == bindparam("old_status"),
    )
    .values(status=bindparam("new_status"))
)


def start_calls(connection: Connection, session_id: str, message_id: str) -> None:
    """Marks the calls of a message that have not been started as running."""
    key = {"sid": session_id, "mid": message_id}
    _TURN_CALLS.run(connection, {**key, "old_status": ToolStatus.PENDING, "new_status": ToolStatus.RUNNING})


def hold_calls(connection: Connection, session_id: str, message_id: str) -> None:
    """Undoes `start_calls` for a message whose calls need approval, in the same transaction."""
    key = {"sid": session_id, "mid": message_id}
    _TURN_CALLS.run(connection, {**key, "old_status": ToolStatus.RUNNING, "new_status": ToolStatus.PENDING})


def close_all(connection: Connection, session_id: str, message_id: str) -> None:
    """Closes the parts of a message as they are: its attempt is void, and they are not continued."""
    connection.execute(
        update(message_parts)
        .where(message_parts.c.session_id == session_id, message_parts.c.message_id == message_id)
        .values(closed=True)
    )


def part_of(row: Row[Any]) -> Part:
    """A stored part as a value."""
    return _PART.validate_python(_fields(*(getattr(row, name) for name in _READ)))


def _fields(
    id: str,
    index: int,
    type_: str,
    call_id: str | None,
    status: str | None,
    tokens: int,
    body: dict[str, Any],
    compacted_at: datetime | None,
) -> Fields:
    """A part's fields from the values of `_READ`."""
    fields: Fields = {"id": id, "index": index, "type": type_, "tokens": tokens, **body}
    if call_id is not None:
        fields |= {"call_id": call_id, "status": status}
    if compacted_at is not None:
        fields |= {"compacted_at": compacted_at, "original_tokens": tokens}
    return fields


_READ = ("id", "index", "type", "call_id", "status", "tokens", "body", "compacted_at")
_OF_SESSION = (
    select(message_parts.c.message_id, *(message_parts.c[name] for name in _READ))
    .where(message_parts.c.session_id == bindparam("sid"))
    .order_by(message_parts.c.message_id, message_parts.c.index)
)
_OF_WHOLE_SESSION = Prepared(_OF_SESSION)
_OF_MESSAGES = _OF_SESSION.where(message_parts.c.message_id.in_(bindparam("ids", expanding=True)))


def by_message(connection: Connection, session_id: str, ids: Sequence[str]) -> dict[str, list[Part]]:
    """The parts of these messages, by message and in order."""
    found = fields_by_message(connection, session_id, ids)
    return {message_id: [_PART.validate_python(part) for part in made] for message_id, made in found.items()}


def fields_by_message(
    connection: Connection, session_id: str, ids: Sequence[str] | Select[tuple[str]] | None
) -> dict[str, list[Fields]]:
    """The fields of the parts of these messages, or of all, by message and in order, for values that have parts; `ids`
    may be a query."""
    rows: Sequence[Sequence[Any]]
    if ids is None:
        rows = _OF_WHOLE_SESSION.all(connection, {"sid": session_id})
    elif isinstance(ids, Select):
        query = _OF_SESSION.where(message_parts.c.message_id.in_(ids))
        rows = connection.execute(query, {"sid": session_id}).all()
    else:
        rows = connection.execute(_OF_MESSAGES, {"sid": session_id, "ids": ids}).all()
    found: dict[str, list[Fields]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(_fields(*row[1:]))
    return found


def of_call(connection: Connection, session_id: str, call_id: str) -> list[Row[Any]]:
    """The rows of a call and, if it has one, of its result."""
    query = select(message_parts).where(message_parts.c.session_id == session_id, message_parts.c.call_id == call_id)
    return list(connection.execute(query).all())


def call_ids(connection: Connection, session_id: str, message_id: str) -> Sequence[str]:
    """The ids of a message's calls, in order."""
    part = message_parts.c
    query = select(part.call_id).where(
        part.session_id == session_id, part.message_id == message_id, part.type == "tool_call"
    )
    return [call_id for call_id in connection.execute(query.order_by(part.index)).scalars() if call_id is not None]


def calls(connection: Connection, session_id: str, message_id: str) -> tuple[ToolCallPart, ...]:
    """A message's calls, in order."""
    found = by_message(connection, session_id, [message_id]).get(message_id, ())
    return tuple(part for part in found if isinstance(part, ToolCallPart))


def tokens_of(connection: Connection, session_id: str, message_id: str) -> int:
    """The total tokens of a message's parts."""
    query = select(func.sum(message_parts.c.tokens)).where(
        message_parts.c.session_id == session_id, message_parts.c.message_id == message_id
    )
    return connection.execute(query).scalar() or 0


def messages_with(connection: Connection, session_id: str, ids: Collection[str]) -> set[str]:
    """The ids of the messages that these parts belong to."""
    query = select(message_parts.c.message_id).where(
        message_parts.c.session_id == session_id, message_parts.c.id.in_(ids)
    )
    return set(connection.execute(query).scalars())


def open_parts(connection: Connection, session_id: str) -> list[Row[Any]]:
    """Parts that were being written when their owner ended; those of void attempts are left out."""
    part = message_parts.c
    query = select(message_parts).join(messages, IN_MESSAGE)
    query = query.where(part.session_id == session_id, part.closed.is_(False), messages.c.voided_at.is_(None))
    return list(connection.execute(query.order_by(part.message_id, part.index)).all())


_IS_OPEN = text("message_parts.status IN ('pending', 'running')")
"""Spelled out, since SQLite uses a partial index only for a condition with the same text as the index."""


def open_calls(connection: Connection, session_id: str) -> list[Row[Any]]:
    """Calls without a result, except those of void messages, in order. A result also sets its call's status."""
    part = message_parts.c
    query = select(message_parts, messages.c.seq).join(messages, IN_MESSAGE)
    query = query.where(
        part.session_id == session_id, part.type == "tool_call", _IS_OPEN, messages.c.voided_at.is_(None)
    )
    return list(connection.execute(query.order_by(messages.c.seq, part.index)).all())


_NEWEST_OPEN_CALLS = (
    select(message_parts)
    .join(messages, IN_MESSAGE)
    .where(
        message_parts.c.session_id.in_(bindparam("ids", expanding=True)),
        message_parts.c.type == "tool_call",
        _IS_OPEN,
        message_parts.c.closed.is_(True),
        messages.c.voided_at.is_(None),
    )
    .order_by(messages.c.seq, message_parts.c.index)
)


def newest_open_calls(connection: Connection, session_ids: Sequence[str]) -> dict[str, ToolCallPart]:
    """The newest call without a result in each session, once the model has written all of it."""
    found = {row.session_id: part_of(row) for row in connection.execute(_NEWEST_OPEN_CALLS, {"ids": session_ids})}
    return {id: call for id, call in found.items() if isinstance(call, ToolCallPart)}
