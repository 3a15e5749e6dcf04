"""Events are sent to receivers: all of them, in order for each session, signed, and only where they may be sent."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.messages import new_id
from tests.behavior.conftest import StartProcess, StartServer
from tests.behavior.harness import Client, durable
from tests.provider import FakeProvider, Reply, Text
from tests.receiver import Received, Receiver, receiving

LOOPBACK = ["127.0.0.0/8"]


async def becomes(check: Callable[[], Awaitable[bool]]) -> None:
    """Waits for an effect of a delivery."""
    async with asyncio.timeout(60):
        while not await check():  # noqa: ASYNC110 - no event tells of a delivery
            await asyncio.sleep(0.02)


async def create(client: Client, url: str, **fields: Any) -> dict[str, Any]:
    answer = await client.http.post("/v1/webhooks", json={"url": url, **fields})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    assert answer.headers["Location"] == f"/v1/webhooks/{made['id']}"
    return made


async def deliveries(client: Client, webhook: dict[str, Any], **params: Any) -> list[dict[str, Any]]:
    """All pages of a webhook's deliveries."""
    items: list[dict[str, Any]] = []
    cursor: dict[str, Any] = {}
    while True:
        page = await client.get(f"/v1/webhooks/{webhook['id']}/deliveries", limit=5, **cursor, **params)
        items += page["items"]
        if page["next_cursor"] is None:
            return items
        cursor = {"cursor": page["next_cursor"]}


async def test_every_event_is_delivered_signed_and_in_order(start_server: StartServer, provider: FakeProvider) -> None:
    server = start_server(webhook_networks=LOOPBACK)
    provider.script(Reply(Text("before")), Reply(Text("hello")))
    with receiving() as receiver, receiving(Receiver(answer=lambda _: None)) as slow, receiving() as picky:
        async with Client(server.url) as client:
            earlier, _ = await client.run("earlier")
            webhook = await create(client, receiver.url, metadata={"team": "tools"})
            await create(client, slow.url)
            idle = await create(client, picky.url, events=["session.idle", "step.*"])
            session, events = await client.run("task")
            path = f"/v1/webhooks/{webhook['id']}"
            expected = [(event.id, event.type, event.data) for event in durable(events)]
            await asyncio.to_thread(receiver.wait, lambda r: len(r.accepted) >= len(expected))
            got = [(r.seq, r.body["type"], r.body["data"]) for r in receiver.requests]
            assert got == expected, "all events since it was created, each once, although another receiver hangs"
            assert {r.body["session_id"] for r in receiver.requests} == {session["id"]}
            assert {r.body["timestamp"] for r in receiver.requests} == {event.data["at"] for event in durable(events)}
            receiver.verify(webhook["secret"])
            wanted = [t for _, t, _ in expected if t == "session.idle" or t.startswith("step.")]
            await asyncio.to_thread(picky.wait, lambda r: len(r.accepted) == len(wanted))
            assert [r.body["type"] for r in picky.requests] == wanted
            picky.verify(idle["secret"])

            async def listed() -> bool:
                return len(await deliveries(client, webhook, status="delivered")) == len(expected)

            await becomes(listed)
            assert {d["id"] for d in await deliveries(client, webhook)} == {r.id for r in receiver.requests}
            shown = await client.get(path)
            assert shown == {key: value for key, value in webhook.items() if key != "secret"}
            assert [w["id"] for w in (await client.get("/v1/webhooks"))["items"]][-1] == webhook["id"]
            test = (await client.http.post(f"{path}/test")).json()
            await asyncio.to_thread(receiver.wait, lambda r: r.accepted[-1].id == test["id"])
            assert (test["type"], receiver.accepted[-1].body["type"]) == ("webhook.test", "webhook.test")
            first = receiver.requests[0].id
            assert (await client.http.post(f"{path}/deliveries/{first}/retry")).status_code == 202
            await asyncio.to_thread(receiver.wait, lambda r: [x.id for x in r.accepted].count(first) == 2)
            assert (await client.http.delete(f"/v1/sessions/{session['id']}")).status_code == 204
            await asyncio.to_thread(receiver.wait, lambda r: r.last["type"] == "session.deleted")
            assert receiver.accepted[-1].seq == len(expected) + 1
            assert (await client.http.delete(path)).status_code == 204
            assert (await client.http.get(f"{path}/deliveries")).json()["code"] == "webhook_not_found"
            receiver.verify(webhook["secret"])
            assert (await client.session(earlier["id"]))["status"] == "idle"


