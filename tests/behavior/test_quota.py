"""Runs of several API keys on one server: a quota for each key, and turns in the line."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import SecretStr

from tests.behavior.checks import assert_sound
from tests.behavior.conftest import StartServer
from tests.behavior.harness import OPENAI, Client
from tests.behavior.test_bad_input import assert_refused
from tests.behavior.test_start import numbers
from tests.provider import FakeProvider, Gate, Reply, Text

ONE, OTHER = SecretStr("key-one"), SecretStr("key-other")


def keyed(url: str, key: SecretStr) -> Client:
    return Client(url, key=key.get_secret_value())


async def test_a_key_may_not_have_more_runs_than_its_quota(start_server: StartServer, provider: FakeProvider) -> None:
    provider.script_for("held", Reply(Gate("hold"), Text("done")))
    url = start_server(api_keys=(ONE, OTHER), max_runs=1, max_runs_per_key=2).url
    async with keyed(url, ONE) as one, keyed(url, OTHER) as other:
        idle = await one.create()
        held = await one.create("held")
        await provider.reached("hold")
        waiting = await one.create("waiting counts too")
        refused = await one.http.post("/v1/sessions", json={"task": "too many", "model": OPENAI})
        assert_refused(refused, 429, "run_quota_reached")
        assert (int(refused.headers["retry-after"]) >= 1, refused.json()["most"]) == (True, 2)
        message = {"content": "begin", "id": "01936f5e-8d2a-7c3b-9f1e-2a4b6c8d0e1f"}
        refused = await one.http.post(f"/v1/sessions/{idle['id']}/queue", json=message)
        assert_refused(refused, 429, "run_quota_reached")
        assert (await one.get(f"/v1/sessions/{idle['id']}/queue"))["items"] == []
        await one.post(held["id"], "a message to a run needs no further one")
        theirs = await other.create("of another key")
        assert (await numbers(one))["palimpsest_runs_refused_total"] == 2

        provider.open("hold")
        for session in (held, waiting, theirs):
            await one.until_idle(session["id"])
            assert (await one.session(session["id"]))["outcome"] == "completed"
            await assert_sound(one, session["id"])
        assert (await one.http.post(f"/v1/sessions/{idle['id']}/queue", json=message)).status_code == 202
        await one.until_idle(idle["id"])


async def test_a_login_counts_as_its_key(start_server: StartServer, provider: FakeProvider) -> None:
    provider.script_for("held", Reply(Gate("hold"), Text("done")))
    url = start_server(api_keys=(ONE, OTHER), max_runs_per_key=1).url
    async with keyed(url, ONE) as one, Client(url) as browser:
        assert (await browser.http.post("/v1/login", json={"key": ONE.get_secret_value()})).status_code == 204
        held = await browser.create("held")
        await provider.reached("hold")
        assert_refused(
            await one.http.post("/v1/sessions", json={"task": "x", "model": OPENAI}), 429, "run_quota_reached"
        )
        provider.open("hold")
        await one.until_idle(held["id"])


async def test_keys_take_turns_in_the_line(start_server: StartServer, provider: FakeProvider) -> None:
    provider.script_for("held", Reply(Gate("hold"), Text("done")))
    url = start_server(api_keys=(ONE, OTHER), max_runs=1).url
    async with keyed(url, ONE) as one, keyed(url, OTHER) as other:
        made = [await one.create(task) for task in ("held", "one 1", "one 2", "one 3")]
        made += [await other.create(task) for task in ("other 1", "other 2")]
        await provider.reached("hold")
        provider.open("hold")
        for session in made:
            await one.until_idle(session["id"])
    began = [request.first_user_text for request in provider.requests]
    assert began == ["held", "one 1", "other 1", "one 2", "other 2", "one 3"]


async def test_a_crowd_is_served_or_told_to_come_back(start_server: StartServer, provider: FakeProvider) -> None:
    # No run ends, which would make room for another one, before all requests are decided.
    provider.respond(lambda _: Reply(Gate("decided"), Text("done")))
    url = start_server(max_runs=4, max_waiting_runs=10, max_runs_per_key=8).url
    async with Client(url) as client:
        made = await asyncio.gather(
            *[client.http.post("/v1/sessions", json={"task": f"task {n}", "model": OPENAI}) for n in range(60)]
        )
        accepted = [answer.json()["id"] for answer in made if answer.status_code == 201]
        refused = [answer for answer in made if answer.status_code != 201]
        assert 0 < len(accepted) <= 8
        for answer in refused:
            # Of many at once, each takes a place in the line until it is decided.
            assert_refused(answer, 429, answer.json()["code"])
            assert answer.json()["code"] in ("run_quota_reached", "too_many_runs")
            assert int(answer.headers["retry-after"]) >= 1
        provider.open("decided")
        for session_id in accepted:
            await client.until_idle(session_id)
            assert (await client.session(session_id))["outcome"] == "completed"
        found = [session["id"] for session in (await client.get("/v1/sessions?limit=100"))["items"]]
        assert sorted(found) == sorted(accepted), "nothing is lost, and nothing made that nobody knows of"
        assert (await numbers(client))["palimpsest_run_wait_seconds_count"] == len(accepted)


@pytest.mark.shared_server
async def test_a_server_alone_lists_no_nodes(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(Text("Done.")))
    session, _ = await client.run("task")
    assert (await client.get("/v1/nodes")) == {"items": [], "waiting": 0}
    assert session["node"] is None
