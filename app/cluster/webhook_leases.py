"""Which webhooks this node of a cluster delivers to: one node has each, as long as it renews its lease."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import Connection

from app.db.repositories import webhooks
from app.runtime.setup import RuntimeSetup

LASTS = timedelta(seconds=10)
"""After the last renewal, how long other nodes wait before they take over."""

RENEWED_S = 2.0
"""Seconds between two renewals, and between two looks for webhooks that no node has."""

MARGIN_S = 2.0
"""A node delivers no more this long before its leases end, so that a request that it sends then has begun before
another node may take over."""


class WebhookLeases:
    """The leases of the node that `setup` is of."""

    def __init__(self, setup: RuntimeSetup) -> None:
        assert setup.node is not None
        self._setup = setup
        self._node = setup.node
        self._held: frozenset[str] = frozenset()
        self._next = self._valid_until = 0.0

    async def held(self, webhook_ids: Sequence[str]) -> frozenset[str]:
        """Those of these webhooks that this node holds now. Raises `StorageError` and `SupersededError`."""
        began = time.monotonic()
        if began >= self._next:
            self._held = await self._setup.database.writer.write(self._renew)
            self._next = began + RENEWED_S
            self._valid_until = began + LASTS.total_seconds() - MARGIN_S
        return self._held.intersection(webhook_ids)

    def _renew(self, connection: Connection) -> frozenset[str]:
        self._setup.fence(connection)
        return webhooks.lease(connection, self._node, LASTS)

    def are_valid(self) -> bool:
        """Whether no other node can have taken over yet."""
        return time.monotonic() < self._valid_until

    async def release(self) -> None:
        """Leaves all of them to other nodes."""
        self._valid_until = 0.0
        await self._setup.database.writer.write(lambda c: webhooks.release(c, self._node))