@pytest.mark.slow
async def test_nothing_is_lost_while_the_receiver_fails_and_the_server_is_killed(
    start_process: StartProcess, provider: FakeProvider
) -> None:
    provider.script(*[Reply(Text(f"answer {number}")) for number in range(3)])
    refusals: Counter[str] = Counter()
    networks = {"PALIMPSEST_WEBHOOK_NETWORKS": "127.0.0.0/8"}

    def refuse_some_once(received: Received) -> int:
        refusals[received.id] += 1
        return 500 if received.seq % 9 == 4 and refusals[received.id] == 1 else 204

    receiver = Receiver(answer=refuse_some_once)
    with receiving(receiver):
        server = start_process(**networks)
        async with Client(server.url) as client:
            webhook = await create(client, receiver.url)
            session, events = await client.run("first")
            await asyncio.to_thread(receiver.wait, lambda r: any(x.seq == 4 for x in r.requests))
    async with Client(server.url) as client:  # the receiver is down
        events += await client.say(session["id"], "second", after=durable(events)[-1].id)
    server.end(signal.SIGKILL)
    server = start_process(**networks)
    async with Client(server.url) as client:
        events += await client.say(session["id"], "third", after=durable(events)[-1].id)
        with receiving(receiver):
            last = durable(events)[-1].id
            await asyncio.to_thread(receiver.wait, lambda r: r.last["seq"] == last)
            first_times = list(dict.fromkeys(r.seq for r in receiver.accepted))
            assert first_times == list(range(1, (last or 0) + 1)), "in order, without a hole"
            assert [r.body["data"] for r in {r.seq: r for r in receiver.accepted}.values()] == [
                event.data for event in durable(events)
            ]
            assert len({(r.seq, r.id) for r in receiver.requests}) == last, "an event has the same id at each attempt"
            assert len({r.raw for r in receiver.requests}) == last, "and the same bytes"
            receiver.verify(webhook["secret"])

            async def is_well() -> bool:
                return (await client.get(f"/v1/webhooks/{webhook['id']}"))["failing_since"] is None

            await becomes(is_well)
    assert max(refusals.values()) >= 2


async def test_a_receiver_that_wants_no_more_is_disabled_until_it_is_enabled(
    start_server: StartServer, provider: FakeProvider
) -> None:
    server = start_server(webhook_networks=LOOPBACK)
    provider.script(Reply(Text("hello")))
    with receiving(Receiver(answer=lambda r: 410 if r.body["type"] == "session.idle" else 200)) as receiver:
        async with Client(server.url) as client:
            webhook = await create(client, receiver.url, events=["message.*", "session.idle"])
            path = f"/v1/webhooks/{webhook['id']}"
            session, _ = await client.run("task")

            async def has_status(status: str) -> bool:
                return bool((await client.get(path))["status"] == status)

            await becomes(lambda: has_status("disabled"))
            shown = await client.get(path)
            assert "410" in shown["disabled_reason"]
            assert shown["failing_since"] is not None
            assert "\npalimpsest_webhooks_disabled 1.0\n" in (await client.http.get("/metrics")).text
            (failed,) = await deliveries(client, webhook, status="failed")
            assert (failed["type"], failed["response_status"], failed["attempts"]) == ("session.idle", 410, 1)
            provider.script(Reply(Text("again")))
            await client.say(session["id"], "more", after=(await client.session(session["id"]))["last_seq"])
            sent = len(receiver.requests)
            receiver.answer = lambda _: 200
            assert (await client.http.patch(path, json={"status": "active"})).json()["disabled_at"] is None
            await asyncio.to_thread(
                receiver.wait, lambda r: r.requests[-1].body["type"] == "session.idle" and len(r.requests) > sent + 2
            )
            assert receiver.requests[sent].id == failed["id"], "it continues with what it did not get"
            assert [r.seq for r in receiver.accepted] == sorted({r.seq for r in receiver.requests})
            assert "\npalimpsest_webhooks_disabled 0.0\n" in (await client.http.get("/metrics")).text


TRICKS = (
    "http://127.0.0.1:{port}/",
    "http://localhost:{port}/",
    "http://%6cocalhost:{port}/",
    "http://127.0.0.1.:{port}/",
    "http://{name}:{port}/",
    "http://localhost.:{port}/",
    "http://LOCALHOST:{port}/",
    "http://2130706433:{port}/",
    "http://0x7f000001:{port}/",
    "http://0177.0.0.1:{port}/",
    "http://127.1:{port}/",
    "http://0:{port}/",
    "http://[::1]:{port}/",
    "http://[::]:{port}/",
    "http://[::ffff:127.0.0.1]:{port}/",
    "http://[::ffff:7f00:1]:{port}/",
    "http://[::127.0.0.1]:{port}/",
    "http://[64:ff9b::7f00:1]:{port}/",
    "http://[2002:7f00:1::]:{port}/",
    "http://public.example@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}\\@public.example/",
    "http://①②⑦.⓪.⓪.①:{port}/",
    "http://169.254.169.254/latest/meta-data/",
    "http://10.1.2.3/",
    "http://[fe80::1%25lo]:{port}/",
    "http://[fd00::1]:{port}/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:{port}/",
)


