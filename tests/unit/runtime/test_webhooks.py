"""Webhooks: what follows from an attempt, who delivers, and to which address a request really goes."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_network
from itertools import count
from pathlib import Path

import pytest
from pydantic import ValidationError
from sqlalchemy import update

from app.db import models
from app.db.repositories import deliveries, webhooks
from app.db.repositories.webhooks import DELIVERED, FAILED, PENDING, StoredDelivery, StoredWebhook
from app.errors import InvalidRequestError
from app.messages import new_id, now
from app.runtime.destinations import Destinations
from app.runtime.values.webhooks import WebhookCreate
from app.runtime.webhooks.filter import types_of
from app.runtime.webhooks.results import LAST_RETRY_S, RETRIED_FOR, Attempt, after_attempt, backoff_s
from app.runtime.webhooks.sending import MAX_RESPONSE_BYTES, Sender
from tests.cancelling import CancelledAt
from tests.receiver import Receiver, receiving
from tests.unit.runtime.stage import Stage

AT = datetime(2026, 11, 22, 10, 11, 12, tzinfo=UTC)
NEW = StoredDelivery.first("d", "w", "session.idle", AT, session_id="s", seq=7)
REFUSED = Attempt(5, 500, "The receiver answered with status 500.")


def test_a_delivery_is_retried_for_three_days_and_then_disables_its_webhook() -> None:
    delivery, reason, at, waits = NEW, None, AT, []
    while reason is None:
        delivery, reason = after_attempt(delivery, REFUSED, at, 0.5)
        if delivery.next_attempt_at is not None:
            waits.append((delivery.next_attempt_at - at).total_seconds())
            at = delivery.next_attempt_at
    assert (delivery.status, at - AT) == (FAILED, RETRIED_FOR)
    assert waits[:5] == [1, 2, 4, 8, 16]
    assert max(waits) == LAST_RETRY_S
    assert "3 days" in reason
    assert "500" in reason


@pytest.mark.parametrize(
    ("attempt", "status", "disables"),
    [
        (Attempt(1, 200), DELIVERED, False),
        (Attempt(1, 204), DELIVERED, False),
        (Attempt(1, 302, "x"), PENDING, False),
        (Attempt(1, None, "x"), PENDING, False),
        (Attempt(1, 410, "x"), FAILED, True),
    ],
)
def test_what_follows_from_an_answer(attempt: Attempt, status: str, disables: bool) -> None:
    done, reason = after_attempt(NEW, attempt, AT, 0.5)
    assert (done.status, done.attempts, reason is not None) == (status, 1, disables)
    once, _ = after_attempt(NEW._replace(once=True), attempt, AT, 0.5)
    assert (once.status == DELIVERED) == attempt.is_delivered
    assert once.next_attempt_at is None


def test_retries_are_spread_and_heed_the_receiver() -> None:
    assert {backoff_s(1, chance) for chance in (0.0, 1.0)} == {0.75, 1.25}
    done, _ = after_attempt(NEW, Attempt(1, 429, "x", retry_after_s=60), AT, 0.5)
    assert done.next_attempt_at == AT + timedelta(seconds=60)


def test_patterns_select_durable_events() -> None:
    assert types_of(["session.idle"]) == {"session.idle"}
    assert types_of(["step.*", "plan.updated"]) == {"step.started", "step.retrying", "step.finished", "plan.updated"}
    assert types_of(["text.delta"]) == types_of(["session"]) == types_of(["*"]) == frozenset()
    assert "session.deleted" in types_of(None)


def webhook() -> StoredWebhook:
    at = now()
    return StoredWebhook(new_id(), "https://example.com", None, None, {}, "secret", "active", None, None, at, at)


async def test_one_node_at_a_time_delivers_to_a_webhook(stage: Stage) -> None:
    write, mine = stage.database.writer.write, webhook()
    await write(lambda c: webhooks.add(c, mine))
    lasts = timedelta(seconds=10)
    assert await write(lambda c: webhooks.lease(c, "a", lasts)) == {mine.id}
    assert await write(lambda c: webhooks.lease(c, "b", lasts)) == frozenset()
    assert await write(lambda c: webhooks.lease(c, "a", lasts)) == {mine.id}
    found = StoredDelivery.first(new_id(), mine.id, "session.idle", AT, session_id=stage.session_id, seq=1)
    done, _ = after_attempt(found, Attempt(1, 200), AT, 0.5)
    assert await write(lambda c: deliveries.record(c, done, None, "b")) is False, "it does not hold the webhook"
    await write(lambda c: c.execute(update(models.webhooks).values(lease_until=now() - lasts)))
    assert await write(lambda c: webhooks.lease(c, "b", lasts)) == {mine.id}
    assert await write(lambda c: deliveries.record(c, done, None, "a")) is False, "a frozen node has lost it"
    assert await write(lambda c: deliveries.record(c, done, None, "b")) is True
    await write(lambda c: webhooks.release(c, "b"))
    assert await write(lambda c: webhooks.lease(c, "a", lasts)) == {mine.id}


async def test_a_cursor_of_a_webhook_that_was_just_deleted_is_not_stored(stage: Stage) -> None:
    await stage.database.writer.write(lambda c: deliveries.skip(c, new_id(), {stage.session_id: 1}))


async def test_the_list_of_deliveries_is_bounded(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    write, mine = stage.database.writer.write, webhook()
    monkeypatch.setattr(deliveries, "KEPT", 3)
    await write(lambda c: webhooks.add(c, mine))
    for number in range(6):
        made = StoredDelivery.first(new_id(), mine.id, "x", AT + timedelta(seconds=number), data="{}")
        await write(partial(deliveries.add, delivery=made._replace(status=DELIVERED if number else PENDING)))
    await write(lambda c: deliveries.trim(c, mine.id))
    left, _ = await stage.database.read(lambda c: webhooks.deliveries(c, mine.id, None, None, 10))
    assert [(each.created_at - AT).seconds for each in left] == [5, 4, 3, 0], "what is pending stays"


@pytest.mark.parametrize(
    "url",
    ["http://localhost/", "http://LocalHost.:8/", "http://a.localhost/", "http://127.0.0.1.:80/", "http://[::1]/"],
)
def test_what_is_this_machine_in_any_case_is_refused_at_once(url: str) -> None:
    with pytest.raises(InvalidRequestError):
        Destinations().check(url)
    Destinations([ip_network("127.0.0.0/8"), ip_network("::1/128")]).check(url)
    Destinations().check("http://localhost.example.com/")
    with pytest.raises(ValidationError):
        WebhookCreate(url=url.replace("l", "%6c").replace("1", "%31"))


@asynccontextmanager
async def sender(
    resolve: Callable[[str], list[str]], *networks: str, cafile: Path | None = None, attempt_s: float = 15
) -> AsyncIterator[Sender]:
    context = ssl.create_default_context(cafile=cafile)
    made = Sender(Destinations([ip_network(text) for text in networks], resolve), context, attempt_s)
    yield made
    await made.aclose()


SIGNED = {"webhook-id": "msg_1", "webhook-timestamp": "1", "webhook-signature": "v1,x"}


async def test_the_address_that_was_checked_is_connected_to() -> None:
    """The name server gives an allowed address first, and then others."""
    turns = iter([["127.0.0.2"], ["127.0.0.1"], ["127.0.0.1", "127.0.0.2"], ["::ffff:127.0.0.2"], ["64:ff9b::7f00:2"]])
    with receiving(host="0.0.0.0") as receiver:
        url = f"http://hooks.example.com:{receiver.port}/"
        outcomes = []
        for _ in range(5):
            async with sender(lambda _: next(turns), "127.0.0.2/32") as sends:
                outcomes.append(await sends.send(url, SIGNED, b"{}"))
    assert [outcome.status for outcome in outcomes] == [204, None, 204, None, None]
    assert [received.address for received in receiver.requests] == ["127.0.0.2", "127.0.0.2"]
    assert receiver.requests[0].headers["host"] == f"hooks.example.com:{receiver.port}"
    assert "PALIMPSEST_WEBHOOK_NETWORKS" in str(outcomes[1].error)


@contextmanager
def certificate(folder: Path) -> Iterator[tuple[Path, Path]]:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    cert, key = folder / "cert.pem", folder / "key.pem"
    made = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=test")
    named = ("-addext", "subjectAltName=DNS:hooks.example.com", "-out", str(cert), "-keyout", str(key))
    subprocess.run(["openssl", "req", "-x509", *made, *named], check=True, capture_output=True)
    yield cert, key


async def test_tls_verifies_the_name_although_an_address_is_connected_to(tmp_path: Path) -> None:
    asked: list[str | None] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    with certificate(tmp_path) as (cert, key):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(cert, key)
        context.sni_callback = lambda _, name, __: asked.append(name)
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        async with server, sender(lambda _: ["127.0.0.1"], "127.0.0.0/8", cafile=cert) as sends:
            good = await sends.send(f"https://hooks.example.com.:{port}/", SIGNED, b"{}")
            bad = await sends.send(f"https://other.example.com:{port}/", SIGNED, b"{}")
    assert (good.status, bad.status) == (200, None)
    assert asked == ["hooks.example.com", "other.example.com"]
    assert "certificate" in str(bad.error)


async def test_an_endless_response_is_cut_off() -> None:
    sent = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\nRetry-After: 7\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
                sent += 65536
        except ConnectionError:
            pass

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, sender(lambda _: ["127.0.0.1"], "127.0.0.0/8") as sends:
        done = await sends.send(f"http://hooks.example.com:{port}/", SIGNED, b"{}")
    assert (done.status, done.retry_after_s) == (200, 7.0)
    assert sent < 100 * MAX_RESPONSE_BYTES


async def test_a_receiver_that_hangs_is_given_up_in_time() -> None:
    with receiving(Receiver(answer=lambda _: None)) as receiver:
        async with sender(lambda _: ["127.0.0.1"], "127.0.0.0/8", attempt_s=0.3) as sends:
            async with asyncio.timeout(60):
                late = await sends.send(receiver.url, SIGNED, b"{}")
    assert (late.status, late.error) == (None, "The receiver did not answer within 0.3 seconds.")
    assert len(receiver.requests) == 1


class Connections:
    """A receiver, and its connections that senders have not closed."""

    def __init__(self) -> None:
        self.open: list[asyncio.StreamWriter] = []
        self._closed = asyncio.Event()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n{}"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()
        self.open.remove(writer)
        self._closed.set()

    async def become(self, number: int) -> None:
        async with asyncio.timeout(20):
            while len(self.open) > number:
                self._closed.clear()
                await self._closed.wait()


@pytest.mark.parametrize(("scheme", "ended"), [("http", 0), ("http", 3), ("https", 0)])
async def test_an_attempt_that_is_cancelled_anywhere_leaves_no_connection(
    tmp_path: Path, scheme: str, ended: int
) -> None:
    """Before the attempt, the receiver has `ended` some idle connections."""
    connections = Connections()
    with certificate(tmp_path) as (cert, key):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(cert, key)
        tls = context if scheme == "https" else None
        async with await asyncio.start_server(connections.answer, "127.0.0.1", 0, ssl=tls) as server:
            url = f"{scheme}://hooks.example.com:{server.sockets[0].getsockname()[1]}/"
            for nth in count(1):
                async with sender(lambda _: ["127.0.0.1"], "127.0.0.0/8", cafile=cert) as sends:
                    await asyncio.gather(*(sends.send(url, SIGNED, b"{}") for _ in range(ended)))
                    for writer in connections.open:
                        writer.write_eof()
                    attempt = CancelledAt(nth, sends.send(url, SIGNED, b"{}"))
                    await asyncio.wait([asyncio.create_task(attempt)])
                    assert (await sends.send(url, SIGNED, b"{}")).status == 200
                    await connections.become(1)
                await connections.become(0)
                if not attempt.reached:
                    break
    assert nth > 5 + ended, "it was cancelled at each place"


async def test_what_cannot_be_reached_says_why() -> None:
    def unknown(_: str) -> list[str]:
        raise OSError("no such name")

    async with sender(unknown) as sends:
        failed = await sends.send("https://hooks.example.com/", SIGNED, b"{}")
    assert (failed.status, failed.error) == (None, "hooks.example.com cannot be resolved.")
    async with sender(lambda _: ["127.0.0.1"], "127.0.0.0/8") as sends:
        refused = await sends.send("http://hooks.example.com:1/", SIGNED, b"{}")
    assert "Cannot connect to" in str(refused.error)
