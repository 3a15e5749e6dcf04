"""Limits end a run, but never as a failure; an answer's finish reason is understood whatever its name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.behavior.checks import assert_sound, following, requests_of
from tests.behavior.combinations import first_of
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, RunningServer, command, of_type, shows
from tests.provider import FakeProvider, Hang, Reply, Text, Tokens, ToolCall

pytestmark = pytest.mark.shared_server

LOOK = ToolCall("list_directory", {"path": "."})


async def test_max_steps_ends_a_run_and_resume_renews_it(client: Client, provider: FakeProvider) -> None:
    provider.script(*[Reply(LOOK)] * 2, Reply(Text("half of it")), Reply(LOOK), Reply(Text("done")))
    session, _ = await client.run("task", limits={"max_steps": 2})

    assert (session["outcome"], session["error"]["code"], session["error"]["limit"]) == (
        "limit_reached",
        "max_steps",
        2,
    )
    assert (session["steps"], len(provider.requests)) == (3, 3), "the last one says where it stands"
    await client.resume(session["id"])
    await client.until_idle(session["id"])

    after = await client.session(session["id"])
    assert (after["outcome"], after["error"], after["steps"]) == ("completed", None, 5)
    events = await assert_sound(client, session["id"])
    idle = of_type(events, "session.idle")
    assert [(event.data["outcome"], event.data["steps"]) for event in idle] == [("limit_reached", 3), ("completed", 2)]
    assert idle[0].data["error"]["code"] == "max_steps"
    last, resumed = [m["parts"][0]["text"] for m in await client.messages(session["id"]) if m["role"] == "control"]
    assert "last step" in last
    assert "limit" in resumed.lower()
    first, _, told, *_ = provider.requests
    assert (told.last_user_text, told.tool_names) == (last, first.tool_names)
    assert provider.refusals == []


async def test_calls_of_a_closing_step_are_not_run(client: Client, provider: FakeProvider) -> None:
    wish = ToolCall("write_file", {"path": "late", "content": "x"})
    provider.script(Reply(LOOK), Reply(Text("and now"), wish, LOOK), Reply(Text("done")))
    session, events = await client.run("task", limits={"max_steps": 1})

    assert (session["outcome"], session["steps"]) == ("limit_reached", 2)
    refused = of_type(events, "tool.result")[1:]
    assert [(event.data["status"], "limit" in event.data["output"]) for event in refused] == [("error", True)] * 2
    assert (await client.http.get(f"/v1/sessions/{session['id']}/files/late")).status_code == 404
    await client.resume(session["id"])
    await client.until_idle(session["id"])
    assert (await client.session(session["id"]))["outcome"] == "completed"
    await assert_sound(client, session["id"])
    assert provider.refusals == []


async def test_a_closing_step_has_its_own_time_limit(
    start_server: Callable[..., RunningServer], provider: FakeProvider
) -> None:
    provider.script(Reply(LOOK), Reply(Text("I was"), Hang()), Reply(Text("done")))
    async with Client(start_server(last_step_s=0.5).url) as client:
        session, _ = await client.run("task", limits={"max_steps": 1})
        assert (session["outcome"], session["error"]["code"], session["steps"]) == ("limit_reached", "max_steps", 2)
        assert (await client.messages(session["id"]))[-1]["parts"][0]["text"] == "I was"
        await client.resume(session["id"])
        await client.until_idle(session["id"])
        await assert_sound(client, session["id"])
    assert provider.refusals == []


async def test_a_closing_step_is_made_only_once(
    start_server: Callable[..., RunningServer], provider: FakeProvider
) -> None:
    server = start_server()
    provider.script(Reply(LOOK), Reply(Text("I was"), Hang()))
    async with Client(server.url) as client:
        session_id = (await client.create("task", limits={"max_steps": 1}))["id"]
        await client.wait_for(session_id, shows("text.delta"))
    server.stop()
    async with Client(start_server().url) as client:
        events = await client.until_idle(session_id)
        assert of_type(events, "session.idle")[-1].data["error"]["code"] == "max_steps"
        assert len(provider.requests) == 2
        await assert_sound(client, session_id)


async def test_a_limit_may_end_a_run_without_a_closing_step(
    start_server: Callable[..., RunningServer], provider: FakeProvider
) -> None:
    provider.script(*[Reply(LOOK)] * 3)
    async with Client(start_server(last_step_s=0).url) as client:
        session, _ = await client.run("task", limits={"max_steps": 2})
    assert (session["outcome"], session["steps"], len(provider.requests)) == ("limit_reached", 2, 2)


async def test_the_last_allowed_step_may_complete(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(LOOK), Reply(Text("done")))
    session, _ = await client.run("task", limits={"max_steps": 2})
    assert session["outcome"] == "completed"


async def test_a_message_renews_the_limits_of_a_run(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(LOOK), Reply(Text("looked")), Reply(Text("done")))
    session, _ = await client.run("task", limits={"max_steps": 1})
    assert session["outcome"] == "limit_reached"

    await client.say(session["id"], "go on")
    assert (await client.session(session["id"]))["outcome"] == "completed"


@pytest.mark.parametrize("answer", [Reply(Text("half"), Hang()), Reply(command("echo half; sleep 60"))])
async def test_max_seconds_ends_model_and_command(client: Client, provider: FakeProvider, answer: Reply) -> None:
    provider.script(answer, Reply(Text("so far")), Reply(Text("done")))
    session, events = await client.run("task", limits={"max_seconds": 1.5})

    assert (session["outcome"], session["error"]["code"]) == ("limit_reached", "max_seconds")
    assert [event.data["finish_reason"] for event in of_type(events, "step.finished")] == ["cancelled", "stop"]
    assert all("half" in event.data["output"] for event in of_type(events, "tool.result"))
    await client.resume(session["id"])
    await client.until_idle(session["id"])
    assert (await client.session(session["id"]))["outcome"] == "completed"
    await assert_sound(client, session["id"])
    assert provider.refusals == []


async def test_max_tokens_is_for_the_session_and_can_be_raised(client: Client, provider: FakeProvider) -> None:
    spent = Tokens(input=600, cache_read=0, cache_write=0, output=400)
    said = Reply(Text("half of it"), usage=spent)
    provider.script(*[Reply(LOOK, usage=spent)] * 2, said, Reply(LOOK, usage=spent), Reply(Text("done"), usage=spent))
    session, _ = await client.run("task", limits={"max_tokens": 2000})

    assert (session["outcome"], session["error"]["code"]) == ("limit_reached", "max_tokens")
    assert session["error"]["detail"] == "The session has reached its limit: max_tokens = 2000."
    assert (session["steps"], session["usage"]["output_tokens"]) == (3, 1200)
    [word] = [m["parts"][0]["text"] for m in await client.messages(session["id"]) if m["role"] == "control"]
    assert word.startswith("[This session has reached a limit, and this is its last step")

    path = f"/v1/sessions/{session['id']}"
    for most in (2000, 3000):
        await client.http.patch(path, json={"limits": {"max_tokens": most}})
        refused = await client.http.post(f"{path}/resume")
        problem = refused.json()
        assert (refused.status_code, problem["code"]) == (409, "max_tokens")
        assert (problem["limit"], problem["used"]) == (most, 3000)
        assert f"has used 3,000 of {most:,} tokens" in problem["detail"]
        assert "limits.max_tokens" in problem["detail"]
        assert "PATCH" in problem["detail"]
    again = await client.session(session["id"])
    assert (again["status"], again["outcome"], again["error"]) == ("idle", "limit_reached", session["error"])

    await client.http.patch(path, json={"limits": {"max_tokens": 50_000}})
    await client.resume(session["id"])
    await client.until_idle(session["id"])
    last = await client.session(session["id"])
    assert (last["outcome"], last["steps"]) == ("completed", 5)
    events = await assert_sound(client, session["id"])
    assert [event.data["usage"]["output_tokens"] for event in of_type(events, "step.finished")] == [400] * 5
    assert [event.data["usage"]["output_tokens"] for event in of_type(events, "session.idle")] == [1200, 800]


async def test_max_cost_ends_a_run(start_server: Callable[..., RunningServer], provider: FakeProvider) -> None:
    prices = {"input": 1000, "output": 1000, "cache_read": 0, "cache_write": 0}
    server = start_server(models={OPENAI: {"context_window": 128_000, "prices": prices}})
    spent = Tokens(input=600, cache_read=0, cache_write=0, output=400)
    provider.script(*[Reply(LOOK, usage=spent)] * 5)
    async with Client(server.url) as client:
        session, _ = await client.run("task", limits={"max_cost_usd": 1.5})

        assert (session["outcome"], session["error"]["code"]) == ("limit_reached", "max_cost_usd")
        assert session["error"]["detail"] == "The session has reached its limit: max_cost_usd = 1.5."
        assert (session["steps"], session["usage"]["cost_usd"]) == (3, pytest.approx(3.0))
        refused = await client.http.post(f"/v1/sessions/{session['id']}/resume")
        problem = refused.json()
        assert (refused.status_code, problem["code"]) == (409, "max_cost_usd")
        assert (problem["limit"], problem["used"]) == (1.5, 3)
        assert "has cost 3 of 1.5 US dollars (limits.max_cost_usd)" in problem["detail"]
        assert (await client.get("/v1/usage"))["total"]["cost_usd"] == pytest.approx(3.0)


async def test_an_unpriced_model_has_no_cost_to_limit(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(LOOK), Reply(Text("done")))
    session, _ = await client.run("task", limits={"max_cost_usd": 0.000001})
    assert (session["outcome"], session["usage"]["cost_usd"]) == ("completed", None)


async def test_unpriced_usage_does_not_lift_the_cost_limit(
    start_server: Callable[..., RunningServer], provider: FakeProvider
) -> None:
    prices = {"input": 1000, "output": 1000, "cache_read": 0, "cache_write": 0}
    server = start_server(models={OPENAI: {"context_window": 128_000, "prices": prices}})
    spent = Tokens(input=600, cache_read=0, cache_write=0, output=400)
    provider.script(*[Reply(LOOK, usage=spent), Reply(Text("done"), usage=spent)] * 3)
    async with Client(server.url) as client:
        session, _ = await client.run("one", model=ANTHROPIC, limits={"max_cost_usd": 3.5})
        session_id = session["id"]
        await client.change(session_id, model=OPENAI)
        for task in ("two", "three"):
            await client.say(session_id, task)

        last = await client.session(session_id)
        assert (last["outcome"], last["steps"], last["usage"]["cost_usd"]) == ("completed", 6, None)
        await client.say(session_id, "four")
        last = await client.session(session_id)
        assert (last["error"]["code"], last["steps"]) == ("max_cost_usd", 6)
        problem = (await client.http.post(f"/v1/sessions/{session_id}/resume")).json()
        assert (problem["code"], problem["used"]) == ("max_cost_usd", pytest.approx(4.0))


async def test_the_operators_limits_cannot_be_exceeded(
    start_server: Callable[..., RunningServer], provider: FakeProvider
) -> None:
    async with Client(start_server(session_limits={"max_steps": 3, "max_tokens": 1000}).url) as client:
        asked = {"task": "x", "limits": {"max_steps": 4}}
        answers = [
            await client.http.post("/v1/sessions", json=asked),
            await client.http.post("/v1/sessions", json={"limits": {"max_tokens": None}}),
        ]
        session = await client.create(limits={"max_steps": 2})
        answers.append(await client.http.patch(f"/v1/sessions/{session['id']}", json={"limits": {"max_steps": None}}))

    assert [answer.status_code for answer in answers] == [403, 403, 403]
    assert (session["limits"]["max_steps"], session["limits"]["max_tokens"]) == (2, 1000)


async def test_changed_limits_apply_from_the_next_step(client: Client, provider: FakeProvider) -> None:
    provider.script(*[Reply(LOOK)] * 2, Reply(command("cat; sleep 0.5")), Reply(Text("so far")))
    session_id = (await client.create("task"))["id"]
    async with following(client, session_id) as follower:
        await follower.seen(lambda event: event.type == "tool.call" and event.data["name"] == "execute_command")
        await client.change(session_id, limits={"max_steps": 3})
        idle = await follower.type("session.idle")
    assert (idle.data["outcome"], idle.data["steps"]) == ("limit_reached", 4)


@first_of(model=[OPENAI, ANTHROPIC])
async def test_a_truncated_answer_is_continued_once(client: Client, provider: FakeProvider, model: str) -> None:
    provider.script(Reply(Text("one two "), finish="length"), Reply(Text("three")))
    session, events = await client.run("task", model=model)

    assert session["outcome"] == "completed"
    assert [event.data["finish_reason"] for event in of_type(events, "step.finished")] == ["length", "stop"]
    assert "cut off" in provider.requests[1].last_user_text
    (control,) = [m for m in await client.messages(session["id"]) if m["role"] == "control"]
    assert control["parts"][0]["text"] == provider.requests[1].last_user_text
    assert provider.refusals == []


async def test_an_answer_truncated_twice_fails(client: Client, provider: FakeProvider) -> None:
    provider.script(*[Reply(Text("on and "), finish="length")] * 3)
    session, _ = await client.run("task")

    assert (session["outcome"], session["error"]["code"]) == ("failed", "output_limit")
    assert len(provider.requests) == 2
    await client.resume(session["id"])
    await client.until_idle(session["id"])
    assert provider.refusals == []
    await assert_sound(client, session["id"])


async def test_work_in_between_renews_the_continuation(client: Client, provider: FakeProvider) -> None:
    cut = Reply(Text("on and "), finish="length")
    provider.script(cut, Reply(LOOK), cut, Reply(Text("end")))
    session, _ = await client.run("task")
    assert (session["outcome"], session["steps"]) == ("completed", 4)


@pytest.mark.parametrize(("model", "reason"), [(OPENAI, "content_filter"), (ANTHROPIC, "refusal")])
async def test_a_refusal_fails_with_its_code(client: Client, provider: FakeProvider, model: str, reason: str) -> None:
    provider.script(Reply(Text("I will not"), finish=reason), Reply(Text("well then")))
    session, events = await client.run("task", model=model)

    assert (session["outcome"], session["error"]["code"]) == ("failed", reason)
    assert [event.data["finish_reason"] for event in of_type(events, "step.finished")] == [reason]
    await client.say(session["id"], "please")
    assert (await client.session(session["id"]))["outcome"] == "completed"
    assert provider.refusals == []


@first_of(model=[OPENAI, ANTHROPIC])
async def test_calls_run_and_text_completes_whatever_the_reason(
    client: Client, provider: FakeProvider, model: str
) -> None:
    """An unknown reason may be a failure, but not the second time."""
    eldritch = Reply(LOOK, finish="eldritch")
    provider.script(Reply(LOOK, finish="stop"), eldritch, eldritch, Reply(Text("end"), finish="eldritch"))
    session, events = await client.run("task", model=model)

    assert (session["outcome"], session["steps"]) == ("completed", 3)
    assert len(of_type(events, "step.retrying")) == 1
    assert len(of_type(events, "tool.result")) == 2
    assert of_type(events, "step.finished")[-1].data["finish_reason"] == "stop"
    assert provider.refusals == []


async def test_truncated_calls_come_back_as_errors(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(ToolCall("write_file", '{"path": "a", "content": "long'), finish="length"), Reply(Text("ok")))
    session, events = await client.run("task")

    assert session["outcome"] == "completed"
    (result,) = of_type(events, "tool.result")
    assert result.data["status"] == "error"
    assert len(requests_of(provider, "task")) == 2
    assert provider.refusals == []
