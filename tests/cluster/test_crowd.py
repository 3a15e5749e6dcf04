"""Many requests at once on several nodes: bounds hold for the cluster, keys take turns, and nothing is lost."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.behavior.checks import assert_sound
from tests.behavior.harness import OPENAI, Client
from tests.behavior.test_bad_input import assert_refused
from tests.behavior.test_operations_page import PAGE, listed, served
from tests.behavior.test_start import numbers
from tests.cluster.rig import Cluster
from tests.provider import FakeProvider, Gate, Reply, Text


async def crowd(clients: list[Client], number: int) -> tuple[list[str], list[str]]:
    """Posts tasks through all clients at once; returns the ids of accepted sessions, and the codes of refusals."""
    answers = await asyncio.gather(
        *[
            clients[n % len(clients)].http.post("/v1/sessions", json={"task": f"task {n}", "model": OPENAI})
            for n in range(number)
        ]
    )
    refused = [answer for answer in answers if answer.status_code != 201]
    for answer in refused:
        assert_refused(answer, 429, answer.json()["code"])
        assert int(answer.headers["retry-after"]) >= 1
    return [answer.json()["id"] for answer in answers if answer.status_code == 201], [
        answer.json()["code"] for answer in refused
    ]


async def finished(client: Client, ids: list[str]) -> None:
    for session_id in ids:
        await client.until_idle(session_id)
        assert (await client.session(session_id))["outcome"] == "completed"
        await assert_sound(client, session_id)
    stored = [session["id"] for session in (await client.get("/v1/sessions?limit=100"))["items"]]
    assert sorted(stored) == sorted(ids)


@pytest.mark.parametrize("cluster", [{"PALIMPSEST_MAX_RUNS_PER_KEY": "5", "PALIMPSEST_MAX_RUNS": "2"}], indirect=True)
async def test_a_quota_holds_across_nodes(cluster: Cluster, a: Client, b: Client, provider: FakeProvider) -> None:
    provider.respond(lambda _: Reply(Gate("hold"), Text("done")))
    cluster.start("w", "worker")
    accepted, refused = await crowd([a, b], 40)
    assert (len(accepted), set(refused)) == (5, {"run_quota_reached"})
    provider.open("hold")
    await finished(b, accepted)


@pytest.mark.parametrize("cluster", [{"PALIMPSEST_MAX_WAITING_RUNS": "3", "PALIMPSEST_MAX_RUNS": "2"}], indirect=True)
async def test_a_full_line_refuses_on_all_nodes(cluster: Cluster, a: Client, b: Client, provider: FakeProvider) -> None:
    provider.respond(lambda _: Reply(Gate("hold"), Text("done")))
    cluster.start("v", "worker")
    cluster.start("w", "worker")
    await until_nodes(a, 4)
    await until_nodes(b, 4)
    accepted, refused = await crowd([a, b], 60)
    # Two workers with two slots each, and three that wait; transactions at the same instant do not see each other.
    assert 7 <= len(accepted) <= 7 + 15
    assert set(refused) == {"too_many_runs"}
    late = await b.http.post("/v1/sessions", json={"task": "late", "model": OPENAI})
    assert_refused(late, 429, "too_many_runs")
    provider.open("hold")
    await finished(a, accepted)


@pytest.mark.parametrize(
    "cluster", [{"PALIMPSEST_MAX_RUNS": "1", "PALIMPSEST_API_KEYS": "key-one,key-other"}], indirect=True
)
async def test_keys_take_turns_across_nodes(cluster: Cluster, provider: FakeProvider) -> None:
    provider.script_for("held", Reply(Gate("hold"), Text("done")))
    url = cluster.start("a", "api").url
    cluster.start("w", "worker")
    async with Client(url, key="key-one") as one, Client(url, key="key-other") as other:
        made = [await one.create("held")]
        await provider.reached("hold")
        made += [await one.create(f"one {n}") for n in range(8)]
        made += [await other.create(f"other {n}") for n in range(2)]
        async with asyncio.timeout(60):
            while (await one.get("/v1/nodes"))["waiting"] < 10:
                pass
        provider.open("hold")
        for session in made:
            await one.until_idle(session["id"])
    began = [request.first_user_text for request in provider.requests]
    assert max(began.index(f"other {n}") for n in range(2)) < 8, began


async def until_nodes(client: Client, number: int) -> dict[str, dict[str, object]]:
    """Waits until so many nodes are listed as not lost; returns them by id."""
    async with asyncio.timeout(60):
        while True:
            items = (await client.get("/v1/nodes"))["items"]
            ready = {item["id"]: item for item in items if item["status"] != "lost"}
            if len(ready) == number:
                return ready


async def test_nodes_and_the_sessions_they_run_are_shown(cluster: Cluster, a: Client, provider: FakeProvider) -> None:
    provider.script(Reply(Gate("one"), Text("One.")), Reply(Text("Two.")))
    cluster.start("v", "worker")
    nodes = await until_nodes(a, 2)
    assert sorted((node["role"], node["slots"]) for node in nodes.values()) == [("api", 0), ("worker", 100)]
    made = await a.create("begin")
    await provider.reached("one")
    owner = (await a.session(made["id"]))["node"]
    assert nodes[owner]["role"] == "worker"
    listed_now = {item["id"]: item for item in (await a.get("/v1/nodes"))["items"]}
    assert (listed_now[owner]["sessions"], listed_now[owner]["status"]) == (1, "ready")

    successor = cluster.start("w", "worker")
    cluster.nodes["v"].end(signal.SIGKILL)
    await a.until_idle(made["id"])
    async with Client(successor.url) as client:
        assert (await numbers(client))["palimpsest_take_overs_total"] == 1
    assert (await a.session(made["id"]))["node"] is None
    async with asyncio.timeout(60):
        while {item["id"]: item["status"] for item in (await a.get("/v1/nodes"))["items"]}[owner] != "lost":
            pass
    await asyncio.to_thread(successor.end, signal.SIGTERM)
    left = (await a.get("/v1/nodes"))["items"]
    assert sorted((item["role"], item["status"]) for item in left) == [("api", "ready"), ("worker", "lost")]


async def test_the_page_lists_exactly_the_metrics_of_a_node(cluster: Cluster, a: Client) -> None:
    _, _, table = PAGE.partition("\nIn a cluster, each node")
    always = listed(PAGE.partition("\nWith `PALIMPSEST_BROKER` or")[0])
    assert listed(table) == sorted(await served(a) - {*always})
    assert (await numbers(a))["palimpsest_nodes"] >= 0
