"""A looping model is told so, and then its run is ended."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.behavior.checks import assert_sound
from tests.behavior.combinations import first_of
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, RunningServer, command, of_type
from tests.behavior.test_memory import run_in
from tests.provider import FakeProvider, Gate, Reply, Text, ToolCall

pytestmark = pytest.mark.shared_server


def read(path: str) -> ToolCall:
    return ToolCall("read_file", {"path": path})


async def notes_of(client: Client, session_id: str) -> list[int]:
    """The number of steps before each note of the guard."""
    steps, notes = 0, []
    for message in await client.messages(session_id):
        steps += message["role"] == "assistant"
        if message["role"] == "control" and "same calls" in message["parts"][0]["text"]:
            notes.append(steps)
    return notes


@first_of(model=[OPENAI, ANTHROPIC])
async def test_the_same_call_again_and_again_ends_the_run(client: Client, provider: FakeProvider, model: str) -> None:
    provider.script(*[Reply(Text(f"try {n}"), read("missing")) for n in range(6)], Reply(Text("I am stuck")))
    session, _ = await client.run("task", model=model)

    assert (session["outcome"], session["error"]["code"]) == ("limit_reached", "loop_guard")
    assert await notes_of(client, session["id"]) == [3]
    assert "same calls" in provider.requests[3].last_user_text
    assert (session["steps"], len(provider.requests)) == (7, 7)
    assert (await client.messages(session["id"]))[-1]["parts"][0]["text"] == "I am stuck"

    provider.script(*[Reply(read("missing"))] * 2, Reply(Text("done")))
    await client.resume(session["id"])
    await client.until_idle(session["id"])
    assert (await client.session(session["id"]))["outcome"] == "completed"
    assert await notes_of(client, session["id"]) == [3], "a resume begins anew"
    await assert_sound(client, session["id"])
    assert provider.refusals == []


async def test_a_note_may_help(client: Client, provider: FakeProvider) -> None:
    again = [Reply(read("missing"))] * 3
    provider.script(*again, Reply(command("echo other")), *again, Reply(Text("done")))
    session, _ = await client.run("task")
    assert (session["outcome"], await notes_of(client, session["id"])) == ("completed", [3, 7])


async def test_another_result_is_progress(client: Client, provider: FakeProvider) -> None:
    count = command("echo x >>n; wc -l <n")
    provider.script(*[Reply(count)] * 8, Reply(Text("done")))
    session, _ = await client.run("task")
    assert (session["outcome"], await notes_of(client, session["id"])) == ("completed", [])


async def test_loops_of_two_and_of_parallel_calls_are_detected(client: Client, provider: FakeProvider) -> None:
    provider.script_for("two", *[Reply(read("a")), Reply(read("b"))] * 6, Reply(Text("stuck")))
    provider.script_for("both", *[Reply(read("a"), read("b"), read("a"))] * 6, Reply(Text("stuck")))
    provider.script_for("one moves", *[Reply(read("a"), command(f"echo {n}")) for n in range(8)], Reply(Text("done")))
    two, _ = await client.run("two")
    both, _ = await client.run("both")
    moves, _ = await client.run("one moves")

    assert (two["error"]["code"], await notes_of(client, two["id"])) == ("loop_guard", [6])
    assert (both["error"]["code"], await notes_of(client, both["id"])) == ("loop_guard", [3])
    assert (moves["outcome"], await notes_of(client, moves["id"])) == ("completed", [])


async def test_a_user_message_resets_the_guard(client: Client, provider: FakeProvider) -> None:
    for _ in range(3):
        provider.script(*[Reply(read("missing"))] * 2, Reply(Text("no")))
    session, _ = await client.run("task")
    for _ in range(2):
        await run_in(client, session["id"], "look again")
    assert await notes_of(client, session["id"]) == []


async def test_a_restart_does_not_forget_the_loop(
    start_server: Callable[..., RunningServer], provider: FakeProvider
) -> None:
    server = start_server()
    again, lost = Reply(read("missing")), Reply(Gate("never"), Text("lost"))
    provider.script(*[again] * 4, lost, *[again] * 2, Reply(Text("stuck")))
    async with Client(server.url) as client:
        session_id = (await client.create("task"))["id"]
        await provider.reached("never")
    server.stop()
    provider.open("never")
    async with Client(start_server().url) as client:
        events = await client.until_idle(session_id)
        assert of_type(events, "session.idle")[-1].data["error"]["code"] == "loop_guard"
        assert await notes_of(client, session_id) == [3]
        calls = [event for event in of_type(events, "tool.call") if event.data["name"] == "read_file"]
        assert len(calls) == 6


@pytest.mark.parametrize(("tell", "end", "notes"), [(0, 3, []), (2, 0, [2])])
async def test_the_guard_can_be_set(
    start_server: Callable[..., RunningServer], provider: FakeProvider, tell: int, end: int, notes: list[int]
) -> None:
    provider.script(*[Reply(read("missing"))] * 8, Reply(Text("done")))
    async with Client(start_server(loop_guard_tell=tell, loop_guard_end=end).url) as client:
        session, _ = await client.run("task")
        assert (session["outcome"], await notes_of(client, session["id"])) == ("completed", notes)
