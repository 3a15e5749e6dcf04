"""What the model and clients see of calls and runs interrupted by the end of a server."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.behavior.checks import assert_sound, following, requests_of, user_texts
from tests.behavior.conftest import StartProcess
from tests.behavior.harness import Client, Event, durable, of_type, shows
from tests.provider import FakeProvider, Gate, Hang, HttpError, RecordedRequest, Reply, Text, ToolCall
from tests.unit.sandbox.shell import unique_seconds


async def _stored(folder: Path, size: int) -> None:
    """Waits until a call's output is stored; no event reports that."""
    async with asyncio.timeout(60):
        while sum(file.stat().st_size for file in folder.glob("*")) < size:  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.05)


def _recalls(request: RecordedRequest) -> Reply:
    (call_id,) = request.tool_results
    return Reply(ToolCall("recall", {"call_id": call_id, "grep": "line 2999"}))


@pytest.mark.parametrize("lines", [3, 3000])
async def test_output_before_a_kill_is_shown_and_can_be_recalled(
    start_process: StartProcess, provider: FakeProvider, tmp_path: Path, lines: int
) -> None:
    command = f"i=0; while [ $i -lt {lines} ]; do echo line $i; i=$((i+1)); done; sleep {unique_seconds()}"
    provider.script(Reply(ToolCall("execute_command", {"command": command})), _recalls, Reply(Text("the rest")))
    first = start_process()
    printed = "".join(f"line {number}\n" for number in range(lines))
    async with Client(first.url) as client:
        session_id = (await client.create("task"))["id"]
        await _stored(tmp_path / "data" / "outputs" / session_id, len(printed))
        first.end(signal.SIGKILL)

    async with Client(start_process().url) as client:
        await client.until_idle(session_id)
        events = await assert_sound(client, session_id)
        interrupted, recalled = of_type(events, "tool.result")
        call_id = interrupted.data["call_id"]
        assert interrupted.data["status"] == "interrupted"
        assert (interrupted.data["bytes"], interrupted.data["truncated"]) == (len(printed), lines == 3000)
        output = interrupted.data["output"]
        assert output.startswith("line 0\nline 1\nline 2\n")
        assert f"line {lines - 1}\n[interrupted: " in output
        assert output.endswith(f'recall("{call_id}") returns it, by lines or by grep]')
        assert provider.requests[1].tool_results[call_id] == output
        assert ("line 2999" in recalled.data["output"]) == (lines == 3000)
        raw = await client.http.get(f"/v1/sessions/{session_id}/tool-calls/{call_id}/output")
        assert raw.text == printed
    assert provider.refusals == []


async def test_a_call_that_printed_nothing_names_nothing_to_recall(
    start_process: StartProcess, provider: FakeProvider
) -> None:
    command = {"command": f"sleep {unique_seconds()}"}
    provider.script(Reply(ToolCall("execute_command", command)), Reply(Text("the rest")))
    first = start_process()
    async with Client(first.url) as client:
        session_id = (await client.create("task"))["id"]
        async with following(client, session_id) as follower:
            await follower.type("tool.call")
            await client.wait_for(session_id, shows("tool.call"))
            first.end(signal.SIGKILL)
    async with Client(start_process().url) as client:
        await client.until_idle(session_id)
        (result,) = of_type(await assert_sound(client, session_id), "tool.result")
    assert result.data["output"].startswith("[interrupted: ")
    assert "recall" not in result.data["output"]


async def test_a_restart_names_the_calls_that_its_end_cut_off(
    start_process: StartProcess, provider: FakeProvider
) -> None:
    """In the middle of their arguments, or while they ran; and names them once."""
    provider.script_for(
        "writing", Reply(ToolCall("write_file", {"path": "never", "content": ""}, chunks=3, pause=Hang())), Reply("end")
    )
    running = {"command": f"echo begun; sleep {unique_seconds()}"}
    provider.script_for("working", Reply(ToolCall("execute_command", running)), Reply(Gate("end"), Text("end")))
    first = start_process()
    ids = {}
    async with Client(first.url) as client:
        for task, reached in (("writing", "tool.arguments"), ("working", "tool.output")):
            ids[task] = (await client.create(task))["id"]
            await client.wait_for(ids[task], lambda event, kind=reached: event.type == kind)  # type: ignore[misc]
        first.end(signal.SIGTERM)
    second = start_process()
    async with Client(second.url) as client:
        await client.until_idle(ids["writing"])
        await provider.reached("end")
        second.end(signal.SIGKILL)
    provider.open("end")
    async with Client(start_process().url) as client:
        for task, session_id in ids.items():
            await client.until_idle(session_id)
            events = await assert_sound(client, session_id)
            (call,) = of_type(events, "tool.call")
            recovered = [
                (e.data["interrupted_step"], e.data["closed_calls"]) for e in of_type(events, "session.recovered")
            ]
            assert recovered[0] == (1, [call.data["call_id"]]), task
            assert recovered[1:] == ([(2, [])] if task == "working" else [])
    assert provider.refusals == []


