"""Snapshots: loaded state is consistent with the stream from its `last_seq` on; and the lists a client loads."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.behavior.combinations import first_of
from tests.behavior.conftest import StartServer
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, RunningServer, durable, of_type
from tests.behavior.replica import USAGE, Replica
from tests.behavior.stories import Story, turns
from tests.behavior.test_streams import RICH, SHARED_SERVER, read, stored
from tests.load import LONG
from tests.provider import FakeProvider, Gate, Reply, StreamError, Text, Tokens, ToolCall

pytestmark = pytest.mark.shared_server


async def load(client: Client, session_id: str, order: tuple[str, ...] = ("session", "messages", "queue")) -> Replica:
    """Loads the parts of a snapshot one after another, as a client does; the stream is followed from the oldest
    `last_seq`."""
    parts: dict[str, Any] = {}
    seqs: list[int] = []
    for name in order:
        if name == "session":
            parts[name] = await client.session(session_id)
        elif name == "queue":
            parts[name] = await client.get(f"/v1/sessions/{session_id}/queue")
        else:
            page = await client.get(f"/v1/sessions/{session_id}/messages", limit=500)
            assert page["next_cursor"] is None
            parts[name] = page
        seqs.append(parts[name]["last_seq"])
    replica = Replica()
    replica.load(parts["session"], parts["messages"]["items"], parts["queue"], min(seqs))
    return replica


async def load_and_follow(client: Client, session_id: str, order: tuple[str, ...]) -> Replica:
    replica = await load(client, session_id, order)
    await read(client, session_id, replica, after=replica.last_seq, until_idle=True)
    return replica


async def snapshots_at_events(client: Client, session_id: str, every: int = 1) -> tuple[Replica, list[Replica]]:
    """A steady reader, and, for each event it gets or each `every`-th, one that loads a snapshot and follows from
    there."""
    steady = Replica()
    late: list[asyncio.Task[Replica]] = []
    seen = 0
    orders = [("session", "messages", "queue"), ("queue", "messages", "session"), ("messages", "queue", "session")]
    async with asyncio.TaskGroup() as tasks:
        async for event in client.events(session_id, until_idle=True):
            steady.apply(event)
            seen += 1
            if len(late) < 60 and seen % every == 0:
                order = orders[len(late) % len(orders)]
                late.append(tasks.create_task(load_and_follow(client, session_id, order)))
    return steady, [task.result() for task in late]


@first_of(model=[OPENAI, ANTHROPIC])
async def test_a_snapshot_at_any_event_and_the_stream_after_it_are_the_whole(
    client: Client, provider: FakeProvider, model: str
) -> None:
    provider.script(Reply(Text("x"), Gate("start")), *RICH)
    session_id = (await client.create("go", model=model))["id"]
    await provider.reached("start")
    await client.post(session_id, "weiter")
    await client.post(session_id, "danach 😀", "follow_up")
    provider.open("start")

    steady, late = await snapshots_at_events(client, session_id)

    assert len(late) > 20
    for replica in late:
        assert replica.view == steady.view
    assert await stored(client, session_id) == steady.view


@pytest.mark.extended
@pytest.mark.slow
@settings(SHARED_SERVER, max_examples=5)
@given(data=st.data())
async def test_any_story_can_be_joined_by_a_snapshot(
    client: Client, provider: FakeProvider, data: st.DataObject
) -> None:
    scripts = data.draw(st.lists(st.lists(turns(), min_size=1, max_size=4), min_size=1, max_size=3))

    async def tell(story: Story) -> None:
        provider.script_for(story.name, *story.answers)
        session_id = (await client.create(f"{story.name} go", model=story.model))["id"]
        # Their number is about what another example costs, which finds more.
        steady, late = await snapshots_at_events(client, session_id, every=1 if LONG else 3)
        assert [replica.view for replica in late] == [steady.view] * len(late)

    async with asyncio.TaskGroup() as sessions:
        for number, script in enumerate(scripts):
            name = f"story-{len(provider.requests)}-{number}."
            sessions.create_task(tell(Story(name, tuple(script), (OPENAI, ANTHROPIC)[number % 2])))
    assert provider.broken == []


async def test_a_snapshot_in_the_middle_of_a_part_is_replaced_by_its_first_delta(
    client: Client, provider: FakeProvider
) -> None:
    provider.script(Reply(Text("Hälfte 😀 ", chunks=3), Gate("half"), Text("ganz")))
    session_id = (await client.create("go"))["id"]
    await provider.reached("half")
    shown = await client.wait_for(session_id, lambda e: e.type == "text.delta")

    replica = await load(client, session_id)
    assert shown.data["message_id"] in replica.messages
    provider.open("half")
    await read(client, session_id, replica, after=replica.last_seq, until_idle=True)

    assert replica.view == await stored(client, session_id)
    [part] = replica.messages[shown.data["message_id"]]["parts"].values()
    assert part["text"] == "Hälfte 😀 ganz"


async def test_events_applied_twice_do_no_harm(client: Client, provider: FakeProvider) -> None:
    provider.script(*RICH)
    session, _ = await client.run("go")
    expected = await stored(client, session["id"])

    for seq in range(0, session["last_seq"] + 1, 3):
        replica = await load(client, session["id"])
        replica.last_seq = seq
        await read(client, session["id"], replica, after=seq, until_idle=True)
        assert replica.view == expected


# history


async def test_messages_come_in_pages_that_make_the_whole(client: Client, provider: FakeProvider) -> None:
    provider.script(
        Reply(Text("void"), StreamError()),
        *[Reply(Text(f"step {n}"), ToolCall("list_directory", {"path": "." + "/." * n})) for n in range(3)],
        Reply(Text("end")),
    )
    session, _ = await client.run("go")
    path = f"/v1/sessions/{session['id']}/messages"
    whole = await client.get(path)
    roles = " ".join(message["role"] for message in whole["items"])
    assert roles == "user assistant assistant tool assistant tool assistant tool assistant"
    assert [m["voided_at"] is not None for m in whole["items"]] == [place == 1 for place in range(9)]

    for limit in (1, 2, 3, len(whole["items"])):
        items: list[Any] = []
        cursor: str | None = None
        while True:
            page = await client.get(path, limit=limit, **({"after": cursor} if cursor else {}))
            assert len(page["items"]) <= limit
            assert page["last_seq"] == session["last_seq"]
            items += page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert items == whole["items"]
    seqs = [m["seq"] for m in whole["items"]]
    assert seqs == sorted(seqs)
    since = await client.get(path, after=seqs[2])
    assert since["items"] == whole["items"][3:]


@pytest.mark.parametrize("after", ["x", "-1", "1.5", "9" * 30])
async def test_a_malformed_cursor_is_refused(client: Client, after: str) -> None:
    session_id = (await client.create())["id"]
    for path in (f"/v1/sessions/{session_id}/messages", f"/v1/sessions/{session_id}/steps"):
        response = await client.http.get(path, params={"after": after})
        assert (response.status_code, response.json()["code"]) == (400, "malformed_cursor")
    response = await client.http.get("/v1/sessions", params={"cursor": after})
    assert (response.status_code, response.json()["code"]) == (400, "malformed_cursor")


@first_of(model=[OPENAI, ANTHROPIC])
async def test_usage_is_the_sum_of_the_steps_everywhere(
    start_server: StartServer, provider: FakeProvider, model: str
) -> None:
    provider.script(
        Reply(Text("lost"), StreamError(), usage=Tokens(input=5)),
        Reply(ToolCall("list_directory", {"path": "."}), usage=Tokens(input=100, cache_read=30, output=7)),
        Reply(Text("a"), usage=Tokens(input=11, output=2, reasoning=1)),
        Reply(Text("b"), usage=Tokens(input=3, output=1)),
    )
    async with Client(start_server().url) as client:
        session, events = await client.run("go", model=model)
        await client.post(session["id"], "more")
        events += await client.until_idle(session["id"], after=session["last_seq"])
        session = await client.session(session["id"])
        steps = await client.steps(session["id"])

        def total(usages: list[dict[str, int]]) -> dict[str, int]:
            return {name: sum(usage[name] for usage in usages) for name in USAGE}

        spent = total([session["usage"]])
        assert spent["output_tokens"] >= 10
        assert total([step["usage"] for step in steps]) == spent
        assert total([e.data["usage"] for e in of_type(events, "step.finished")]) == spent
        assert total([e.data["usage"] for e in of_type(events, "session.idle")]) == spent
        assert [e.data["steps"] for e in of_type(events, "session.idle")] == [2, 1]
        report = await client.get("/v1/usage")
        assert total([report["total"]]) == spent
        assert [item["model"] for item in report["items"]] == [model]
        assert total([item["usage"] for item in report["items"]]) == spent
        await client.http.delete(f"/v1/sessions/{session['id']}")
        assert total([(await client.get("/v1/usage"))["total"]]) == spent, "what was spent stays spent"


async def test_steps_show_each_attempt_and_come_in_pages(client: Client, provider: FakeProvider) -> None:
    provider.script(
        Reply(Text("lost"), StreamError()),
        Reply(ToolCall("list_directory", {"path": "."})),
        Reply(Text("end")),
    )
    session, events = await client.run("go")
    path = f"/v1/sessions/{session['id']}/steps"
    page = await client.get(path)

    assert page["next_cursor"] is None
    assert [(s["step"], s["attempt"], s["finish_reason"]) for s in page["items"]] == [
        (1, 1, "error"),
        (1, 2, "tool_calls"),
        (2, 1, "stop"),
    ]
    started = [e.data["message_id"] for e in of_type(events, "step.started")]
    assert [s["message_id"] for s in page["items"]] == started
    first = await client.get(path, limit=2)
    rest = await client.get(path, limit=2, after=first["next_cursor"])
    assert first["items"] + rest["items"] == page["items"]
    assert rest["next_cursor"] is None


async def test_a_tool_call_is_shown_with_its_result_and_raw_output(client: Client, provider: FakeProvider) -> None:
    command = "printf 'a\\0b'; head -c 100000 /dev/zero | tr '\\0' y; while [ ! -e weiter ]; do sleep 0.02; done"
    provider.script(Reply(ToolCall("execute_command", {"command": command}), ToolCall("nothing", "[")))
    session_id = (await client.create("go"))["id"]
    call = await client.wait_for(session_id, lambda e: e.type == "tool.call")
    await client.wait_for(session_id, lambda e: e.type == "tool.output")
    path = f"/v1/sessions/{session_id}/tool-calls/{call.data['call_id']}"

    open_call = await client.get(path)
    assert (open_call["call"]["status"], open_call["result"]) == ("running", None)
    response = await client.http.get(f"{path}/output")
    assert (response.status_code, response.json()["code"]) in {(404, "output_not_found"), (409, "call_open")}
    await client.http.put(f"/v1/sessions/{session_id}/files/weiter", content=b"")
    events = await client.until_idle(session_id)

    shown = await client.get(path)
    assert shown["call"]["arguments"] == {"command": command}
    assert (shown["call"]["status"], shown["result"]["status"]) == ("completed", "completed")
    assert shown["result"]["output"] == of_type(events, "tool.result")[0].data["output"]
    raw = await client.http.get(f"{path}/output")
    assert raw.content == b"a\0b" + b"y" * 100_000
    part = await client.http.get(f"{path}/output", headers={"Range": "bytes=1-3"})
    assert (part.status_code, part.content) == (206, b"\0by")
    bad = of_type(events, "tool.call")[1].data["call_id"]
    assert (await client.get(f"/v1/sessions/{session_id}/tool-calls/{bad}"))["result"]["status"] == "error"
    unknown = await client.http.get(f"/v1/sessions/{session_id}/tool-calls/{session_id}")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "call_not_found")


@first_of(model=[OPENAI, ANTHROPIC])
async def test_an_idle_session_shows_the_next_request_without_its_message(
    client: Client, provider: FakeProvider, model: str
) -> None:
    provider.script(Reply(Text("one")), Reply(Text("two")))
    session, _ = await client.run("the task", model=model)
    path = f"/v1/sessions/{session['id']}/context"
    shown = await client.get(path)
    assert [item["message"] for item in shown["messages"]] == await client.messages(session["id"])
    assert {item["reason"] for item in shown["messages"]} == {None}
    reported = {name: shown[name] for name in ("tokens", "source")}
    assert reported == {name: session["context"][name] for name in reported}
    assert (reported["source"], shown["generation"]) == ("reported", 1)

    await client.say(session["id"], "and now?")
    sent = await client.get(path, step=2)
    assert sent["messages"][:-1] == shown["messages"]
    assert sent["messages"][-1]["message"]["parts"][0]["text"] == "and now?"
    assert (sent["system"], sent["tools"], sent["generation"]) == (shown["system"], shown["tools"], 1)
    assert provider.requests[-1].user_texts == ("the task", "and now?")
    assert provider.requests[-1].assistant_texts == ("one",)


async def test_the_context_of_a_step_that_was_not_made_is_not_found(client: Client) -> None:
    session_id = (await client.create())["id"]
    response = await client.http.get(f"/v1/sessions/{session_id}/context", params={"step": 1})
    assert (response.status_code, response.json()["code"]) == (404, "step_not_found")
    following = await client.get(f"/v1/sessions/{session_id}/context")
    assert (following["step"], following["messages"], following["last_seq"]) == (None, [], 1)


# sessions


async def test_sessions_are_listed_newest_first_by_status_text_and_page(client: Client, provider: FakeProvider) -> None:
    provider.script_for("wait", Reply(Text("x"), Gate("hold")))
    made = [(await client.create(title=f"title {n} 100%_\\"))["id"] for n in range(5)]
    running = (await client.create("please WAIT, wait"))["id"]
    await provider.reached("hold")

    async def listed(**params: Any) -> list[str]:
        return [item["id"] for item in (await client.get("/v1/sessions", **params))["items"]]

    assert await listed() == [running, *reversed(made)]
    assert await listed(status="running") == [running]
    assert await listed(status="idle") == made[::-1]
    assert await listed(q="please wait") == [running]
    assert await listed(q="TITLE 3 100%_\\") == [made[3]]
    assert await listed(q="title%3") == []
    assert await listed(q="100%", status="running") == []
    for limit in (1, 2, 4, 6):
        found: list[str] = []
        cursor: str | None = None
        while True:
            page = await client.get("/v1/sessions", limit=limit, **({"cursor": cursor} if cursor else {}))
            found += [item["id"] for item in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
            assert len(page["items"]) == limit
        assert found == [running, *reversed(made)]
    provider.open("hold")
    await client.until_idle(running)


async def test_a_patch_is_published_and_takes_effect_from_the_next_step(client: Client, provider: FakeProvider) -> None:
    provider.script(
        Reply(Text("x"), Gate("hold"), ToolCall("list_directory", {"path": "."})), Reply(Text("other model"))
    )
    session_id = (await client.create("go", system_prompt="OLD RULES"))["id"]
    await provider.reached("hold")
    changes = {
        "title": "neu",
        "model": ANTHROPIC,
        "system_prompt": "NEW RULES",
        "tools": ["read_file"],
        "metadata": {"a": 1},
        "limits": {"max_steps": 7},
    }
    response = await client.http.patch(f"/v1/sessions/{session_id}", json=changes)
    assert response.status_code == 200
    provider.open("hold")
    events = await client.until_idle(session_id)

    [updated] = of_type(events, "session.updated")
    session = updated.data["session"]
    assert session == response.json()
    assert (session["title"], session["model"], session["metadata"]) == ("neu", ANTHROPIC, {"a": 1})
    assert session["limits"]["max_steps"] == 7
    before, after = provider.requests
    assert (before.wire, after.wire) == ("openai", "anthropic")
    assert "OLD RULES" in before.system
    assert "NEW RULES" in after.system
    assert "OLD RULES" not in after.system
    assert after.tool_names == ("read_file",)
    assert provider.refusals == []


async def test_a_patch_of_compaction_keeps_what_it_does_not_name(client: Client) -> None:
    made = await client.create(compaction={"policy": "handoff", "summary_max_tokens": 777})
    path = f"/v1/sessions/{made['id']}"
    changed = (await client.http.patch(path, json={"compaction": {"prune_minimum": 5}})).json()["compaction"]
    assert changed["policy"] == "handoff"
    assert changed["settings"] == made["compaction"]["settings"] | {"prune_minimum": 5}
    assert (await client.session(made["id"]))["compaction"] == changed

    usual = (await client.create())["compaction"]
    assert (await client.http.patch(path, json={"compaction": None})).json()["compaction"] == usual


async def test_an_empty_patch_changes_nothing_and_unknown_fields_are_named(client: Client) -> None:
    made = await client.create(title="t")
    path = f"/v1/sessions/{made['id']}"
    assert (await client.http.patch(path, json={})).json() == made
    refused = await client.http.patch(path, json={"titel": "x"})
    assert refused.status_code == 422
    assert "titel" in refused.text
    assert [e.type for e in await client.until_idle(made["id"])] == ["session.created"]


async def test_a_deleted_session_leaves_nothing(client: Client, provider: FakeProvider, server: RunningServer) -> None:
    command = "head -c 100000 /dev/zero | tr '\\0' y"
    provider.script(Reply(ToolCall("execute_command", {"command": command})))
    session, events = await client.run("go")
    call_id = of_type(events, "tool.call")[0].data["call_id"]
    paths = [
        f"/v1/sessions/{session['id']}{end}"
        for end in ("", "/events", "/messages", "/steps", "/context", "/queue", f"/tool-calls/{call_id}", "/files")
    ]
    for path in paths:
        params = {"until": "idle"} if path.endswith("/events") else {}
        assert (await client.http.get(path, params=params)).status_code == 200, path

    assert (await client.http.delete(paths[0])).status_code == 204

    for path in paths:
        assert (await client.http.get(path)).status_code == 404, path
    assert (await client.http.delete(paths[0])).status_code == 404
    assert (await client.get("/v1/sessions"))["items"] == []
    left = [path for path in server.settings.data_dir.rglob("*") if session["id"] in path.name]
    assert left == []


async def test_a_repeated_request_with_its_id_returns_the_current_session(
    client: Client, provider: FakeProvider
) -> None:
    id = "0197a8a0-0000-7000-8000-000000000001"
    body = {"id": id, "task": "go", "model": OPENAI}
    first = await client.http.post("/v1/sessions", json=body)
    events = durable(await client.until_idle(id))
    again = await client.http.post("/v1/sessions", json=body)

    assert (first.status_code, again.status_code) == (201, 200)
    # Its node may still leave it.
    assert again.json() | {"node": None} == await client.session(id) | {"node": None}
    assert await client.until_idle(id) == events
    other = await client.http.post("/v1/sessions", json={**body, "task": "other"})
    assert other.status_code == 409
