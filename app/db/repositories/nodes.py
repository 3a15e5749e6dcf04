"""The nodes of a cluster: each writes its row regularly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, func, select

from app.db.dialects import database_time, upsert
from app.db.models import nodes, sessions
from app.db.prepared import Prepared

LOST = timedelta(seconds=10)
"""A node that has not been seen for this long is lost: it has died, is frozen, or cannot reach the database."""

KEPT = timedelta(hours=1)
"""How long a lost node is listed."""


class StoredNode(NamedTuple):
    """A node as it describes itself; `seen_at` is by the database's clock. At `address`, HOST:PORT, others reach it."""

    id: str
    name: str
    role: str
    version: str
    slots: int
    draining: bool
    started_at: datetime
    seen_at: datetime
    address: str | None = None


class NodeAddress(NamedTuple):
    """The node that owns a session, where it is reached, and the epoch of its claim."""

    id: str
    address: str
    epoch: int


class ListedNode(NamedTuple):
    """A node, whether it is lost, and how many sessions it owns."""

    node: StoredNode
    lost: bool
    sessions: int


_SEEN = Prepared(
    upsert(nodes, key=("id",), changed=lambda new: {name: new[name] for name in ("slots", "draining", "seen_at")})
)
_LONG_LOST = Prepared(delete(nodes).where(nodes.c.seen_at < bindparam("before")))
_OF = delete(nodes).where(nodes.c.id == bindparam("node"))


def see(connection: Connection, node: StoredNode) -> None:
    """Stores that a node works, and removes those that have long been lost. `seen_at` of `node` is not used."""
    at = database_time(connection)
    _LONG_LOST.run(connection, {"before": at - KEPT})
    _SEEN.run(connection, {**node._asdict(), "seen_at": at})


def leave(connection: Connection, node_id: str) -> None:
    """Removes a node that ends."""
    connection.execute(_OF, {"node": node_id})


_ALL = Prepared(select(nodes).order_by(nodes.c.name, nodes.c.started_at, nodes.c.id))
_IS_OWNED = sessions.c.owner.is_not(None)
_OWNED = Prepared(select(sessions.c.owner, func.count().label("owned")).where(_IS_OWNED).group_by(sessions.c.owner))


def listed(connection: Connection) -> Sequence[ListedNode]:
    """All nodes, by name."""
    lost_before = database_time(connection) - LOST
    owned: Mapping[str, int] = {row.owner: row.owned for row in _OWNED.all(connection, {})}
    found = [StoredNode._make(row) for row in _ALL.all(connection, {})]
    return [ListedNode(node, node.seen_at < lost_before, owned.get(node.id, 0)) for node in found]


_OWNER = (
    select(nodes.c.id, nodes.c.address, sessions.c.epoch)
    .join(sessions, sessions.c.owner == nodes.c.id)
    .where(sessions.c.id == bindparam("session"), nodes.c.address.is_not(None), nodes.c.seen_at >= bindparam("since"))
)


def address_of_owner(connection: Connection, session_id: str) -> NodeAddress | None:
    """The node that owns a session; None if none does, it is lost, or it cannot be reached by others."""
    parameters = {"session": session_id, "since": database_time(connection) - LOST}
    row = connection.execute(_OWNER, parameters).one_or_none()
    return None if row is None else NodeAddress(*row)