@pytest.mark.shared_server
async def test_no_way_leads_to_a_private_address(client: Client) -> None:
    with receiving(host="0.0.0.0") as receiver:
        made = []
        for trick in TRICKS:
            answer = await client.http.post(
                "/v1/webhooks", json={"url": trick.format(port=receiver.port, name=socket.gethostname())}
            )
            if answer.status_code == 201:
                made.append(answer.json())
                assert (await client.http.post(f"/v1/webhooks/{made[-1]['id']}/test")).status_code == 202
            else:
                assert answer.status_code == 422
                assert answer.json()["code"] in ("validation_error", "webhook_address_refused"), trick

        async def attempted() -> bool:
            return all([(await deliveries(client, each, status="failed")) for each in made])

        await becomes(attempted)
        errors = {each["url"]: (await deliveries(client, each))[0]["error"] for each in made}
        assert made, "names are resolved only when something is sent"
        assert [error for error in errors.values() if "address" not in error and "resolved" not in error] == []
        for each in made:
            assert (await client.http.delete(f"/v1/webhooks/{each['id']}")).status_code == 204
    assert receiver.requests == []


async def test_redirects_are_not_followed(start_server: StartServer) -> None:
    server = start_server(webhook_networks=["127.0.0.1/32"])
    with receiving() as target, receiving(Receiver(answer=lambda _: 307, location=target.url)) as receiver:
        async with Client(server.url) as client:
            webhook = await create(client, receiver.url)
            assert (await client.http.post(f"/v1/webhooks/{webhook['id']}/test")).status_code == 202

            async def failed() -> bool:
                return bool(await deliveries(client, webhook, status="failed"))

            await becomes(failed)
            assert (await deliveries(client, webhook))[0]["response_status"] == 307
    assert (len(receiver.requests), target.requests) == (1, [])


@pytest.mark.shared_server
async def test_a_request_that_is_repeated_makes_no_second_webhook(client: Client) -> None:
    async def ask(key: str, **fields: Any) -> tuple[int, dict[str, Any], str | None]:
        body = {"url": "https://hooks.example.com/", **fields}
        answer = await client.http.post("/v1/webhooks", json=body, headers={"Idempotency-Key": key})
        return answer.status_code, answer.json(), answer.headers.get("idempotency-replayed")

    key = new_id()
    _, made, replayed = await ask(key)
    assert replayed is None
    path = f"/v1/webhooks/{made['id']}"
    await client.http.patch(path, json={"url": "https://hooks.example.org/"})
    both = await asyncio.gather(ask(key), ask(key))
    assert [*both] == [(201, made, "true")] * 2
    status, problem, _ = await ask(key, events=["session.*"])
    assert (status, problem["code"]) == (422, "idempotency_key_reused")
    await client.http.delete(path)
    # At the same time, neither of which can have been made before.
    (_, one, _), (_, other, _) = await asyncio.gather(ask(key), ask(key))
    assert one == other
    assert one["id"] != made["id"]
    await client.http.delete(f"/v1/webhooks/{one['id']}")


@pytest.mark.shared_server
async def test_webhooks_that_make_no_sense_are_refused(client: Client) -> None:
    url = "https://hooks.example.com/"
    for body, status, code in (
        ({"url": url, "events": ["session.ended"]}, 422, "validation_error"),
        ({"url": url, "events": ["text.*", "session.*", "text.delta"]}, 422, "validation_error"),
        ({"url": url, "events": []}, 422, "validation_error"),
        ({"url": "hooks.example.com"}, 422, "validation_error"),
        ({"url": url, "session_id": "01936f5e-8d2a-7c3b-9f1e-2a4b6c8d0e1f"}, 404, "session_not_found"),
        ({"url": url, "metadata": {"x": "y" * 20_000}}, 422, "metadata_too_large"),
    ):
        answer = await client.http.post("/v1/webhooks", json=body)
        assert (answer.status_code, answer.json()["code"]) == (status, code), body
    made = await create(client, url)
    path = f"/v1/webhooks/{made['id']}"
    assert (await client.http.post(f"{path}/deliveries/{made['id']}/retry")).json()["code"] == "delivery_not_found"
    refused = await client.http.patch(path, json={"url": "http://10.0.0.1/"})
    assert refused.json()["code"] == "webhook_address_refused"
    changed = await client.http.patch(path, json={"url": "https://hooks.example.org/x", "events": ["approval.*"]})
    assert changed.json()["url"].endswith("/x")
    assert (await client.http.patch(path, json={"events": None})).json()["events"] is None
    assert (await client.http.delete(path)).status_code == 204
