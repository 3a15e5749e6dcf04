"""The repositories with checkpoints that nodes share: which snapshot of each is the newest, whether its newest look has
seen the workspace as it is, and what is being restored."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from app.db.dialects import upsert
from app.db.models import checkpoint_repositories as repositories
from app.db.models import checkpoints


class StoredRepository(NamedTuple):
    """A row; see the table."""

    session_id: str
    version: int = 0
    snapshot_id: str | None = None
    uses: int = 0
    seen_uses: int | None = None
    restoring: str | None = None

    @property
    def is_seen(self) -> bool:
        """Whether nothing was opened for changes since the newest look."""
        return self.seen_uses == self.uses


_OF_SESSION = repositories.c.session_id == bindparam("sid")
_FIND = select(repositories).where(_OF_SESSION)
_USE = upsert(repositories, key=("session_id",), changed=lambda _: {"uses": repositories.c.uses + 1})


def find(connection: Connection, session_id: str) -> StoredRepository:
    """The row of a session; without one, the values that a new row has."""
    row = connection.execute(_FIND, {"sid": session_id}).first()
    return StoredRepository(session_id) if row is None else StoredRepository(*row)


def use(connection: Connection, session_id: str) -> None:
    """The workspace is opened for changes, which the newest look has not seen."""
    connection.execute(_USE, StoredRepository(session_id, uses=1)._asdict())


def record(connection: Connection, known: StoredRepository, snapshot_id: str | None, seen_uses: int | None) -> bool:
    """Makes a snapshot the newest one; False if another one was recorded since the row was `known`."""
    raised = known.version + (snapshot_id != known.snapshot_id)
    change = (
        update(repositories)
        .where(_OF_SESSION, repositories.c.version == known.version)
        .values(version=raised, snapshot_id=snapshot_id, seen_uses=seen_uses)
    )
    if connection.execute(change, {"sid": known.session_id}).rowcount:
        return True
    if connection.execute(_FIND, {"sid": known.session_id}).first() is not None or known.version:
        return False
    add(connection, StoredRepository(known.session_id, raised, snapshot_id, 0, seen_uses))
    return True


def add(connection: Connection, row: StoredRepository) -> None:
    connection.execute(insert(repositories), row._asdict())


def restore(connection: Connection, session_id: str, checkpoint_id: str | None) -> None:
    """A restoration begins; None if it is completed."""
    change = update(repositories).where(_OF_SESSION).values(restoring=checkpoint_id)
    connection.execute(change, {"sid": session_id})


def keep_only(connection: Connection, session_id: str, checkpoint_ids: Collection[str]) -> None:
    """Removes the checkpoints of a fork that its repository does not have."""
    others = checkpoints.c.session_id == session_id, checkpoints.c.id.not_in(list(checkpoint_ids))
    connection.execute(delete(checkpoints).where(*others))
