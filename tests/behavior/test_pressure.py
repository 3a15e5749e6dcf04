"""More than a server may do at once: runs queue, readers and new runs beyond the limits are told to retry, sandboxes
are handed over, and all accepted work is done in the end."""

from __future__ import annotations

import asyncio

import pytest

from tests.behavior.checks import assert_sound
from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client, of_type, read_events, shows
from tests.behavior.test_background_compaction import WINDOWS, Steady, begun, summary_after
from tests.behavior.test_bad_input import assert_refused
from tests.behavior.test_start import numbers
from tests.load import CANCEL_S
from tests.provider import FakeProvider, Gate, Reply, Text, ToolCall


async def test_runs_beyond_the_limit_wait_in_order(start_server: StartServer, provider: FakeProvider) -> None:
    provider.script_for("first", Reply(Gate("hold"), Text("one")))
    async with Client(start_server(max_runs=1, max_waiting_runs=2).url) as client:
        idle = await client.create()
        first, second, third = [await client.create(task) for task in ("first", "second", "third")]
        await provider.reached("hold")
        assert (second["status"], third["status"]) == ("running", "running")
        assert (await numbers(client))["palimpsest_waiting_runs"] == 2

        refused = await client.http.post("/v1/sessions", json={"task": "fourth"})
        assert_refused(refused, 429, "too_many_runs")
        assert int(refused.headers["retry-after"]) >= 1
        begin = {"content": "begin", "id": "01936f5e-8d2a-7c3b-9f1e-2a4b6c8d0e1f"}
        refused = await client.http.post(f"/v1/sessions/{idle['id']}/queue", json=begin)
        assert_refused(refused, 429, "too_many_runs")
        assert len((await client.get("/v1/sessions"))["items"]) == 4
        more = await client.post(second["id"], "and more")

        async with asyncio.timeout(CANCEL_S):
            assert (await client.http.post(f"/v1/sessions/{third['id']}/cancel")).status_code == 202
            await client.until_idle(third["id"])
        assert (await client.session(third["id"]))["outcome"] == "cancelled"
        assert [request.first_user_text for request in provider.requests] == ["first"], "it has not begun"
        async with asyncio.timeout(CANCEL_S):
            while (await numbers(client))["palimpsest_running_sessions"] > 1:
                pass
        assert (await client.http.post(f"/v1/sessions/{idle['id']}/queue", json=begin)).status_code == 202
        refused = await client.http.post(f"/v1/sessions/{third['id']}/resume")
        assert_refused(refused, 429, "too_many_runs")
        refused = await client.http.post(f"/v1/sessions/{first['id']}/resume")
        assert_refused(refused, 409, "session_running")

        provider.open("hold")
        for session_id in (first["id"], second["id"], idle["id"]):
            await client.until_idle(session_id)
            assert (await client.session(session_id))["outcome"] == "completed"
            await assert_sound(client, session_id)
        begun_in_order = [request.last_user_text for request in provider.requests]
        assert begun_in_order == ["first", "and more", "begin"]
        events = await client.until_idle(second["id"])
        assert [event.data["message_id"] for event in of_type(events, "message.dequeued")][1:] == [more["id"]]
        assert (await client.http.post(f"/v1/sessions/{third['id']}/resume")).status_code == 202
        await client.until_idle(third["id"])
        found = await numbers(client)
        assert (found["palimpsest_waiting_runs"], found["palimpsest_runs_refused_total"]) == (0, 3)


async def test_runs_waiting_at_shutdown_are_started_by_the_next_server(
    start_server: StartServer, provider: FakeProvider
) -> None:
    provider.script_for("task 0", Reply(Gate("never"), Text("late")), Reply(Text("done")))
    server = start_server(max_runs=1)
    async with Client(server.url) as client:
        ids = [(await client.create(f"task {number}"))["id"] for number in range(4)]
        await provider.reached("never")
    await asyncio.to_thread(server.stop)
    async with Client((await asyncio.to_thread(lambda: start_server(max_runs=1, max_waiting_runs=0))).url) as client:
        for session_id in ids:
            await client.until_idle(session_id)
            assert (await client.session(session_id))["outcome"] == "completed"
            await assert_sound(client, session_id)


async def test_readers_beyond_the_limit_are_told_to_retry(start_server: StartServer, provider: FakeProvider) -> None:
    async with Client(start_server(max_readers=2).url) as client:
        session = await client.create()
        path = f"/v1/sessions/{session['id']}/events"
        async with client.http.stream("GET", path) as one, client.http.stream("GET", "/v1/events") as two:
            assert (one.status_code, two.status_code) == (200, 200)
            for refused in (await client.http.get(path), await client.http.get("/v1/events")):
                assert_refused(refused, 503, "too_many_readers")
                assert int(refused.headers["retry-after"]) >= 1
            accept = {"Accept": "text/event-stream"}
            refused = await client.http.post("/v1/sessions", json={"task": "x"}, headers=accept)
            assert_refused(refused, 503, "too_many_readers")
            assert len((await client.get("/v1/sessions"))["items"]) == 1, "none was made that nobody knows of"
            found = await numbers(client)
            assert (found["palimpsest_stream_readers"], found["palimpsest_readers_refused_total"]) == (2, 3)
            await client.post(session["id"], "hello")
            async for event in read_events(one):
                if event.type == "session.idle":
                    break
        async with asyncio.timeout(60):
            while (await numbers(client))["palimpsest_stream_readers"]:
                pass
        assert (await client.until_idle(session["id"]))[-1].type == "session.idle"


