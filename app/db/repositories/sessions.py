"""Sessions: their rows, the snapshot that the API shows, and which of them have become old enough to be removed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, Row, and_, bindparam, delete, func, insert, or_, select, tuple_, update

from app.db.dialects import insert_new, json_member, lock_session, streamed, upsert
from app.db.models import message_parts, messages, server, sessions, webhook_cursors, webhooks
from app.db.prepared import Prepared
from app.db.repositories import compactions, parts, queue
from app.db.repositories.events import session_not_found
from app.db.repositories.webhooks import ACTIVE
from app.errors import ConflictError
from app.messages import new_id
from app.sessions import (
    Activity,
    CompactionState,
    Outcome,
    QueueState,
    SandboxSpec,
    Session,
    SessionFilter,
    SessionKind,
    SessionSort,
    Status,
)


def instance_id(connection: Connection) -> str:
    """The id of this database, created on first use; it labels the server's containers."""
    found = connection.execute(select(server.c.value).where(server.c.key == "instance_id")).scalar()
    if found is None:
        # Another server may do the same at this moment.
        connection.execute(insert_new(server, key=("key",)), {"key": "instance_id", "value": new_id()})
        return instance_id(connection)
    return str(found)


_SET = upsert(server, key=("key",), changed=lambda new: {"value": new["value"]})


def touch(connection: Connection) -> None:
    """Writes a dummy row to check that the database is writable."""
    connection.execute(_SET, {"key": "touched", "value": new_id()})


def add(connection: Connection, **fields: Any) -> None:
    connection.execute(insert(sessions).values(**fields))


def row(connection: Connection, session_id: str) -> Row[Any]:
    """A session's row. Raises `NotFoundError`."""
    found = find(connection, session_id)
    if found is None:
        raise session_not_found(session_id)
    return found


_BY_ID = Prepared(select(sessions).where(sessions.c.id == bindparam("sid")))


def find(connection: Connection, session_id: str) -> Row[Any] | None:
    return _BY_ID.first(connection, {"sid": session_id})


_CHILDREN = select(sessions).where(
    sessions.c.parent_id == bindparam("sid"), sessions.c.kind == SessionKind.SUBAGENT.value
)
_WORKING_CHILDREN = _CHILDREN.where(sessions.c.status != Status.IDLE).order_by(sessions.c.created_at, sessions.c.id)


def working_children(connection: Connection, session_id: str) -> Sequence[Row[Any]]:
    """The rows of the sub-agents of a session that have not ended, oldest first."""
    return connection.execute(_WORKING_CHILDREN, {"sid": session_id}).all()


def child_ids(connection: Connection, session_id: str) -> Sequence[str]:
    """The ids of all sub-agents of a session."""
    return connection.execute(_CHILDREN.with_only_columns(sessions.c.id), {"sid": session_id}).scalars().all()


def count_children(connection: Connection, session_id: str) -> int:
    """Number of all sub-agents of a session."""
    return connection.execute(_CHILDREN.with_only_columns(func.count()), {"sid": session_id}).scalar_one()


def count_subagents(connection: Connection) -> int:
    """Number of all sub-agents that run."""
    query = select(func.count()).where(sessions.c.status != Status.IDLE, sessions.c.kind == SessionKind.SUBAGENT)
    return connection.execute(query).scalar_one()


_PARENT = Prepared(
    select(sessions.c.parent_id).where(sessions.c.id == bindparam("sid"), sessions.c.kind == SessionKind.SUBAGENT)
)


def refuse_subagent(connection: Connection, session_id: str) -> None:
    """Raises `ConflictError` (code `subagent_session`) for a sub-agent: requests may only read and cancel it."""
    if (row := _PARENT.first(connection, {"sid": session_id})) is not None:
        raise ConflictError(
            f"Session {session_id} is a sub-agent of {row.parent_id}: it can be read and cancelled, nothing else.",
            code="subagent_session",
        )


_UPDATE = update(sessions).where(sessions.c.id == bindparam("sid"))
_CHANGE = Prepared(_UPDATE)


def change(connection: Connection, session_id: str, **fields: Any) -> None:
    _CHANGE.run(connection, {"sid": session_id, **fields})


_CLAIM = Prepared(_UPDATE.values(epoch=sessions.c.epoch + 1, owner=bindparam("node")).returning(sessions))


def claim(connection: Connection, session_id: str, node: str | None = None) -> Row[Any] | None:
    """Raises the epoch, which fences off every earlier owner; returns the new row, or None if the session is gone.
    `node` is the owner's node in a cluster."""
    return _CLAIM.first(connection, {"sid": session_id, "node": node})


def mark_seen(connection: Connection, session_id: str) -> None:
    """Stores that the end of the last run was shown. Raises `NotFoundError`."""
    if row(connection, session_id).unseen:
        change(connection, session_id, unseen=False)


