"""Commands in the background: they outlive the call that starts them, and the model and clients can look at them."""

from __future__ import annotations

import re
import signal
from typing import Any

import pytest

from tests.behavior.checks import assert_sound, following
from tests.behavior.conftest import StartProcess, StartServer
from tests.behavior.harness import Client, Event, command, of_type
from tests.behavior.test_cancel_resume import cancel
from tests.provider import FakeProvider, Gate, Hang, RecordedRequest, Reply, Text, ToolCall
from tests.unit.sandbox.shell import sleepers, unique_seconds, until_gone, until_sleeping

SERVER = {
    "bubblewrap": (
        "python3 -u -m http.server 8765 --bind 127.0.0.1",
        'python3 -c "{}"'.format(
            "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8765/greeting').read().decode())"
        ),
    ),
    "docker": ("httpd -f -p 8765", "wget -qO- http://127.0.0.1:8765/greeting"),
}


def background(text: str) -> ToolCall:
    return ToolCall("execute_command", {"command": text, "background": True})


def started(request: RecordedRequest) -> str:
    """The id of the last command that was started."""
    found = re.findall(r"\[command_id (\S+):", "\n".join(request.tool_results.values()))
    return str(found[-1])


def of_command(name: str, **more: Any) -> Any:
    return lambda request: Reply(ToolCall(name, {"command_id": started(request), **more}))


async def commands(client: Client, session_id: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await client.get(f"/v1/sessions/{session_id}/commands"))["items"]
    return items


def outputs(events: list[Event]) -> list[str]:
    return [event.data["output"] for event in of_type(events, "tool.result")]


@pytest.mark.shared_server
async def test_a_server_started_in_one_step_answers_in_the_next(
    client: Client, provider: FakeProvider, sandbox: str
) -> None:
    server, ask = SERVER[sandbox]
    provider.script(
        Reply(command("echo hello > greeting")),
        Reply(background(f"echo ready; {server}")),
        of_command("command_output", wait_s=10, since=0),
        Reply(command(f"for i in 1 2 3 4 5 6 7 8 9; do {ask} && break; sleep 0.2; done 2>/dev/null")),
        of_command("stop_command"),
        Reply(command(f"{ask} 2>/dev/null")),
        Reply(Text("done")),
    )
    session, events = await client.run("serve")

    shown = outputs(events)
    assert shown[1].endswith(": running]")
    assert shown[2].startswith("ready\n")
    assert "running; since=" in shown[2]
    assert "hello" in shown[3]
    assert shown[4] == "[stopped]"
    assert of_type(events, "tool.result")[5].data["exit_code"] == 1
    offered = [{"command_output", "stop_command"} <= set(request.tool_names) for request in provider.requests]
    assert offered == [False] * 2 + [True] * 5, "once there is something to look at"
    (row,) = await commands(client, session["id"])
    assert (row["status"], row["command_id"]) == ("stopped", of_type(events, "tool.result")[1].data["call_id"])
    assert [event.data["status"] for event in of_type(events, "command.ended")] == ["stopped"]
    assert not any("have ended" in text for text in provider.requests[-1].user_texts), "it knows already"
    await assert_sound(client, session["id"])


@pytest.mark.shared_server
async def test_the_model_is_told_of_an_end_and_its_cached_prefix_holds(client: Client, provider: FakeProvider) -> None:
    provider.script(
        Reply(background("echo $TOKEN; i=0; while [ $i -lt 30000 ]; do i=$((i+1)); echo line $i; done; exit 3")),
        Reply(Gate("ended"), command("true")),
        Reply(Text("done")),
    )
    secret = "cAnary/+=7f3a9c"
    session_id = (await client.create("task", secrets={"TOKEN": secret}))["id"]
    async with following(client, session_id) as follower:
        await follower.type("command.ended")
        provider.open("ended")
        await follower.type("session.idle")
    last = provider.requests[-1]
    assert "ended with exit code 3" in last.last_user_text
    assert last.shared_tokens >= provider.requests[-2].tokens
    (row,) = await commands(client, session_id)
    whole = "[secret TOKEN]\n" + "".join(f"line {number}\n" for number in range(1, 30_001))
    assert (row["status"], row["exit_code"], row["bytes"]) == ("exited", 3, len(whole))
    path = f"/v1/sessions/{session_id}/commands/{row['command_id']}/output"
    first = await client.get(path)
    rest = await client.get(path, since=first["next_since"])
    assert first["output"] + rest["output"] == whole
    call = await client.http.get(f"/v1/sessions/{session_id}/tool-calls/{row['command_id']}/output")
    assert call.text == whole, "it is the output of the call too"
    assert secret not in str(await assert_sound(client, session_id))


