"""Delivers to one webhook: sessions in parallel, the events of each one by one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import structlog
from sqlalchemy import Connection

from app.db.repositories import deliveries, webhooks
from app.db.repositories.deliveries import Lane, Next
from app.db.repositories.webhooks import DELIVERED, PENDING, StoredDelivery, StoredWebhook
from app.errors import NotFoundError, PalimpsestError, SupersededError
from app.runtime.setup import RuntimeSetup
from app.runtime.webhooks.filter import types_of
from app.runtime.webhooks.results import Attempt, after_attempt
from app.runtime.webhooks.sealing import is_sealed, opened, sealed
from app.runtime.webhooks.signing import body, delivery_id, headers

MOST_AT_ONCE = 4
"""Attempts of a webhook at the same time, each of another session: a slow receiver delays only its own events."""

TURN = 20
"""Deliveries of a session after which another one that waits has its turn."""

TRIMMED_AFTER = 100
"""Deliveries after which the list of a webhook is trimmed."""

OTHER_KEY = "Its secret was encrypted with another PALIMPSEST_SECRET_KEY. Create it again, or restore the key."
STORAGE_S = 2.0
"""Seconds to wait after the database refused something."""

Send = Callable[[str, Mapping[str, str], bytes], Awaitable[Attempt]]
log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Counts:
    """What this server has sent, for the metrics."""

    delivered: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Delivering:
    """What all endpoints share. `holds` is whether this server still delivers."""

    setup: RuntimeSetup
    send: Send
    clock: Callable[[], datetime]
    holds: Callable[[], bool]
    counts: Counts


class Endpoint:
    """The deliveries of one webhook. What is due is offered by lane; what to send is then read from the database, which
    alone knows what was delivered."""

    def __init__(self, webhook: StoredWebhook, shared: Delivering) -> None:
        self._shared = shared
        self.change(webhook)
        self._ready: dict[Lane, None] = {}
        self._tasks: dict[Lane, asyncio.Task[None]] = {}
        self._again: set[Lane] = set()
        self._timers: dict[Lane, asyncio.TimerHandle] = {}
        self._skipped: dict[str, int] = {}
        """By session, up to which event nothing is left for the webhook, if its cursor is not there yet."""
        self._finished = 0
        self._closing = False
        self._random = random.Random()  # noqa: S311 - spreads attempts

    def change(self, webhook: StoredWebhook) -> None:
        """Takes over a webhook that was changed."""
        self.webhook = webhook
        self._types = types_of(webhook.events)

    def wants(self, session_id: str, types: frozenset[str]) -> bool:
        """Whether any events of a session, with these types, are for this webhook."""
        return self.webhook.session_id in (None, session_id) and not types.isdisjoint(self._types)

    def offer(self, lane: Lane, *, now: bool = False) -> None:
        """There may be something to deliver in a lane. It is looked at soon; if it waits for a retry, after that or
        `now`."""
        if self._closing or (lane in self._timers and not now):
            return
        if (timer := self._timers.pop(lane, None)) is not None:
            timer.cancel()
        if lane in self._tasks:
            self._again.add(lane)
        else:
            self._ready[lane] = None
            self._start()

    def take_skipped(self) -> dict[str, int]:
        """Where the cursors should be moved to, since the events before are not for this webhook."""
        taken, self._skipped = self._skipped, {}
        return taken

    async def aclose(self) -> None:
        """Ends all attempts; those that had no response yet are repeated by whoever delivers next."""
        self._closing = True
        for timer in self._timers.values():
            timer.cancel()
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _start(self) -> None:
        while self._ready and len(self._tasks) < MOST_AT_ONCE and not self._closing:
            lane = next(iter(self._ready))
            del self._ready[lane]
            task = asyncio.create_task(self._work(lane), name=f"webhook {self.webhook.id}")
            self._tasks[lane] = task
            task.add_done_callback(partial(self._ended, lane))

    def _ended(self, lane: Lane, _: asyncio.Task[None]) -> None:
        del self._tasks[lane]
        if lane in self._again:
            self._again.discard(lane)
            self.offer(lane)
        self._start()

    def _later(self, lane: Lane, seconds: float) -> None:
        if not self._closing:
            loop = asyncio.get_running_loop()
            self._timers[lane] = loop.call_later(max(seconds, 0.0), partial(self.offer, lane, now=True))

    async def _work(self, lane: Lane) -> None:
        """A turn of a lane; what fails in it is tried again."""
        try:
            await self._take_turn(lane)
        except (NotFoundError, SupersededError):
            pass  # The webhook was deleted, or another server delivers now.
        except PalimpsestError as error:
            log.warning("webhook_not_delivered", webhook_id=self.webhook.id, reason=error.detail)
            self._later(lane, STORAGE_S)
        except Exception:
            log.exception("webhook_crashed", webhook_id=self.webhook.id)
            self._later(lane, STORAGE_S)

    async def _take_turn(self, lane: Lane) -> None:
        for _ in range(TURN):
            found = await self._shared.setup.database.read(partial(self._look, lane))
            if found.wait_until is not None:
                self._later(lane, (found.wait_until - self._shared.clock()).total_seconds())
                return
            if found.data is None:
                if lane is not None and found.scanned:
                    self._skipped[lane] = found.scanned
                return
            if not self._shared.holds():
                self._later(lane, STORAGE_S)
                return
            if not await self._deliver(lane, found):
                return
        self._again.add(lane)

    def _look(self, lane: Lane, connection: Connection) -> Next:
        """Reads the webhook again, since it may have been changed."""
        webhook = webhooks.find(connection, self.webhook.id)
        skipped = self._skipped.get(lane, 0) if lane is not None else 0
        return deliveries.find_next(connection, webhook, lane, types_of(webhook.events), skipped, self._shared.clock())

    async def _deliver(self, lane: Lane, found: Next) -> bool:
        """One attempt; whether the next event may follow now."""
        assert found.data is not None
        before, webhook = found.stored or self._new(lane, found), found.webhook
        content = body(found.type, found.seq, found.data)
        if (secret := await self._secret(webhook)) is None:
            return False
        at = int(self._shared.clock().timestamp())
        signed = headers(secret, before.id, at, content, found.traceparent)
        attempt = await self._shared.send(webhook.url, signed, content)
        done, reason = after_attempt(before, attempt, self._shared.clock(), self._random.random())
        if not await self._store(lane, done, reason):
            # The webhook or the session is gone; or this node has lost the webhook, which may come back to it.
            self._later(lane, STORAGE_S)
            return False
        self._count(done, reason)
        if done.status == PENDING:
            assert done.next_attempt_at is not None
            self._later(lane, (done.next_attempt_at - self._shared.clock()).total_seconds())
        elif self._finished % TRIMMED_AFTER == 0:
            await self._shared.setup.database.writer.write(lambda c: deliveries.trim(c, webhook.id))
        return done.status != PENDING and reason is None

    async def _secret(self, webhook: StoredWebhook) -> str | None:
        """The webhook's secret, which is encrypted now if an earlier server stored it unencrypted. None if this server
        has another key: then the webhook is disabled."""
        setup = self._shared.setup
        secret = await opened(setup.vault, webhook.id, webhook.secret)
        if secret is None:
            log.error("webhook_disabled", webhook_id=webhook.id, reason=OTHER_KEY)
            at = self._shared.clock()
            await self._write(lambda c: webhooks.disable(c, webhook.id, OTHER_KEY, at))
        elif not is_sealed(webhook.secret) and setup.vault.has_key:
            text = await sealed(setup.vault, webhook.id, secret)
            await self._write(lambda c: webhooks.seal(c, webhook.id, webhook.secret, text))
        return secret

    async def _write(self, work: Callable[[Connection], None]) -> None:
        setup = self._shared.setup

        def fenced(connection: Connection) -> None:
            setup.fence(connection)
            work(connection)

        await setup.database.writer.write(fenced)

    def _new(self, lane: Lane, found: Next) -> StoredDelivery:
        assert lane is not None
        assert found.seq is not None
        at = self._shared.clock()
        key = delivery_id(self.webhook.id, lane, found.seq)
        return StoredDelivery.first(key, self.webhook.id, found.type, at, session_id=lane, seq=found.seq)

    async def _store(self, lane: Lane, done: StoredDelivery, reason: str | None) -> bool:
        setup = self._shared.setup

        def write(connection: Connection) -> bool:
            setup.fence(connection)
            return deliveries.record(connection, done, reason, setup.node)

        # In the session's order, so that it is not deleted at the same time.
        return await setup.database.writer.write(write, session_id=lane)

    def _count(self, done: StoredDelivery, reason: str | None) -> None:
        if done.status == DELIVERED:
            self._shared.counts.delivered += 1
        else:
            self._shared.counts.failed += 1
        self._finished += done.status != PENDING
        if reason is not None:
            log.warning("webhook_disabled", webhook_id=self.webhook.id, reason=reason)
