"""Which node of a cluster owns a session, and what the others leave in the session's row for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, bindparam, exists, func, or_, select, update

from app.db.models import sessions
from app.db.prepared import Prepared
from app.messages import now
from app.sessions import SessionKind, Status

BAR_LASTS = timedelta(seconds=20)
"""How long a session stays barred from owners after the process that barred it has renewed that for the last time. It
renews it twice a second; the rest is for clocks of machines that differ."""

_OF_SESSION = update(sessions).where(sessions.c.id == bindparam("sid"))
_HAS_WORK = or_(sessions.c.status != Status.IDLE, sessions.c.compaction_in_progress.is_(True))


class RowVersion(NamedTuple):
    """What an owner compares to notice that others have changed its session."""

    epoch: int
    nudges: int


class Bar(NamedTuple):
    """What keeps owners from a session: the operation, and when it renewed that."""

    operation: str
    at: datetime


_NUDGE = Prepared(_OF_SESSION.values(nudges=sessions.c.nudges + 1))


def nudge(connection: Connection, session_id: str) -> None:
    """Marks a session as changed, for its owner."""
    _NUDGE.run(connection, {"sid": session_id})


_VERSIONS = select(sessions.c.id, sessions.c.epoch, sessions.c.nudges).where(
    sessions.c.id.in_(bindparam("ids", expanding=True))
)


def versions(connection: Connection, session_ids: Collection[str]) -> Mapping[str, RowVersion]:
    """By session, without those that are gone."""
    rows = connection.execute(_VERSIONS, {"ids": list(session_ids)})
    return {row.id: RowVersion(row.epoch, row.nudges) for row in rows}


def is_barred(row: Row[Any], at: datetime) -> bool:
    """Whether a session may have no owner at this time."""
    return row.barred_at is not None and row.barred_at > at - BAR_LASTS


def has_work(row: Row[Any]) -> bool:
    """Whether a session needs an owner."""
    return row.status != Status.IDLE or bool(row.compaction_in_progress)


_RELEASE = _OF_SESSION.where(sessions.c.owner == bindparam("node")).values(owner=None).returning(sessions)


def release(connection: Connection, session_id: str, node: str | None) -> Row[Any] | None:
    """Ends a node's claim; returns the session's row, None if the node no longer owns it or it is gone."""
    return connection.execute(_RELEASE, {"sid": session_id, "node": node}).first()


_OWNER = Prepared(select(sessions.c.owner).where(sessions.c.id == bindparam("sid")))


def owner_of(connection: Connection, session_id: str) -> str | None:
    """The node that owns a session; None without one."""
    owner: str | None = _OWNER.value(connection, {"sid": session_id})
    return owner


def bar(connection: Connection, row: Row[Any], operation: str, dead: Bar | None = None) -> Bar | None:
    """Keeps new owners from the session of this row and asks its current one to leave. Returns the bar of another
    operation that prevents this, unless that is the `dead` one; None if the session is barred now."""
    at = now()
    if is_barred(row, at) and row.barred_by != operation:
        found = Bar(row.barred_by, row.barred_at)
        if found != dead:
            return found
    values = {"barred_by": operation, "barred_at": at, "nudges": row.nudges + 1}
    connection.execute(_OF_SESSION.values(values), {"sid": row.id})
    return None


_RENEW = _OF_SESSION.where(sessions.c.barred_by == bindparam("operation")).returning(sessions.c.id)


def renew_bar(connection: Connection, session_id: str, operation: str) -> bool:
    """Keeps an operation's bar; returns False if the operation has it no longer, or the session is gone."""
    renewed = _RENEW.values(barred_at=now())
    return connection.execute(renewed, {"sid": session_id, "operation": operation}).first() is not None


_UNBAR = _OF_SESSION.where(sessions.c.barred_by == bindparam("operation")).values(barred_by=None, barred_at=None)


def unbar(connection: Connection, session_id: str, operation: str) -> None:
    """Lets a session have owners again."""
    connection.execute(_UNBAR, {"sid": session_id, "operation": operation})


_TAKE_OVER = _OF_SESSION.values(epoch=sessions.c.epoch + 1, owner=None)


def take_over(connection: Connection, session_id: str) -> None:
    """Fences off an owner that does not leave."""
    connection.execute(_TAKE_OVER, {"sid": session_id})


_FREE_IDLE = _OF_SESSION.where(sessions.c.owner == bindparam("former"), ~_HAS_WORK).values(
    epoch=sessions.c.epoch + 1, owner=None
)


def free_idle(connection: Connection, session_id: str, former: str) -> None:
    """Ends the claim of a node that is gone, and fences that node off, if the session has no work for another one."""
    connection.execute(_FREE_IDLE, {"sid": session_id, "former": former})


_parents = sessions.alias("parents")
_WORKS_FOR_ANOTHER = exists(
    select(1).where(
        sessions.c.kind == SessionKind.SUBAGENT,
        _parents.c.id == sessions.c.parent_id,
        or_(_parents.c.status != Status.IDLE, _parents.c.owner.is_not(None)),
    )
)


def works_for_another(connection: Connection, session_id: str) -> bool:
    """Whether it is a sub-agent of a session that has an owner, or gets one, which owns the sub-agent too."""
    query = select(1).where(sessions.c.id == session_id, _WORKS_FOR_ANOTHER)
    return connection.execute(query).first() is not None


def with_work(connection: Connection, quiet_since: datetime | None, limit: int) -> Sequence[str]:
    """Ids of sessions that the engine has to find an owner for, oldest change first; only those without a change since
    a time, if one is given: their owner may be gone."""
    query = select(sessions.c.id).where(_HAS_WORK, ~_WORKS_FOR_ANOTHER).order_by(sessions.c.updated_at).limit(limit)
    if quiet_since is not None:
        query = query.where(sessions.c.updated_at < quiet_since)
    return connection.execute(query).scalars().all()


_RUNS_OF = select(func.count()).where(sessions.c.status != Status.IDLE, sessions.c.kind == SessionKind.SESSION)


def runs_of(connection: Connection, key: str | None) -> int:
    """Number of active and waiting runs that a key's requests have started; sub-agents are part of their parents'."""
    return connection.execute(_RUNS_OF.where(sessions.c.run_key.is_not_distinct_from(key))).scalar_one()


_RUNNING = Prepared(select(func.count()).where(sessions.c.status == Status.RUNNING))


def running(connection: Connection) -> int:
    """Number of runs that have a slot or wait for one."""
    return int(_RUNNING.value(connection, {}))


_WAITING = Prepared(select(func.count()).where(sessions.c.status == Status.RUNNING, sessions.c.owner.is_(None)))


def waiting(connection: Connection) -> int:
    """Number of sessions that should run and have no owner yet."""
    return int(_WAITING.value(connection, {}))