async def test_a_command_ends_with_a_request_or_a_cancelled_run(
    client: Client, provider: FakeProvider, sandbox: str
) -> None:
    seconds = unique_seconds()
    provider.script(Reply(background(f"sleep {seconds}")), Reply(Text("done")))
    session, _ = await client.run("task")
    await until_sleeping(seconds)
    (row,) = await commands(client, session["id"])
    assert (row["status"], session["status"]) == ("running", "idle"), "it outlives its run"
    path = f"/v1/sessions/{session['id']}/commands/{row['command_id']}"
    assert [(await client.http.delete(path)).status_code for _ in range(2)] == [204, 204]
    await until_gone(seconds)
    assert (await client.http.delete(f"{path}x")).status_code == 404

    provider.script(Reply(background(f"sleep {seconds}")), Reply(Gate("never"), Text("done")))
    session_id = (await client.create("other"))["id"]
    async with following(client, session_id) as follower:
        await follower.type("command.started")
        await provider.reached("never")
        await cancel(client, session_id)
        await follower.type("session.idle")
    assert [item["status"] for item in await commands(client, session_id)] == ["cancelled"]
    assert sleepers(seconds) == 0


async def test_an_idle_sandbox_is_stopped_with_its_commands(start_server: StartServer, provider: FakeProvider) -> None:
    seconds = unique_seconds()
    provider.script(Reply(background(f"sleep {seconds}")), Reply(Text("done")))
    async with Client(start_server(sandbox_idle_s=0.1).url) as client:
        session, _ = await client.run("task")
        await client.wait_for(session["id"], lambda event: event.type == "command.ended")
        (row,) = await commands(client, session["id"])
        assert (row["status"], sleepers(seconds)) == ("sandbox_stopped", 0)
        provider.script(Reply(Text("I see.")))
        last_seq = (await client.session(session["id"]))["last_seq"]
        await client.say(session["id"], "Is it still running?", after=last_seq)
    assert "ended with its sandbox" in provider.requests[-1].last_user_text


async def test_a_command_of_a_killed_server_is_reported_as_interrupted(
    start_process: StartProcess, provider: FakeProvider, sandbox: str
) -> None:
    seconds = unique_seconds()
    provider.script(
        Reply(background(f"echo begun >> runs; echo begun; sleep {seconds}")),
        Reply(Gate("killed"), Hang()),
        Reply(command("cat runs")),
        Reply(Text("done")),
    )
    first = start_process()
    async with Client(first.url) as client:
        session_id = (await client.create("task"))["id"]
        await until_sleeping(seconds)
        await provider.reached("killed")
        first.end(signal.SIGKILL)
    async with Client(start_process().url) as client:
        await client.until_idle(session_id)
        (row,) = await commands(client, session_id)
        events = await assert_sound(client, session_id)
    assert row["status"] == "interrupted"
    assert sleepers(seconds) == 0
    assert any("interrupted: the service was restarted" in text for text in provider.requests[-1].user_texts)
    assert outputs(events)[-1] == "begun\n", "it ran once"
    assert len(of_type(events, "command.ended")) == 1


@pytest.mark.shared_server
async def test_no_more_than_the_tools_that_are_offered(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(background("sleep 600")), Reply(Text("done")))
    session, events = await client.run("task", tools=["execute_command"])
    (tool,) = provider.requests[0].body["tools"]
    assert "background" not in str(tool)
    assert outputs(events) == ["Error: This session cannot run commands in the background: it has no command_output."]
    assert await commands(client, session["id"]) == []


@pytest.mark.shared_server
async def test_a_progress_bar_does_not_hide_what_came_before_it(client: Client, provider: FakeProvider) -> None:
    bar = r"echo begun; i=0; while [ $i -lt 8000 ]; do i=$((i+1)); printf '\r%s' $i; done; echo; echo end"
    provider.script(Reply(background(bar)), of_command("command_output", wait_s=30), Reply(Text("Done.")))
    _, events = await client.run("task")
    assert outputs(events)[1].startswith("begun\n8000\nend\n[ended with exit code 0")