def remove(connection: Connection, session_id: str) -> Session:
    """Deletes a session and all its rows; returns it as it was. Raises `NotFoundError`."""
    last = snapshot(connection, session_id)
    connection.execute(delete(sessions).where(sessions.c.id == session_id))
    return last


def snapshot(connection: Connection, session_id: str) -> Session:
    """The session as the API shows it. Raises `NotFoundError`."""
    found = row(connection, session_id)
    shown = view(found, queue.count(connection, session_id), activities(connection, [found]).get(session_id))
    without_model = compactions.without_model(connection, session_id) if found.compaction_count else None
    if without_model is None:
        return shown
    compaction = shown.compaction.model_copy(update={"without_model": without_model})
    return shown.model_copy(update={"compaction": compaction})


def activities(connection: Connection, rows: Collection[Row[Any]]) -> dict[str, Activity]:
    """What the sessions of these rows are doing, by session; only those with a running call."""
    active = [row.id for row in rows if row.status != Status.IDLE]
    if not active:
        return {}
    calls = parts.newest_open_calls(connection, active)
    return {id: Activity.of_call(call.call_id, call.name, call.arguments) for id, call in calls.items()}


_COMPACTION = ("compaction", "compaction_count", "compaction_last_at", "compaction_in_progress")
_AS_STORED = [name for name in Session.model_fields if name in sessions.c and name not in ("compaction", "unseen")]
_SHOWN = [sessions.c[name] for name in (*_AS_STORED, *_COMPACTION, "unseen", "owner")]
"""What a view is made of: half of the columns, without the instructions, the tools and the state of the run."""


def view(row: Row[Any], pending: int, activity: Activity | None) -> Session:
    """A row as the API shows it; it has all columns, or those that are `_SHOWN`."""
    # Each name that is read from a row takes as long as ten from a dictionary.
    stored = row._asdict()
    return Session(
        **{name: stored[name] for name in _AS_STORED},
        activity=activity,
        unseen=bool(stored["unseen"]),
        compaction=CompactionState(
            policy=stored["compaction"]["policy"],
            settings={name: value for name, value in stored["compaction"].items() if name not in ("policy", "given")},
            count=stored["compaction_count"],
            last_at=stored["compaction_last_at"],
            in_progress=stored["compaction_in_progress"],
        ),
        queue=QueueState(pending=pending),
        node=stored["owner"],
    )


_NEEDS_ATTENTION = or_(
    sessions.c.status.in_((Status.AWAITING_APPROVAL, Status.AWAITING_CLIENT)),
    and_(sessions.c.status == Status.IDLE, sessions.c.outcome == Outcome.FAILED, sessions.c.unseen.is_(True)),
)

PAGE_CHARS = 512 * 1024
"""Total characters of the tasks, answers and outputs on a page; a first session with more comes alone."""