async def test_a_server_told_to_shut_down_ends_its_streams_properly(
    start_process: StartProcess, provider: FakeProvider
) -> None:
    """No reader is cut off in the middle of an event, whatever its session is doing; the next server continues the
    runs."""
    running = {"command": f"echo begun; sleep {unique_seconds()}"}
    provider.script_for("writing", Reply(Text("half of it"), Hang()), Reply("end"))
    provider.script_for("working", Reply(ToolCall("execute_command", running)), Reply("end"))
    first = start_process()
    async with Client(first.url) as client, asyncio.TaskGroup() as readers:
        ids = [(await client.create(task))["id"] for task in ("writing", "working", "idle")]
        # An improper end raises the connection's error.
        tasks = [readers.create_task(_read(client, session_id)) for session_id in ids]
        await client.wait_for(ids[0], shows("text.delta"))
        await client.wait_for(ids[1], shows("tool.output"))
        await client.until_idle(ids[2])
        assert await asyncio.to_thread(first.end, signal.SIGTERM) in (0, -signal.SIGTERM)
    seen = [task.result() for task in tasks]
    async with Client(start_process().url) as client:
        for session_id, events in zip(ids, seen, strict=True):
            await client.until_idle(session_id)
            assert (await client.session(session_id))["outcome"] == "completed"
            assert (await assert_sound(client, session_id))[: len(events)] == events
    assert provider.refusals == []


async def _read(client: Client, session_id: str) -> list[Event]:
    """The durable events of a stream, until the server ends it."""
    return durable([event async for event in client.events(session_id)])


async def test_a_server_may_park_interrupted_runs(start_process: StartProcess, provider: FakeProvider) -> None:
    provider.script_for("begun", Reply(Text("half of it"), Hang()), Reply(Text("the rest")))
    provider.script_for("said", Reply(Text("fine")), Reply(Gate("never"), Hang()), Reply(Text("the rest")))
    first = start_process()
    async with Client(first.url) as client:
        begun = (await client.create("begun"))["id"]
        said, _ = await client.run("said")
        await client.wait_for(begun, shows("text.delta"))
        await client.post(begun, "later", "follow_up")
        first.end(signal.SIGKILL)
    async with Client(start_process(PALIMPSEST_RECOVER="park").url) as client:
        await client.until_idle(begun)
        session = await client.session(begun)
        assert (session["outcome"], session["error"]["code"]) == ("interrupted", "run_parked")
        assert session["queue"]["pending"] == 1
        assert (await client.session(said["id"]))["outcome"] == "completed"
        assert len(requests_of(provider, "begun")) == 1
        await client.resume(begun)
        await client.until_idle(begun)
        assert user_texts(await client.messages(begun)) == ["begun", "later"]
        assert (await client.session(begun))["outcome"] == "completed"
        await assert_sound(client, begun)
    assert provider.refusals == []


@pytest.mark.shared_server
async def test_follow_ups_wait_after_a_run_that_failed(client: Client, provider: FakeProvider) -> None:
    """Each would have had its own run, and probably failed; a new message delivers them too."""
    provider.script(Reply(Gate("step"), Text("x")), HttpError(402), Reply("1"), Reply("2"), Reply("3"))
    session_id = (await client.create("task"))["id"]
    await provider.reached("step")
    await client.post(session_id, "one more step")
    await client.post(session_id, "f1", "follow_up")
    await client.post(session_id, "f2", "follow_up")
    provider.open("step")
    await client.until_idle(session_id)
    session = await client.session(session_id)
    assert (session["outcome"], session["queue"]["pending"], len(provider.requests)) == ("failed", 2, 2)

    await client.say(session_id, "again")
    assert [request.last_user_text.split("\n")[-1] for request in provider.requests[2:]] == ["again", "f1", "f2"]
    events = await assert_sound(client, session_id)
    assert [e.data["outcome"] for e in of_type(events, "session.idle")] == ["failed"] + ["completed"] * 3
    assert provider.broken == []


@pytest.mark.shared_server
async def test_a_steer_too_late_for_a_failed_run_starts_the_next(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(Gate("step"), HttpError(402)), Reply("fine"), Reply("too"))
    session_id = (await client.create("task"))["id"]
    await provider.reached("step")
    await client.post(session_id, "later", "follow_up")
    await client.post(session_id, "and this")
    provider.open("step")
    await client.until_idle(session_id)
    assert user_texts(await client.messages(session_id)) == ["task", "and this", "later"]
    events = await assert_sound(client, session_id)
    assert [e.data["outcome"] for e in of_type(events, "session.idle")] == ["failed", "completed", "completed"]
