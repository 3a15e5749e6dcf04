"""Inputs larger than the model's window: refused before they are accepted, or shown with head and tail; the session
stays usable each time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.behavior.checks import assert_sound
from tests.behavior.combinations import across, first_of
from tests.behavior.conftest import StartServer
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, Event, RunningServer, command, of_type, shows
from tests.behavior.long_task import works_on
from tests.behavior.rounds import POLICIES, POLICIES_ON_WIRES, says
from tests.provider import FakeProvider, Gate, RecordedRequest, Reply, Text, ToolCall

WINDOW, LARGE = 16_000, 200_000
ROOMY = {OPENAI: "fake-openai/roomy", ANTHROPIC: "fake-anthropic/roomy"}
MOST_CALLS = 40
"""Maximum model calls of a step with its rounds."""


def text_of(tokens: int, name: str = "line") -> str:
    """Numbered lines of about `tokens` tokens."""
    lines: list[str] = []
    length = 0
    while length < 4 * tokens:
        lines.append(f"{name} {len(lines)} has some words in it.")
        length += len(lines[-1]) + 1
    return "\n".join(lines)


HUGE = text_of(3 * WINDOW)


@pytest.fixture
def server(server_with: StartServer, provider: FakeProvider) -> RunningServer:
    provider.configure(window=WINDOW, windows={"roomy": LARGE})
    provider.respond(works_on)
    sizes = dict.fromkeys((OPENAI, ANTHROPIC), WINDOW) | dict.fromkeys(ROOMY.values(), LARGE)
    return server_with(models={name: {"context_window": size} for name, size in sizes.items()})


def refused(response: Any) -> dict[str, Any]:
    """The problem of a refused message."""
    assert response.status_code == 413, response.text
    problem: dict[str, Any] = response.json()
    assert problem["code"] == "message_too_large"
    assert problem["tokens"] > problem["room"] > 0
    assert problem["room"] < WINDOW
    for figure in (problem["tokens"], problem["room"]):
        assert f"{figure:,}" in problem["detail"]
    return problem


async def clipped(client: Client, session_id: str, step: int | None = None) -> dict[str, str]:
    """The user messages that the context shows with head and tail only, by id."""
    shown = await client.get(f"/v1/sessions/{session_id}/context", **({"step": step} if step is not None else {}))
    return {
        item["message"]["id"]: "".join(part.get("text", "") for part in item["message"]["parts"])
        for item in shown["messages"]
        if item["reason"] == "clip" and item["message"]["role"] == "user"
    }


async def assert_usable(client: Client, provider: FakeProvider, session_id: str) -> list[Event]:
    """The session answers once more, every request was sound and fitted, and no step took many calls."""
    before = len(provider.requests)
    await says(client, session_id, "and now?")
    assert len(provider.requests) - before <= MOST_CALLS
    assert provider.broken == []
    return await assert_sound(client, session_id)


def assert_spilled(shown: str, message_id: str, whole: str) -> None:
    assert shown[:100] == whole[:100]
    assert shown[-100:] == whole[-100:]
    assert len(shown) < len(whole)
    left_out = int(shown.partition("[… ")[2].partition(" characters left out here")[0].replace(",", ""))
    head, _, rest = shown.partition("\n[… ")
    assert len(whole) == len(head) + left_out + len(rest.partition("]\n")[2])
    assert f'recall("{message_id}")' in shown
    assert f".palimpsest/messages/{message_id}.txt" in shown


@first_of(model=[OPENAI, ANTHROPIC])
async def test_a_task_is_refused_before_a_session_is_made(
    server: RunningServer, provider: FakeProvider, model: str
) -> None:
    async with Client(server.url) as client:
        problem = refused(await client.http.post("/v1/sessions", json={"model": model, "task": HUGE}))
        assert problem["tokens"] == pytest.approx(len(HUGE) / 4, rel=0.2)
        assert (await client.get("/v1/sessions"))["items"] == []
        assert provider.requests == []

        # A message that just fits is accepted and sent whole.
        task = text_of(problem["room"] - 1_500)
        session, _ = await client.run(task, model=model)
        assert (session["outcome"], session["compaction"]["count"]) == ("completed", 0)
        assert task in provider.requests[-1].user_texts
        await assert_usable(client, provider, session["id"])


@first_of(policy=POLICIES)
async def test_a_message_is_refused_before_it_is_queued(
    server: RunningServer, provider: FakeProvider, policy: str
) -> None:
    async with Client(server.url) as client:
        session, _ = await client.run("the task", compaction=policy)
        path, last_seq = f"/v1/sessions/{session['id']}/queue", session["last_seq"]
        for mode in ("steer", "follow_up", "interrupt"):
            refused(await client.http.post(path, json={"content": HUGE, "mode": mode}))
        assert (await client.session(session["id"]))["last_seq"] == last_seq
        assert (await client.get(path))["items"] == []
        await assert_usable(client, provider, session["id"])


async def test_an_edit_that_cannot_fit_leaves_the_message_as_it_was(
    server: RunningServer, provider: FakeProvider
) -> None:
    provider.script(Reply(Gate("busy"), Text("done")))
    async with Client(server.url) as client:
        session = await client.create("the task")
        await provider.reached("busy")
        receipt = await client.post(session["id"], "short", "follow_up")
        path = f"/v1/sessions/{session['id']}/queue"
        refused(await client.http.patch(f"{path}/{receipt['id']}", json={"content": HUGE}))
        (pending,) = (await client.get(path))["items"]
        assert pending["content"] == "short"
        provider.open("busy")
        await client.until_idle(session["id"])


async def test_a_repeated_accepted_message_gets_the_same_response(
    server: RunningServer, provider: FakeProvider
) -> None:
    async with Client(server.url) as client:
        session, _ = await client.run("the task", model=ROOMY[OPENAI])
        id = "01920000-0000-7000-8000-000000000001"
        await client.post(session["id"], HUGE, id=id)
        await client.until_idle(session["id"])
        await client.change(session["id"], model=OPENAI)
        response = await client.http.post(f"/v1/sessions/{session['id']}/queue", json={"content": HUGE, "id": id})
        assert (response.status_code, response.json()["status"]) == (202, "delivered")


async def test_an_assumed_window_refuses_nothing(start_server: StartServer, provider: FakeProvider) -> None:
    """It is a guess: what does not fit the real window is spilled when that is learned."""
    provider.configure(window=WINDOW, overflow="openai", documents={"/v1/models": {"data": []}})
    provider.respond(works_on)
    async with Client(start_server(models={}).url) as client:
        session, _ = await client.run(HUGE)
        assert (session["outcome"], session["error"], session["context"]["limit"]) == ("completed", None, WINDOW)
        ((id, shown),) = (await clipped(client, session["id"])).items()
        assert_spilled(shown, id, HUGE)
        refused(await client.http.post(f"/v1/sessions/{session['id']}/queue", json={"content": HUGE}))
        await assert_usable(client, provider, session["id"])


def call(id: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "look", "arguments": arguments}}


def imported(place: str) -> list[dict[str, Any]]:
    """A history with one item of three windows in it."""
    texts = {name: HUGE if name == place else f"the {name} text" for name in ("first", "middle", "answer", "result")}
    arguments = json.dumps({"text": HUGE if place == "arguments" else "short"})
    return [
        {"role": "user", "content": texts["first"]},
        {"role": "assistant", "content": "Well."},
        {"role": "user", "content": texts["middle"]},
        {"role": "assistant", "content": texts["answer"], "tool_calls": [call("c1", arguments)]},
        {"role": "tool", "tool_call_id": "c1", "content": texts["result"]},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "And the last?"},
    ]


@across(policy=POLICIES, place=["first", "middle", "answer", "arguments", "result"])
async def test_an_import_with_an_oversized_item_anywhere(
    server: RunningServer, provider: FakeProvider, policy: str, place: str
) -> None:
    async with Client(server.url) as client:
        history = {"format": "openai", "messages": imported(place)}
        session, events = await client.run("go on", compaction=policy, history=history)
        assert (session["outcome"], session["error"]) == ("completed", None)
        assert of_type(events, "compaction.completed") or place == "result", "results are clipped as they come in"
        assert len(provider.requests) <= MOST_CALLS
        await assert_usable(client, provider, session["id"])


@first_of(policy=POLICIES)
async def test_an_import_that_ends_with_an_oversized_item_is_refused(
    server: RunningServer, provider: FakeProvider, policy: str
) -> None:
    async with Client(server.url) as client:
        messages = [{"role": "user", "content": "the task"}, {"role": "assistant", "content": "Well."}]
        history = {"format": "openai", "messages": [*messages, {"role": "user", "content": HUGE}]}
        refused(await client.http.post("/v1/sessions", json={"compaction": policy, "history": history}))
        assert (await client.get("/v1/sessions"))["items"] == []


@first_of(policy=POLICIES)
async def test_a_tool_result_and_standing_notes_of_three_windows(
    server: RunningServer, provider: FakeProvider, policy: str
) -> None:
    async with Client(server.url) as client:
        session = await client.create(compaction=policy)
        for name in ("AGENTS.md", "MEMORY.md", "large.txt"):
            response = await client.http.put(f"/v1/sessions/{session['id']}/files/{name}", content=HUGE.encode())
            assert response.is_success, response.text
        provider.script(
            Reply(command("cat large.txt")),
            Reply(ToolCall("read_file", {"path": "large.txt"})),
        )
        await says(client, session["id"], "read it")
        system = provider.requests[0].system
        assert "line 0 has some words" in system
        assert len(system) < 4 * WINDOW // 2
        await assert_usable(client, provider, session["id"])


@pytest.mark.parametrize(("policy", "model"), POLICIES_ON_WIRES)
@first_of(place=["task", "message"])
async def test_a_smaller_model_spills_what_was_accepted(
    server: RunningServer, provider: FakeProvider, policy: str, model: str, place: str
) -> None:
    large = text_of(100_000)
    async with Client(server.url) as client:
        if place == "task":
            session, _ = await client.run(large, model=ROOMY[model], compaction=policy)
        else:
            session, _ = await client.run("the task", model=ROOMY[model], compaction=policy)
            await says(client, session["id"], large)
        id = session["id"]
        stored = await client.messages(id)
        await client.change(id, model=model)
        before = len(provider.requests)
        await says(client, id, "go on with that")
        assert len(provider.requests) - before <= MOST_CALLS
        kept = await client.messages(id)
        for old, new in zip(stored, kept, strict=False):
            assert {**old, "round": None} == {**new, "round": None}, "nothing stored is changed"
        await assert_usable(client, provider, id)


@pytest.mark.parametrize(("policy", "model"), POLICIES_ON_WIRES)
async def test_messages_that_fit_alone_and_not_together(
    server: RunningServer, provider: FakeProvider, policy: str, model: str
) -> None:
    texts = [text_of(int(0.55 * WINDOW), "first"), text_of(int(0.55 * WINDOW), "second")]
    provider.script(Reply(Gate("busy"), Text("done")))
    async with Client(server.url) as client:
        session = await client.create("the task", model=model, compaction=policy)
        await client.wait_for(session["id"], shows("step.started"))
        posted = [await client.post(session["id"], text) for text in texts]
        provider.open("busy")
        await client.until_idle(session["id"])
        session = await client.session(session["id"])
        assert (session["outcome"], session["error"]) == ("completed", None)
        asked = "\n".join(provider.requests[-1].user_texts)
        for receipt, text in zip(posted, texts, strict=True):
            assert text[:100] in asked
            assert text[-100:] in asked
            assert f'recall("{receipt["id"]}")' in asked
        assert len(provider.requests) <= MOST_CALLS
        await assert_usable(client, provider, session["id"])


def recalls(texts: Iterator[dict[str, Any]]) -> Callable[[RecordedRequest], Reply]:
    def respond(request: RecordedRequest) -> Reply:
        arguments = next(texts, None)
        return works_on(request) if arguments is None else Reply(ToolCall("recall", arguments))

    return respond


async def test_omitted_text_can_be_read_in_full(start_server: StartServer, provider: FakeProvider) -> None:
    """By `recall`, by lines and by pattern, and as a file of the workspace; after a restart the context is the same."""
    provider.configure(window=WINDOW, windows={"roomy": LARGE})
    provider.respond(works_on)
    sizes = {OPENAI: WINDOW, ROOMY[OPENAI]: LARGE}
    server = start_server(models={name: {"context_window": size} for name, size in sizes.items()})
    large = text_of(100_000)
    async with Client(server.url) as client:
        session, _ = await client.run(large, model=ROOMY[OPENAI])
        id = session["id"]
        await client.change(id, model=OPENAI)
        await says(client, id, "go on")
        ((message_id, shown),) = (await clipped(client, id)).items()
        assert_spilled(shown, message_id, large)
        file = await client.http.get(f"/v1/sessions/{id}/files/.palimpsest/messages/{message_id}.txt")
        assert (file.status_code, file.text) == (200, large)

        lines = large.split("\n")
        asked: list[dict[str, Any]] = [
            {"call_id": message_id, "start_line": 2_000, "end_line": 2_010},
            {"call_id": message_id, "grep": "line 2222 has"},
        ]
        provider.respond(recalls(iter(asked)))
        await says(client, id, "look it up")
        results = [
            part["output"]
            for message in await client.messages(id)
            for part in message["parts"]
            if part["type"] == "tool_result"
        ]
        assert "\n".join(lines[1_999:2_010]) in results[0]
        assert lines[2_222] in results[1]
        provider.respond(works_on)
        step = (await client.steps(id))[-1]["step"]
        contexts = [await client.get(f"/v1/sessions/{id}/context", step=number) for number in range(1, step + 1)]

        # A fork shows the same, under its own ids.
        response = await client.http.post(f"/v1/sessions/{id}/fork", json={})
        assert response.status_code == 201, response.text
        fork = response.json()["id"]
        assert len(await clipped(client, fork)) == 1
        await assert_usable(client, provider, fork)
    server.stop()

    again = start_server(models={name: {"context_window": size} for name, size in sizes.items()})
    async with Client(again.url) as client:
        shown_again = [await client.get(f"/v1/sessions/{id}/context", step=number) for number in range(1, step + 1)]
        for before, after in zip(contexts, shown_again, strict=True):
            assert {**before, "last_seq": 0} == {**after, "last_seq": 0}
        assert (await clipped(client, id)).keys() == {message_id}

        # Reverting the round brings the whole message back, and the next step spills it once more.
        rounds = (await client.get(f"/v1/sessions/{id}/compactions"))["items"]
        for made in reversed([r for r in rounds if r["status"] == "completed"]):
            response = await client.http.delete(f"/v1/sessions/{id}/compactions/{made['round']}")
            assert response.status_code == 204, response.text
        assert await clipped(client, id) == {}
        await assert_usable(client, provider, id)
        assert (await clipped(client, id)).keys() == {message_id}
