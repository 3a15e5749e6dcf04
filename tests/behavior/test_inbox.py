"""What a list of sessions needs: what each does now, which need someone, and which have changed last."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.messages import new_id
from tests.behavior.approving import ALWAYS, approve_all
from tests.behavior.checks import following
from tests.behavior.harness import Client
from tests.provider import FakeProvider, Gate, HttpError, Reply, Text, ToolCall

pytestmark = pytest.mark.shared_server

LONG = "x" * 500


async def listed(client: Client, **params: Any) -> list[str]:
    return [item["id"] for item in (await client.get("/v1/sessions", **params))["items"]]


async def test_a_session_shows_what_it_does_and_whether_it_needs_someone(
    client: Client, provider: FakeProvider
) -> None:
    write = ToolCall("write_file", {"path": "a.py", "content": LONG})
    provider.script_for("waits", Reply(Text("I write."), write), Reply(Text("x"), Gate("held"), Text("y")))
    provider.script_for("fails", HttpError(402))
    waits = (await client.create("waits", approval={**ALWAYS, "policy": {"tools": ["write_file"]}}))["id"]
    async with following(client, waits) as follower:
        await follower.type("approval.requested")
    failed, _ = await client.run("fails")
    done, _ = await client.run("is done")

    session = await client.session(waits)
    assert session["status"] == "awaiting_approval"
    assert session["activity"]["name"] == "write_file"
    assert session["activity"]["arguments"] == {"path": "a.py", "content": LONG[:200]}
    assert (failed["outcome"], failed["unseen"], failed["activity"]) == ("failed", True, None)
    assert done["unseen"]
    attention = {"status": "needs_attention", "sort": "activity"}
    assert await listed(client, **attention) == [failed["id"], waits]

    for _ in range(2):
        assert (await client.http.post(f"/v1/sessions/{failed['id']}/seen")).status_code == 204
    assert not (await client.session(failed["id"]))["unseen"]
    assert await listed(client, **attention) == [waits]

    # The one that was created first has changed last.
    await approve_all(client, waits)
    await provider.reached("held")
    (page,) = [item for item in (await client.get("/v1/sessions"))["items"] if item["id"] == waits]
    assert (page["status"], page["activity"]) == ("running", None)
    first = await client.get("/v1/sessions", sort="activity", limit=1)
    assert [item["id"] for item in first["items"]] == [waits]
    rest = await listed(client, sort="activity", cursor=first["next_cursor"])
    assert rest[:2] == [done["id"], failed["id"]]
    assert await listed(client, limit=3) == [done["id"], failed["id"], waits]
    provider.open("held")
    await client.until_idle(waits)


async def test_sessions_are_found_by_their_metadata(client: Client) -> None:
    team = new_id()
    ticket = {"team": team, "ticket": 7, "open": True, "a.b": 'é "x"'}
    first, second = [(await client.create(metadata=m))["id"] for m in (ticket, {"team": team, "ticket": "7"})]
    await client.create(metadata={"team": "another"})
    of_team = {"metadata.team": team}
    assert await listed(client, **of_team) == [second, first]
    assert await listed(client, **of_team, **{"metadata.ticket": "7"}) == [second, first], "a number and its text"
    assert await listed(client, **of_team, **{"metadata.open": "true"}) == [first]
    assert await listed(client, **of_team, **{"metadata.a.b": 'é "x"'}) == [first]
    assert await listed(client, **of_team, **{"metadata.none": "x"}) == []
    page = await client.get("/v1/sessions", limit=1, **of_team)
    assert await listed(client, cursor=page["next_cursor"], **of_team) == [first]


@pytest.mark.parametrize("query", ['metadata.a"b=1', "metadata.=1", "metadata.a=1&metadata.a=2", "metadatas.a=1"])
async def test_a_filter_of_metadata_that_means_nothing_is_refused(client: Client, query: str) -> None:
    response = await client.http.get(f"/v1/sessions?{query}")
    assert (response.status_code, response.json()["code"]) == (422, "validation_error")
    assert (await client.http.get(f"/v1/models?{query}")).status_code == 422


async def test_usage_is_grouped_by_a_key_of_metadata(client: Client, provider: FakeProvider) -> None:
    key, today = f"team-{new_id()}", datetime.now(UTC).date()
    spent = []
    for team in ("one", "two", "one"):
        provider.script_for(f"for {team}", Reply(Text("words " * 20)), Reply(Text("words " * 20)))
        session, _ = await client.run(f"for {team}", metadata={key: team})
        spent.append(session["usage"])
    await client.run("for nobody")
    report = await client.get("/v1/usage", group_by=f"metadata.{key}")
    found = {item["metadata"]: item for item in report["items"]}
    assert found.keys() == {"one", "two", None}, "other sessions are those without it"
    assert (found["one"]["steps"], found["two"]["steps"]) == (2, 1)
    for name in ("input_tokens", "output_tokens"):
        assert found["one"]["usage"][name] == spent[0][name] + spent[2][name]
        assert found["two"]["usage"][name] == spent[1][name]
    assert (found["one"]["model"], found["one"]["day"]) == (None, None)

    tomorrow = (today + timedelta(days=1)).isoformat()
    assert (await client.get("/v1/usage", group_by=f"metadata.{key}", since=tomorrow))["items"] == []
    assert (await client.get("/v1/usage", since=tomorrow))["items"] == []
    assert (await client.get("/v1/usage", until=tomorrow, group_by="day"))["items"][0]["model"] is None
    for query in ("group_by=week", "since=today", "group_by=metadata.", "since=2026-11-02&until=2026-11-01"):
        refused = (await client.http.get(f"/v1/usage?{query}")).json()
        assert (refused["status"], refused["code"]) == (422, "validation_error")
        assert "pattern" not in refused["detail"]
