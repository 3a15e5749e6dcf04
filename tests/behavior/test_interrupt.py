"""Messages to a working session: a steer takes effect at the next step, an interrupt at once."""

from __future__ import annotations

import asyncio

import pytest

from tests.behavior.checks import assert_sound, following, requests_of
from tests.behavior.harness import ANTHROPIC, Client, command, of_type
from tests.behavior.test_queue import WAIT_FOR_FILE, release
from tests.provider import FakeProvider, Gate, Hang, Reply, Text, ToolCall
from tests.unit.sandbox.shell import sleepers, unique_seconds

pytestmark = pytest.mark.shared_server


def stubborn(seconds: str) -> str:
    """A command whose processes try to outlive it."""
    return (
        f"trap '' TERM INT HUP; setsid sleep {seconds} & setsid sh -c 'sleep {seconds}; true' & (sleep {seconds} &);"
        f" echo partial; echo on stderr >&2; sleep {seconds}"
    )


async def test_a_steer_while_a_command_runs_is_in_the_very_next_request(
    client: Client, provider: FakeProvider, sandbox: str
) -> None:
    provider.script(Reply(command(WAIT_FOR_FILE)))
    session_id = (await client.create("task"))["id"]
    async with following(client, session_id) as follower:
        await follower.type("tool.output")
        receipt = await client.post(session_id, "look left")
        assert (receipt["position"], receipt["status"]) == (1, "pending")
        await release(client, session_id)
    await client.until_idle(session_id)

    assert [request.user_texts for request in provider.requests] == [("task",), ("task", "look left")]
    assert [message["role"] for message in provider.requests[1].messages[-2:]] == ["tool", "user"]
    events = await assert_sound(client, session_id)
    assert [event.data["status"] for event in of_type(events, "tool.result")] == ["completed"]
    assert provider.refusals == []


async def test_an_interrupt_kills_the_command_and_is_in_the_very_next_request(
    client: Client, provider: FakeProvider, sandbox: str
) -> None:
    seconds = unique_seconds()
    provider.script(Reply(command(stubborn(seconds))), Reply(Gate("next"), Text("ok")))
    session_id = (await client.create("task"))["id"]
    async with following(client, session_id) as follower:
        await follower.seen(lambda event: event.type == "tool.output" and "stderr" in event.data["text"])
        assert sleepers(seconds) > 0
        message = await client.post(session_id, "stop that", "interrupt")
        await provider.reached("next")
        left = sleepers(seconds)
        provider.open("next")
    await client.until_idle(session_id)

    assert left == 0, "no process of the command is left when the model hears of it"
    request = provider.requests[1]
    assert request.user_texts == ("task", "stop that")
    (output,) = request.tool_results.values()
    assert "partial" in output
    assert "on stderr" in output
    assert "cancelled by the user" in output
    events = await assert_sound(client, session_id)
    assert [event.data["status"] for event in of_type(events, "tool.result")] == ["cancelled"]
    assert [event.data["finish_reason"] for event in of_type(events, "step.finished")] == ["cancelled", "stop"]
    assert [event.data["message_id"] for event in of_type(events, "message.dequeued")][1:] == [message["id"]]
    assert len(of_type(events, "session.idle")) == 1
    assert provider.refusals == []


async def test_an_interrupt_keeps_the_text_so_far(client: Client, provider: FakeProvider) -> None:
    provider.script_for("task a", Reply(Text("half of "), Hang()))
    provider.script_for("task b", Reply(Text("half of "), Hang()))

    async def interrupted(task: str, model: str) -> None:
        session_id = (await client.create(task, model=model))["id"]
        async with following(client, session_id) as follower:
            await follower.type("text.delta")
            await client.post(session_id, "other way", "interrupt")
            await follower.type("session.idle")
        events = await assert_sound(client, session_id)
        (text, _) = of_type(events, "text.completed")
        assert (text.data["text"], text.data["interrupted"]) == ("half of ", True)
        assert requests_of(provider, task)[1].assistant_texts == ("half of ",)
        assert requests_of(provider, task)[1].last_user_text == "other way"

    await asyncio.gather(interrupted("task a", "fake-openai/model"), interrupted("task b", ANTHROPIC))
    assert provider.refusals == []


async def test_steers_and_interrupts_share_a_queue(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(Gate("first"), Text("never")), per_conversation=True)
    session_id = (await client.create("task"))["id"]
    await provider.reached("first")

    await client.post(session_id, "later", "follow_up")
    await client.post(session_id, "one", "steer")
    await client.post(session_id, "two", "interrupt")
    await client.until_idle(session_id)

    assert [request.user_texts for request in provider.requests] == [
        ("task",),
        ("task", "one", "two"),
        ("task", "one", "two", "later"),
    ]
    events = await assert_sound(client, session_id)
    assert [event.data["finish_reason"] for event in of_type(events, "step.finished")] == ["cancelled", "stop", "stop"]


async def test_an_interrupt_ends_parallel_and_waiting_calls(
    client: Client, provider: FakeProvider, sandbox: str
) -> None:
    seconds = unique_seconds()
    provider.script(
        Reply(
            ToolCall("list_directory", {"path": "."}),
            command(stubborn(seconds)),
            command("echo never > trace"),
            ToolCall("read_file", {"path": "trace"}),
        )
    )
    session_id = (await client.create("task"))["id"]
    async with following(client, session_id) as follower:
        await follower.seen(lambda event: event.type == "tool.output" and "stderr" in event.data["text"])
        await client.post(session_id, "stop", "interrupt")
        await follower.type("session.idle")

    assert sleepers(seconds) == 0
    events = await assert_sound(client, session_id)
    results = sorted(of_type(events, "tool.result"), key=lambda event: event.data["index"])
    assert [event.data["status"] for event in results] == ["completed", "cancelled", "cancelled", "cancelled"]
    assert "before it was started" in results[2].data["output"]
    assert (await client.http.get(f"/v1/sessions/{session_id}/files/trace")).status_code == 404
    assert list(provider.requests[1].tool_results) == [event.data["call_id"] for event in results]
    assert provider.refusals == []


async def test_an_interrupt_after_the_run_starts_a_new_one(client: Client, provider: FakeProvider) -> None:
    session_id = (await client.create("task"))["id"]
    await client.until_idle(session_id)

    await client.post(session_id, "again", "interrupt")
    await client.until_idle(session_id)

    events = await assert_sound(client, session_id)
    assert [event.data["finish_reason"] for event in of_type(events, "step.finished")] == ["stop", "stop"]
    assert provider.requests[-1].user_texts == ("task", "again")
