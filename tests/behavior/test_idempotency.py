"""A POST that is repeated with its `Idempotency-Key` makes nothing twice."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from contextlib import closing
from typing import Any

import httpx
import pytest

from tests.behavior.conftest import StartProcess
from tests.behavior.harness import Client, of_type, read_events
from tests.behavior.test_archives import tarred
from tests.provider import FakeProvider, Gate, Reply, Text

pytestmark = pytest.mark.shared_server

KEY = {"Idempotency-Key": "order-17"}


def replayed(answer: httpx.Response) -> bool:
    return "idempotency-replayed" in answer.headers


def same(first: httpx.Response, again: httpx.Response) -> None:
    """Asserts that the second answer is the first one, and says that it is."""
    assert not replayed(first)
    assert replayed(again)
    assert (again.status_code, again.content) == (first.status_code, first.content)
    for name in ("content-type", "location"):
        assert again.headers.get(name) == first.headers.get(name)


async def test_what_is_posted_again_is_answered_as_before(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(Text("Done.")), Reply(Text("Done again.")))
    made = [await client.http.post("/v1/sessions", json={"task": "Say hello."}, headers=KEY) for _ in range(2)]
    assert made[0].status_code == 201
    same(*made)
    session_id = made[0].json()["id"]
    await client.until_idle(session_id)
    same(made[0], await client.http.post("/v1/sessions", json={"task": "Say hello."}, headers=KEY))

    base = f"/v1/sessions/{session_id}"
    queued = [await client.http.post(f"{base}/queue", json={"content": "Again."}, headers=KEY) for _ in range(2)]
    same(*queued)
    events = await client.until_idle(session_id)
    assert len(of_type(events, "message.queued")) == len(of_type(events, "session.idle")) == 2
    forks = [await client.http.post(f"{base}/fork", headers=KEY) for _ in range(2)]
    same(*forks)
    rounds = [await client.http.post(f"{base}/compactions", json={"dry_run": True}, headers=KEY) for _ in range(2)]
    same(*rounds)
    assert len((await client.get("/v1/sessions"))["items"]) == 2

    other = await client.http.post("/v1/sessions", json={"task": "Say goodbye."}, headers=KEY)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    for bad in ("", "x" * 256):
        refused = await client.http.post("/v1/sessions", json={}, headers={"Idempotency-Key": bad})
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "Idempotency-Key")
    await client.http.delete(base)
    renewed = await client.http.post("/v1/sessions", json={"task": "Say hello."}, headers=KEY)
    assert not replayed(renewed), "the answer was deleted with its session"
    assert renewed.json()["id"] != session_id


async def test_a_key_can_be_used_again_for_what_has_made_nothing(client: Client) -> None:
    refused = await client.http.post("/v1/sessions", json={"model": "no/such"}, headers=KEY)
    assert refused.status_code == 422
    made = await client.http.post("/v1/sessions", json={"title": "Corrected"}, headers=KEY)
    assert (made.status_code, replayed(made)) == (201, False)


async def test_the_stream_of_a_new_session_is_sent_again(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(Text("Done."), Gate("held")))

    async def stream() -> tuple[dict[str, str], list[Any]]:
        headers = {"Accept": "text/event-stream", **KEY}
        async with client.http.stream("POST", "/v1/sessions", json={"task": "Go."}, headers=headers) as answer:
            return dict(answer.headers), [(e.id, e.type) async for e in read_events(answer) if e.id is not None]

    first = asyncio.create_task(stream())
    await provider.reached("held")
    second = asyncio.create_task(stream())
    provider.open("held")
    (headers, events), (again, repeated) = await first, await second
    assert (again["session-id"], again["location"]) == (headers["session-id"], headers["location"])
    assert ("idempotency-replayed" in headers, again["idempotency-replayed"]) == (False, "true")
    assert events == repeated
    assert len(provider.requests) == 1


async def test_an_archive_with_another_boundary_is_the_same_body(client: Client) -> None:
    async def post(name: str) -> httpx.Response:
        files: Any = {"session": (None, b"{}", "application/json"), "archive": ("a.tar", tarred({name: b"x"}))}
        return await client.http.post("/v1/sessions", files=files, headers=KEY)

    same(await post("a"), await post("a"))
    assert (await post("b")).json()["code"] == "idempotency_key_reused"


@pytest.mark.sqlite
@pytest.mark.slow
async def test_a_request_that_died_with_its_server_is_answered_once(
    start_process: StartProcess, provider: FakeProvider
) -> None:
    provider.respond(lambda _: Reply(Text("Done.")))
    networks = {"PALIMPSEST_WEBHOOK_NETWORKS": "127.0.0.0/8"}
    server = start_process(**networks)
    body = {"task": "Say hello."}

    async def post_all(client: Client, key: str) -> list[str]:
        """A session, its fork and the test of a webhook; returns their ids."""
        headers = {"Idempotency-Key": key}
        made = await client.http.post("/v1/sessions", json=body, headers=headers)
        await client.until_idle(made.json()["id"])
        fork = await client.http.post(f"/v1/sessions/{made.json()['id']}/fork", headers=headers)
        test = await client.http.post(f"/v1/webhooks/{webhook_id}/test", headers=headers)
        assert not any(map(replayed, (made, fork, test)))
        return [made.json()["id"], fork.json()["id"], test.json()["id"]]

    async with Client(server.url) as client:
        hook = {"url": "http://127.0.0.1:9/hook", "events": ["session.deleted"]}
        webhook_id = (await client.http.post("/v1/webhooks", json=hook)).json()["id"]
        first = await post_all(client, "killed")
    server.end(signal.SIGKILL)
    # As if it had been killed between the commit and the answer.
    with closing(sqlite3.connect(server.data_dir / "palimpsest.db")) as database, database:
        changed = database.execute("UPDATE idempotent_requests SET status = NULL, body_digest = NULL")
        assert changed.rowcount == 3
    async with Client(start_process(**networks).url) as client:
        assert await post_all(client, "killed") == first

        # The database refuses the answers, and that the requests have ended.
        with closing(sqlite3.connect(server.data_dir / "palimpsest.db")) as database, database:
            fails = "SELECT abs(-9223372036854775808)"
            database.execute(f"CREATE TRIGGER fails BEFORE UPDATE ON idempotent_requests BEGIN {fails}; END")
        unstored = await post_all(client, "not stored")
        with closing(sqlite3.connect(server.data_dir / "palimpsest.db")) as database, database:
            database.execute("DROP TRIGGER fails")
        assert await post_all(client, "not stored") == unstored
        assert len((await client.get("/v1/sessions"))["items"]) == 4
        assert len((await client.get(f"/v1/webhooks/{webhook_id}/deliveries"))["items"]) == 2


async def test_a_forwarded_request_makes_what_has_the_id_of_its_key(client: Client) -> None:
    first = await client.http.post("/v1/sessions", json={}, headers=KEY)
    forwarded = await client.http.post("/v1/sessions", json={}, headers={**KEY, "Palimpsest-Node": "n"})
    assert (forwarded.json()["id"], replayed(forwarded)) == (first.json()["id"], False)
