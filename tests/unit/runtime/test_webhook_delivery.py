"""Deliveries from the log of a real database to a real receiver, with a clock that the test sets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_network
from pathlib import Path

import pytest
from sqlalchemy import Connection, update
from standardwebhooks.webhooks import Webhook

from app.cluster.webhook_leases import WebhookLeases
from app.db import models
from app.db.repositories import events, webhooks
from app.messages import now
from app.runtime.destinations import Destinations
from app.runtime.services import WebhookService
from app.runtime.setup import RuntimeSetup
from app.runtime.transactions import queue
from app.runtime.values.queue import QueueAdd
from app.runtime.values.webhooks import WebhookCreate, WebhookCreated, WebhookPatch
from app.runtime.vault import Vault
from app.runtime.webhooks.deliverer import Deliverer
from app.runtime.webhooks.endpoint import MOST_AT_ONCE
from app.runtime.webhooks.results import LAST_RETRY_S
from app.sandbox.host.local import LocalFactory
from tests.receiver import Receiver, receiving
from tests.unit.db.rows import add_session
from tests.unit.runtime.stage import Stage, make_sandboxes, make_setup


@dataclass
class Clock:
    """Real time, and what the test adds to it."""

    ahead: timedelta = field(default_factory=timedelta)

    def __call__(self) -> datetime:
        return now() + self.ahead


@pytest.fixture
def setup(stage: Stage, tmp_path: Path) -> RuntimeSetup:
    return make_setup(stage, make_sandboxes(LocalFactory(tmp_path)))


def loopback() -> Destinations:
    return Destinations([ip_network("127.0.0.0/8")])


def service_of(setup: RuntimeSetup, deliverer: Deliverer) -> WebhookService:
    return WebhookService(setup, loopback(), deliverer.changed)


async def create(service: WebhookService, body: WebhookCreate) -> WebhookCreated:
    made, _ = await service.create(body)
    return made


async def until(receiver: Receiver, done: Callable[[Receiver], bool]) -> None:
    await asyncio.to_thread(receiver.wait, done)


async def becomes(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await check():  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0.01)


async def say(setup: RuntimeSetup, session_id: str, text: str) -> None:
    """Queues a message, whose events are committed and published."""
    await setup.write(session_id, lambda c: queue.enqueue(c, session_id, QueueAdd(content=text), limit=100))


async def test_a_webhook_that_fails_for_three_days_is_disabled_and_continues_when_enabled(
    stage: Stage, setup: RuntimeSetup
) -> None:
    clock = Clock()
    deliverer = Deliverer(setup, loopback(), clock=clock)
    service = service_of(setup, deliverer)
    bad = stage.session_id
    other = await stage.database.writer.write(add_session)
    with receiving(Receiver(answer=lambda r: 500 if r.body["session_id"] == bad else 200)) as receiver:
        async with deliverer.running():
            made = await create(service, WebhookCreate(url=receiver.url))
            await say(setup, bad, "one")
            await until(receiver, lambda r: len(r.requests) == 1)
            await say(setup, other, "two")
            await until(receiver, lambda r: len(r.accepted) >= 1)
            assert {r.body["session_id"] for r in receiver.accepted} == {other}, "others do not wait for what fails"

            async def failing() -> bool:
                return (await service.get(made.id)).failing_since is not None

            await becomes(failing)
            clock.ahead = timedelta(days=3, minutes=1)
            deliverer.changed()

            async def disabled() -> bool:
                return (await service.get(made.id)).status == "disabled"

            await becomes(disabled)
            assert "3 days" in str((await service.get(made.id)).disabled_reason)
            before = len(receiver.requests)
            await say(setup, bad, "three")
            await say(setup, other, "four")
            receiver.answer = lambda _: 200
            await service.patch(made.id, WebhookPatch(status="active"))
            heads = {id_: (await stage.database.read(partial(seq_of, session_id=id_))) for id_ in (bad, other)}
            await until(receiver, lambda r: all(seqs(r, id_)[-1:] == [heads[id_]] for id_ in heads))
            assert all(seqs(receiver, id_) == list(range(1, heads[id_] + 1)) for id_ in heads), "each once, in order"
            assert receiver.requests[before:]
            assert (await service.get(made.id)).failing_since is None


LONGEST_WAIT = timedelta(seconds=2 * LAST_RETRY_S)


async def test_an_outage_loses_nothing_and_keeps_the_order(stage: Stage, setup: RuntimeSetup) -> None:
    """The receiver answers with 500, hangs, answers byte by byte and is away for more than ten minutes."""
    clock = Clock()
    deliverer = Deliverer(setup, loopback(), clock=clock, attempt_s=1)
    service = service_of(setup, deliverer)
    sessions = [stage.session_id, await stage.database.writer.write(add_session)]
    receiver = Receiver(answer=lambda _: 500)
    attempts: dict[str, int] = {}

    async def attempt(error: str) -> None:
        """Waits for an attempt in each session to fail, and then longer than until the next one."""

        async def failed() -> bool:
            page = await service.deliveries(made.id, status="pending", limit=10, cursor=None)
            failures = [each for each in page.items if each.attempts > attempts.get(each.id, 0)]
            if len(failures) < len(sessions) or not all(error in str(each.error) for each in failures):
                return False
            attempts.update({each.id: each.attempts for each in failures})
            return True

        await becomes(failed)
        clock.ahead += LONGEST_WAIT
        deliverer.changed()

    async with deliverer.running():
        with receiving(receiver):
            made = await create(service, WebhookCreate(url=receiver.url))
            for session_id in sessions * 3:
                await say(setup, session_id, "hello")
            await attempt("status 500")
            receiver.answer = lambda _: None
            await attempt("did not answer within 1 seconds")
            receiver.answer, receiver.pause_s = (lambda _: 204), 0.2
            await attempt("did not answer within 1 seconds")
        await attempt("Cannot connect to")
        receiver.accepted.clear()  # nobody read those responses to their ends
        receiver.pause_s = 0
        with receiving(receiver):
            heads = {id_: (await stage.database.read(partial(seq_of, session_id=id_))) for id_ in sessions}
            await until(receiver, lambda r: all(seqs(r, id_)[-1:] == [heads[id_]] for id_ in sessions))
    assert all(seqs(receiver, id_) == list(range(1, heads[id_] + 1)) for id_ in sessions), "each once, in order"
    ids = {(r.body["session_id"], r.seq): r.id for r in receiver.requests}
    assert {r.id for r in receiver.requests} == {*ids.values()}, "an event has the same id at each attempt"
    assert len({*ids.values()}) == sum(heads.values())
    library = Webhook(made.secret)
    for each in receiver.requests:  # its `verify` compares times with the real clock
        at = datetime.fromtimestamp(int(each.headers["webhook-timestamp"]), UTC)
        assert library.sign(each.id, at, each.raw.decode()) == each.headers["webhook-signature"]


def seqs(receiver: Receiver, session_id: str) -> list[int]:
    return [r.seq for r in receiver.accepted if r.body["session_id"] == session_id]


def seq_of(connection: Connection, session_id: str) -> int:
    return events.heads(connection, [session_id])[session_id]


async def test_a_new_url_gets_at_once_what_failed(stage: Stage, setup: RuntimeSetup) -> None:
    deliverer = Deliverer(setup, loopback())
    service = service_of(setup, deliverer)
    with receiving(Receiver(answer=lambda _: 500)) as bad, receiving() as good:
        async with deliverer.running():
            made = await create(service, WebhookCreate(url=bad.url))
            await say(setup, stage.session_id, "one")

            async def failing() -> bool:
                return (await service.get(made.id)).failing_since is not None

            await becomes(failing)
            later = update(models.webhook_deliveries).values(next_attempt_at=now() + timedelta(hours=1))
            await stage.database.writer.write(lambda c: c.execute(later))
            await service.patch(made.id, WebhookPatch(url=good.url))
            await until(good, lambda r: len(r.accepted) >= 1)


async def test_secrets_that_were_stored_as_they_are_get_encrypted(stage: Stage, setup: RuntimeSetup) -> None:
    """A server without a key has made the webhook; then there is one, and then another one."""
    keyed, other = (replace(setup, vault=Vault(key * 32, None)) for key in "kx")

    async def stored(webhook_id: str) -> str:
        return (await stage.database.read(lambda c: webhooks.find(c, webhook_id))).secret

    with receiving() as receiver:
        without, deliverer = Deliverer(setup, loopback()), Deliverer(keyed, loopback())
        made = await create(service_of(setup, without), WebhookCreate(url=receiver.url, events=("message.queued",)))
        assert await stored(made.id) == made.secret
        async with deliverer.running():
            await say(keyed, stage.session_id, "one")
            await until(receiver, lambda r: len(r.accepted) == 1)
            await say(keyed, stage.session_id, "two")
            await until(receiver, lambda r: len(r.accepted) == 2)
        assert made.secret not in await stored(made.id)
        receiver.verify(made.secret)
        new = await create(service_of(keyed, deliverer), WebhookCreate(url=receiver.url, events=("message.queued",)))
        assert new.secret not in await stored(new.id)
        wrong = Deliverer(other, loopback())
        async with wrong.running():
            await say(other, stage.session_id, "three")

            async def disabled() -> bool:
                found = await service_of(other, wrong).get(made.id)
                return found.status == "disabled" and "another" in str(found.disabled_reason)

            await becomes(disabled)
    assert len(receiver.requests) == 2


async def test_a_receiver_that_hangs_holds_few_connections(stage: Stage, setup: RuntimeSetup) -> None:
    deliverer = Deliverer(setup, loopback())
    service = service_of(setup, deliverer)
    sessions = [await stage.database.writer.write(add_session) for _ in range(MOST_AT_ONCE + 3)]
    with receiving(Receiver(answer=lambda _: None)) as slow, receiving() as quick:
        async with deliverer.running():
            await create(service, WebhookCreate(url=slow.url))
            made = await create(service, WebhookCreate(url=quick.url, events=("message.queued",)))
            for session_id in sessions:
                await say(setup, session_id, "hello")
            await until(quick, lambda r: len(r.accepted) == len(sessions))
            await until(slow, lambda r: len(r.requests) == MOST_AT_ONCE)
            assert {r.body["type"] for r in quick.requests} == {"message.queued"}
            quick.verify(made.secret)
    assert len(slow.requests) == MOST_AT_ONCE


async def test_another_node_takes_over_and_keeps_the_order(stage: Stage, setup: RuntimeSetup) -> None:
    first, second, third = (node(setup, name) for name in "abc")
    with receiving() as receiver:
        made: WebhookCreated
        async with first.running():
            service = service_of(setup, first)
            made = await create(service, WebhookCreate(url=receiver.url))
            await say(setup, stage.session_id, "one")
            await until(receiver, lambda r: bool(r.accepted))
            async with second.running():
                await say(setup, stage.session_id, "two")
                head = await stage.database.read(lambda c: seq_of(c, stage.session_id))
                await until(receiver, lambda r: r.last["seq"] == head)
        async with third.running():  # the others have released their leases
            await say(setup, stage.session_id, "three")
            head = await stage.database.read(lambda c: seq_of(c, stage.session_id))
            await until(receiver, lambda r: r.last["seq"] == head)
            await stage.database.writer.write(lambda c: c.execute(update(models.webhooks).values(lease_node="frozen")))
            await stage.database.writer.write(
                lambda c: c.execute(update(models.webhooks).values(lease_until=now() - timedelta(seconds=1)))
            )
            await say(setup, stage.session_id, "four")
            head = await stage.database.read(lambda c: seq_of(c, stage.session_id))
            await until(receiver, lambda r: r.last["seq"] == head)
        assert list(dict.fromkeys(r.seq for r in receiver.accepted)) == list(range(1, head + 1))
        assert len({(r.seq, r.id) for r in receiver.requests}) == head
        assert (await stage.database.read(lambda c: webhooks.find(c, made.id))).failing_since is None


def node(setup: RuntimeSetup, name: str) -> Deliverer:
    own = replace(setup, node=name)
    return Deliverer(own, loopback(), WebhookLeases(own))


async def test_a_webhook_of_one_session_ends_with_it(stage: Stage, setup: RuntimeSetup) -> None:
    deliverer = Deliverer(setup, loopback())
    service = service_of(setup, deliverer)
    with receiving() as receiver:
        async with deliverer.running():
            unheard = await create(
                service, WebhookCreate(url=receiver.url, session_id=stage.session_id, events=("plan.updated",))
            )
            made = await create(service, WebhookCreate(url=receiver.url, session_id=stage.session_id))
            other = await stage.database.writer.write(add_session)
            await say(setup, other, "not for it")
            await say(setup, stage.session_id, "one")
            last = await stage.database.writer.write(lambda c: setup.remove(c, stage.session_id))
            setup.bus.delete(*last)
            deliverer.changed()
            await until(receiver, lambda r: r.last["type"] == "session.deleted")

            async def gone() -> bool:
                left = (await service.list(limit=10, cursor=None)).items
                return not {each.id for each in left} & {made.id, unheard.id}

            await becomes(gone)
    assert {r.body["session_id"] for r in receiver.requests} == {stage.session_id}
    receiver.verify(made.secret)