async def test_concurrent_streams_of_new_sessions_create_no_unknown_session(
    start_server: StartServer, provider: FakeProvider
) -> None:
    async with Client(start_server(max_readers=1).url) as client:
        accept = {"Accept": "text/event-stream"}
        answers = await asyncio.gather(
            *[client.http.post("/v1/sessions", json={"task": f"task {n}"}, headers=accept) for n in range(5)]
        )
        told = [answer.headers["session-id"] for answer in answers if answer.status_code == 200]
        assert told
        assert sorted(s["id"] for s in (await client.get("/v1/sessions"))["items"]) == sorted(told)


async def test_a_manual_compaction_takes_a_slot_in_the_queue(start_server: StartServer, provider: FakeProvider) -> None:
    provider.script_for("hold", Reply(Gate("hold"), Text("done")))
    async with Client(start_server(max_runs=1, max_waiting_runs=0).url) as client:
        idle, _ = await client.run("before")
        busy = await client.create("hold")
        await provider.reached("hold")
        refused = await client.http.post(f"/v1/sessions/{idle['id']}/compactions", json={})
        assert_refused(refused, 429, "too_many_runs")
        assert int(refused.headers["retry-after"]) >= 1
        assert (await client.get(f"/v1/sessions/{idle['id']}/compactions"))["items"] == []
        assert (await numbers(client))["palimpsest_waiting_runs"] == 0
        asked = await client.http.post(f"/v1/sessions/{busy['id']}/compactions", json={})
        assert asked.status_code == 202, "a run under way takes no further place"
        provider.open("hold")
        await client.until_idle(busy["id"])


@pytest.mark.bubblewrap
async def test_a_call_waits_for_a_sandbox_that_another_session_uses(
    start_server: StartServer, provider: FakeProvider
) -> None:
    command = ToolCall("execute_command", {"command": "echo it ran"})
    provider.script_for("first", Reply(command), Reply(Gate("hold"), Text("done")))
    provider.script_for("second", Reply(command), Reply(Text("done")))
    async with Client(start_server(max_sandboxes=1).url) as client:
        first = await client.create("first")
        await provider.reached("hold")
        second = await client.create("second")
        await client.wait_for(second["id"], shows("tool.call"))
        async with asyncio.timeout(60):
            while (await numbers(client))["palimpsest_sandbox_waiters"] == 0:
                pass
        assert (await numbers(client))["palimpsest_sandboxes"] == 1
        provider.open("hold")
        for session in (first, second):
            events = await client.until_idle(session["id"])
            assert [event.data["status"] for event in of_type(events, "tool.result")] == ["completed"]
            assert (await client.session(session["id"]))["outcome"] == "completed"


@pytest.mark.bubblewrap
async def test_a_call_without_a_sandbox_in_time_tells_the_model(
    start_server: StartServer, provider: FakeProvider
) -> None:
    command = ToolCall("execute_command", {"command": "echo it ran"})
    provider.script_for("first", Reply(command), Reply(Gate("hold"), Text("done")))
    provider.script_for("second", Reply(command), Reply(Text("I could not.")))
    async with Client(start_server(max_sandboxes=1, sandbox_wait_s=0).url) as client:
        first = await client.create("first")
        await provider.reached("hold")
        session, events = await client.run("second")
        (result,) = of_type(events, "tool.result")
        assert (result.data["status"], session["outcome"]) == ("error", "completed")
        assert "All 1 sandboxes are in use" in result.data["output"]
        assert (await numbers(client))["palimpsest_sandboxes_refused_total"] == 1
        provider.open("hold")
        await client.until_idle(first["id"])


@pytest.mark.extended
@pytest.mark.bubblewrap
async def test_without_a_background_slot_a_summary_is_made_when_it_is_due(
    start_server: StartServer, provider: FakeProvider
) -> None:
    provider.configure(window=32_000)
    provider.respond(Steady(summary_after()))
    provider.open("near")
    async with Client(start_server(models=WINDOWS, max_background_summaries=0).url) as client:
        session_id = await begun(client)
        events = await client.until_idle(session_id)
        assert (await client.session(session_id))["outcome"] == "completed"
        started = of_type(events, "compaction.started")
        assert started
        assert not any(event.data["background"] for event in started)
        found = await numbers(client)
        assert found["palimpsest_background_summaries_refused_total"] > 0
        assert found["palimpsest_background_summaries"] == 0
        made = [value for name, value in found.items() if name.startswith("palimpsest_compactions_total")]
        assert sum(made) == len(of_type(events, "compaction.completed")) > 0
        assert found['palimpsest_compaction_tokens_total{kind="output"}'] > 0


@pytest.mark.bubblewrap
async def test_a_run_that_waits_for_approval_frees_its_slot(start_server: StartServer, provider: FakeProvider) -> None:
    command = ToolCall("execute_command", {"command": "echo it ran"})
    provider.script_for("ask", Reply(command), Reply(Text("done")))
    async with Client(start_server(max_runs=1, max_waiting_runs=1).url) as client:
        asks = await client.create("ask", approval={"policy": "always"})
        asked = await client.wait_for(asks["id"], shows("approval.requested"))
        for number in range(2):
            session, _ = await client.run(f"meanwhile {number}")
            assert session["outcome"] == "completed"
        answer = f"/v1/sessions/{asks['id']}/approvals/{asked.data['call_id']}"
        assert (await client.http.post(answer, json={"decision": "approve"})).status_code == 204
        events = await client.until_idle(asks["id"])
        assert [event.data["status"] for event in of_type(events, "tool.result")] == ["completed"]
        assert (await client.session(asks["id"]))["outcome"] == "completed"
