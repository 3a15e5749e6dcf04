"""This node's row in the list of nodes, and what the list says of the others."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import structlog
from sqlalchemy import Connection

from app import __version__
from app.db.engine import Database
from app.db.repositories import nodes
from app.db.repositories.nodes import ListedNode, StoredNode
from app.errors import PalimpsestError
from app.messages import now
from app.runtime.background import in_background

SEEN_S = 2.0
"""Seconds between two writes of a node's row; several fit into the time after which it counts as lost."""

LEAVE_S = 2.0
"""How long removing the row may take at the end; a row that stays is removed by others."""

log = structlog.get_logger(__name__)


class Membership:
    """Keeps the row of the node `node_id`. `slots` is 0 for a node without a worker; others reach it at `address`."""

    def __init__(
        self,
        database: Database,
        node_id: str,
        role: str,
        slots: int,
        draining: Callable[[], bool],
        address: str | None = None,
    ) -> None:
        self._database = database
        self._draining = draining
        started = now()
        name = socket.gethostname()
        self._node = StoredNode(node_id, name, role, __version__, slots, False, started, started, address)
        self._listed: list[ListedNode] | None = None

    @property
    def alive(self) -> int:
        """Number of nodes that were not lost when last read."""
        return sum(not each.lost for each in self._listed or ())

    @property
    def slots(self) -> int | None:
        """Sessions that all workers together run at the same time, as last read; None if unknown."""
        if self._listed is None:
            return None
        return sum(each.node.slots for each in self._listed if not each.lost and not each.node.draining)

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Keeps the row while the context lasts."""
        try:
            async with in_background(self._keep(), "membership"):
                yield
        finally:
            try:
                async with asyncio.timeout(LEAVE_S):
                    await self._database.writer.write(lambda c: nodes.leave(c, self._node.id))
            except (PalimpsestError, TimeoutError) as error:
                log.debug("node_not_removed", reason=str(error))

    async def _keep(self) -> None:
        failing = False
        while True:
            try:
                await self.refresh()
                failing = False
            except PalimpsestError as error:
                if not failing:
                    log.warning("node_not_seen", reason=error.detail)
                failing = True
            await asyncio.sleep(SEEN_S)

    async def refresh(self) -> None:
        """Writes the row and reads the others. Raises `StorageError`."""
        node = self._node._replace(draining=self._draining())

        def see(connection: Connection) -> Sequence[ListedNode]:
            nodes.see(connection, node)
            return nodes.listed(connection)

        self._listed = list(await self._database.writer.write(see))