def page(
    connection: Connection,
    *,
    status: SessionFilter | None,
    q: str | None,
    before: tuple[datetime, str] | None,
    limit: int,
    sort: SessionSort = "created",
    parent_id: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> tuple[list[Session], bool]:
    """Sessions, newest or last changed first, filtered by status, by text in title or task, by parent, by values of
    metadata as texts, and by a place in that order; sub-agents only if their parent is given. Large tasks, answers and
    outputs make a page smaller than `limit`; the second value says whether there are more."""
    of_parent = sessions.c.kind == SessionKind.SESSION if parent_id is None else sessions.c.parent_id == parent_id
    query = streamed(select(*_SHOWN)).where(of_parent)
    if status is not None:
        query = query.where(_NEEDS_ATTENTION if status == "needs_attention" else sessions.c.status == status)
    if q:
        query = query.where(
            or_(sessions.c.title.icontains(q, autoescape=True), sessions.c.task.icontains(q, autoescape=True))
        )
    for key, value in (metadata or {}).items():
        as_text = orjson.dumps(value).decode()
        query = query.where(json_member(sessions.c.metadata, key).in_([as_text, value]))
    by = sessions.c.created_at if sort == "created" else sessions.c.updated_at
    if before is not None:
        before_at = bindparam("before_at", before[0], type_=by.type)
        query = query.where(tuple_(by, sessions.c.id) < tuple_(before_at, before[1]))
    rows: list[Row[Any]] = []
    chars, more = 0, False
    query = query.order_by(by.desc(), sessions.c.id.desc())
    with connection.execute(query.limit(limit + 1)) as found:
        for row in found:
            chars += len(row.task or "") + len(row.answer or "") + len(orjson.dumps(row.output))
            if more := bool(rows) and (len(rows) == limit or chars > PAGE_CHARS):
                break
            rows.append(row)
    pending = queue.counts(connection, [row.id for row in rows])
    at_work = activities(connection, rows)
    return [view(row, pending.get(row.id, 0), at_work.get(row.id)) for row in rows], more


def sandboxes(connection: Connection, session_ids: Collection[str]) -> dict[str, SandboxSpec]:
    """The sandbox of each of these sessions."""
    query = select(sessions.c.id, sessions.c.sandbox).where(sessions.c.id.in_(session_ids))
    return {row.id: SandboxSpec(**row.sandbox) for row in connection.execute(query)}


def ids(connection: Connection, *, status: Status | None = None) -> Sequence[str]:
    """Ids of all sessions, or of those with a status."""
    query = select(sessions.c.id)
    if status is not None:
        query = query.where(sessions.c.status == status)
    return connection.execute(query).scalars().all()


class StoredOutput(NamedTuple):
    """A raw output in a file: its call and its key."""

    session_id: str
    call_id: str
    key: str


_IDLE = and_(sessions.c.status == Status.IDLE, sessions.c.compaction_in_progress.is_(False))


def old_outputs(connection: Connection, before: datetime, limit: int) -> list[StoredOutput]:
    """Raw outputs of calls that were made before a time."""
    part = message_parts.c
    query = (
        select(part.session_id, part.call_id, part.output_ref)
        .join(sessions, sessions.c.id == part.session_id)
        .join(messages, and_(messages.c.session_id == part.session_id, messages.c.id == part.message_id))
        .where(part.output_ref.is_not(None), part.output_swept_at.is_(None), messages.c.created_at < before, _IDLE)
    )
    return [StoredOutput(*row) for row in connection.execute(query.limit(limit))]


_PART = message_parts.c
_OUTPUTS = (
    select(_PART.session_id, _PART.call_id, _PART.output_ref)
    .join(messages, and_(messages.c.session_id == _PART.session_id, messages.c.id == _PART.message_id))
    .where(_PART.session_id == bindparam("sid"), _PART.output_ref.is_not(None), _PART.output_swept_at.is_(None))
    .order_by(messages.c.seq, _PART.index)
)


def outputs_of(connection: Connection, session_id: str) -> list[StoredOutput]:
    """Raw outputs of one session, oldest first."""
    return [StoredOutput(*row) for row in connection.execute(_OUTPUTS, {"sid": session_id})]


def mark_swept(connection: Connection, outputs: Collection[StoredOutput], at: datetime) -> list[str]:
    """Marks outputs as removed, except those whose session has started running; returns their keys."""
    ids = {output.session_id for output in outputs}
    for session_id in sorted(ids):
        lock_session(connection, session_id)
    idle = set(connection.execute(select(sessions.c.id).where(sessions.c.id.in_(ids), _IDLE)).scalars())
    return mark_removed(connection, [output for output in outputs if output.session_id in idle], at)


def mark_removed(connection: Connection, outputs: Collection[StoredOutput], at: datetime) -> list[str]:
    """Marks outputs as removed, unless another node has done so first; returns their keys."""
    for output in outputs:
        connection.execute(
            update(message_parts)
            .where(
                message_parts.c.session_id == output.session_id,
                message_parts.c.call_id == output.call_id,
                message_parts.c.output_ref.is_not(None),
                message_parts.c.output_swept_at.is_(None),
            )
            .values(output_swept_at=at)
        )
    return [output.key for output in outputs]


def swept_since(connection: Connection, since: datetime) -> Sequence[str]:
    """The keys of outputs that were marked as removed since a time."""
    part = message_parts.c
    query = select(part.output_ref).where(part.output_swept_at >= since, part.output_ref.is_not(None))
    return [ref for ref in connection.execute(query).scalars() if ref is not None]


_UNDELIVERED = (
    select(webhooks.c.id)
    .select_from(webhooks)
    .outerjoin(
        webhook_cursors,
        (webhook_cursors.c.webhook_id == webhooks.c.id) & (webhook_cursors.c.session_id == sessions.c.id),
    )
    .where(
        webhooks.c.status == ACTIVE,
        or_(webhooks.c.session_id.is_(None), webhooks.c.session_id == sessions.c.id),
        func.coalesce(webhook_cursors.c.seq, 0) < sessions.c.last_seq,
    )
    .correlate(sessions)
    .exists()
)
_OLD = and_(_IDLE, ~_UNDELIVERED)


def old_sessions(connection: Connection, before: datetime, limit: int) -> Sequence[str]:
    """Idle sessions without activity since a time, oldest first; not those with events that a webhook still gets, which
    are deleted with them. Sub-agents go with their parents."""
    query = select(sessions.c.id).where(_OLD, sessions.c.updated_at < before, sessions.c.kind == SessionKind.SESSION)
    query = query.order_by(sessions.c.updated_at)
    return connection.execute(query.limit(limit)).scalars().all()


def is_old(connection: Connection, session_id: str, before: datetime) -> bool:
    """Whether a session may still be removed."""
    query = select(sessions.c.id).where(_OLD, sessions.c.id == session_id, sessions.c.updated_at < before)
    return connection.execute(query).first() is not None
