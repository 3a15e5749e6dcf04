"""Delivers to all webhooks: notices what is due, and runs an endpoint for each webhook that this server delivers to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

import structlog
from sqlalchemy import Connection

from app.db.repositories import deliveries, webhooks
from app.db.repositories.webhooks import StoredWebhook
from app.errors import PalimpsestError
from app.eventlog.log import StreamItem
from app.messages import now
from app.runtime.background import in_background
from app.runtime.destinations import Destinations
from app.runtime.setup import RuntimeSetup
from app.runtime.webhooks.endpoint import Counts, Delivering, Endpoint
from app.runtime.webhooks.results import ATTEMPT_S

if TYPE_CHECKING:
    from app.runtime.webhooks.sending import Sender

ALONE_S, SHARED_S = 30.0, 1.0
"""Seconds between looks at the database: on its own a server is notified of whatever is due, in a cluster other nodes
write too."""

BACKLOG_S = 60.0
"""Seconds between looks at all sessions, which also find what a notification was lost for. Cursors of sessions without
events for a webhook are then moved."""

OVERLAP = timedelta(seconds=10)
"""How far back a look for changed sessions reaches: clocks of nodes differ, and a transaction takes time."""

log = structlog.get_logger(__name__)


class Leases(Protocol):
    """Which webhooks this node of a cluster delivers to."""

    async def held(self, webhook_ids: Sequence[str]) -> frozenset[str]:
        """Those that this node holds now. Raises `StorageError` and `SupersededError`."""
        ...

    def are_valid(self) -> bool:
        """Whether no other node can have taken over yet."""
        ...

    async def release(self) -> None:
        """Leaves all of them to other nodes."""
        ...


class Deliverer:
    """Delivers while it is `running`. With `leases`, other nodes of a cluster deliver too. `attempt_s` are the seconds
    that one attempt may take."""

    def __init__(
        self,
        setup: RuntimeSetup,
        destinations: Destinations,
        leases: Leases | None = None,
        clock: Callable[[], datetime] = now,
        attempt_s: float = ATTEMPT_S,
    ) -> None:
        self.counts = Counts()
        self._setup = setup
        self._leases = leases
        self._clock = clock
        self._attempt_s = attempt_s
        self._destinations = destinations
        self._sender: Sender | None = None
        self._endpoints: dict[str, Endpoint] = {}
        self._wake = asyncio.Event()
        self._since = clock()
        self._heads: dict[str, int] = {}
        """The sessions of the last look at what changed, with the seqs of their newest events."""
        self._backlog_due = 0.0
        self._ended = False
        self._failing = False

    def changed(self) -> None:
        """Polls the database soon: webhooks were changed, or something is due."""
        self._wake.set()

    def end(self) -> None:
        """Delivers no more, since another server has taken over."""
        self._ended = True
        self._wake.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Delivers while the context lasts."""
        self._setup.bus.watchers.append(self._saw)
        try:
            async with in_background(self._run(), "webhooks"):
                yield
        finally:
            self._setup.bus.watchers.remove(self._saw)
            await self._close()

    async def _close(self) -> None:
        for endpoint in self._endpoints.values():
            await endpoint.aclose()
        with suppress(PalimpsestError):
            await self._move_cursors()
            if self._leases is not None and not self._ended:
                await self._leases.release()
        self._endpoints.clear()
        if self._sender is not None:
            await self._sender.aclose()
        self._destinations.close()

    def _saw(self, session_id: str, items: Sequence[StreamItem]) -> None:
        """Events of a session were committed here."""
        if self._endpoints:
            types = frozenset(item.type for item in items)
            for endpoint in self._endpoints.values():
                if endpoint.wants(session_id, types):
                    endpoint.offer(session_id)

    async def _run(self) -> None:
        while not self._ended:
            self._wake.clear()
            try:
                await self._look()
                self._failing = False
            except PalimpsestError as error:
                if not self._failing:
                    log.warning("webhooks_not_read", reason=error.detail)
                self._failing = True
            except Exception:
                log.exception("webhooks_crashed")
            with suppress(TimeoutError):
                async with asyncio.timeout(ALONE_S if self._leases is None and not self._failing else SHARED_S):
                    await self._wake.wait()
        for endpoint in self._endpoints.values():
            await endpoint.aclose()
        self._endpoints.clear()

    async def _look(self) -> None:
        """One look at the database. Raises `StorageError`."""
        found = await self._setup.database.read(webhooks.to_deliver)
        held = await self._held(found)
        await self._adjust([webhook for webhook in found if webhook.id in held])
        if not self._endpoints:
            return
        loop = asyncio.get_running_loop()
        if loop.time() >= self._backlog_due:
            self._backlog_due = loop.time() + BACKLOG_S
            for endpoint in self._endpoints.values():
                await self._offer_backlog(endpoint)
        if self._leases is not None:
            await self._offer_changed()
        for webhook_id, lane in await self._setup.database.read(lambda c: deliveries.due(c, self._clock())):
            if webhook_id in self._endpoints:
                self._endpoints[webhook_id].offer(lane, now=True)
        await self._move_cursors()

    async def _held(self, found: Sequence[StoredWebhook]) -> frozenset[str]:
        ids = [webhook.id for webhook in found]
        return frozenset(ids) if self._leases is None or not ids else await self._leases.held(ids)

    async def _adjust(self, mine: Sequence[StoredWebhook]) -> None:
        """Ends and starts endpoints, so that there is one for each of these webhooks."""
        ids = {webhook.id for webhook in mine}
        for gone in self._endpoints.keys() - ids:
            await self._endpoints.pop(gone).aclose()
        for webhook in mine:
            endpoint = self._endpoints.get(webhook.id)
            if endpoint is None:
                endpoint = self._endpoints[webhook.id] = Endpoint(webhook, await self._shared())
                await self._offer_backlog(endpoint)
            elif endpoint.webhook != webhook:
                endpoint.change(webhook)
                await self._offer_backlog(endpoint)

    async def _shared(self) -> Delivering:
        if self._sender is None:
            # Only a server with webhooks needs the client.
            from app.runtime.webhooks.sending import Sender

            self._sender = await Sender.open(self._destinations, self._attempt_s)
        return Delivering(self._setup, self._sender.send, self._clock, self._holds, self.counts)

    def _holds(self) -> bool:
        return not self._ended and (self._leases is None or self._leases.are_valid())

    async def _offer_backlog(self, endpoint: Endpoint) -> None:
        webhook = endpoint.webhook
        for session_id in await self._setup.database.read(lambda c: deliveries.backlog(c, webhook)):
            endpoint.offer(session_id)

    async def _offer_changed(self) -> None:
        at, since = self._clock(), self._since - OVERLAP
        before, self._heads = self._heads, await self._setup.database.read(lambda c: deliveries.changed(c, since))
        self._since = at
        for session_id in [id_ for id_, seq in self._heads.items() if seq != before.get(id_)]:
            for endpoint in self._endpoints.values():
                if endpoint.webhook.session_id in (None, session_id):
                    endpoint.offer(session_id)

    async def _move_cursors(self) -> None:
        for webhook_id, endpoint in self._endpoints.items():
            if skipped := endpoint.take_skipped():
                await self._advance(webhook_id, skipped)

    async def _advance(self, webhook_id: str, skipped: dict[str, int]) -> None:
        def write(connection: Connection) -> None:
            self._setup.fence(connection)
            deliveries.skip(connection, webhook_id, skipped)

        await self._setup.database.writer.write(write)
