"""Sessions over OpenAI's Responses API, and models that switch from one endpoint to the other."""

from __future__ import annotations

import itertools
import signal
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.llm.quirks import MOST_FAILURES
from tests.behavior.checks import assert_sound, following
from tests.behavior.combinations import across
from tests.behavior.conftest import StartServer
from tests.behavior.harness import OPENAI, RESPONSES, Client, of_type
from tests.behavior.long_task import LongTask
from tests.behavior.process import ServerProcess
from tests.behavior.rounds import SMALL, WINDOW
from tests.behavior.test_cancel_resume import cancel
from tests.load import LONG
from tests.provider import (
    FakeProvider,
    Gate,
    Hang,
    HttpError,
    Interleaved,
    Reasoning,
    RecordedRequest,
    Reply,
    StreamError,
    Text,
    Tokens,
    ToolCall,
)
from tests.requirements import need

WRITE = ToolCall("write_file", {"path": "a", "content": "a"}, chunks=3)
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def kinds(request: RecordedRequest) -> list[str]:
    """The items of a request in order: the role of messages, the type of all others."""
    return [item.get("role") or item["type"] for item in request.messages]


def items(request: RecordedRequest, kind: str) -> list[dict[str, Any]]:
    return [item for item in request.messages if kind in (item["type"], item.get("role"))]


def assert_grows(requests: list[RecordedRequest]) -> None:
    """Each request is the one before, to the byte, with more at its end."""
    for before, after in itertools.pairwise(requests):
        assert after.raw.startswith(before.raw.removesuffix(b"]}"))


@pytest.mark.shared_server
async def test_a_session_with_reasoning_parallel_calls_and_phases(client: Client, provider: FakeProvider) -> None:
    provider.script(
        Reply(
            Reasoning("First thought.\n\nSecond thought.", 3),
            Text("I look around. ", 3, phase="commentary"),
            Interleaved(ToolCall("list_directory", {"path": "."}, 3), WRITE),
        ),
        Reply(Reasoning("hidden", redacted=True), ToolCall("read_file", {"path": "a"}, whole=True)),
        Reply(Text("Done.", phase="final_answer"), usage=Tokens(cache_write=7, reasoning=1, output=9)),
    )
    session, events = await client.run("task", model=RESPONSES)

    assert (session["outcome"], session["steps"]) == ("completed", 3)
    await assert_sound(client, session["id"])
    assistant = [m for m in await client.messages(session["id"]) if m["role"] == "assistant"]
    first, second, third = ([part["type"] for part in m["parts"]] for m in assistant)
    assert first == ["reasoning", "text", "tool_call", "tool_call"]
    assert (second, third) == (["reasoning", "tool_call"], ["text"])
    assert assistant[0]["parts"][0]["text"] == "First thought.\n\nSecond thought."
    assert [m["parts"][at]["phase"] for m, at in ((assistant[0], 1), (assistant[2], 0))] == [
        "commentary",
        "final_answer",
    ]

    requests = provider.requests
    assert kinds(requests[2]) == [
        *("user", "reasoning", "assistant", "function_call", "function_call"),
        *("function_call_output", "function_call_output", "reasoning", "function_call", "function_call_output"),
    ]
    assert items(requests[2], "assistant")[0]["phase"] == "commentary"
    assert all(item["encrypted_content"] for item in items(requests[2], "reasoning"))
    body = requests[0].body
    assert (body["store"], body["include"], body["stream"]) == (False, ["reasoning.encrypted_content"], True)
    assert body["reasoning"] == {"summary": "auto"}
    assert all(tool["strict"] is False for tool in body["tools"])
    assert len({request.body["prompt_cache_key"] for request in requests}) == 1
    assert session["id"] not in body["prompt_cache_key"]
    assert_grows(requests)
    assert requests[2].cached_tokens > 0
    usage = of_type(events, "step.finished")[2].data["usage"]
    assert usage["cache_read_tokens"] > 0
    assert (usage["cache_write_tokens"], usage["reasoning_tokens"]) == (7, 1)
    assert provider.refusals == []


@pytest.mark.shared_server
async def test_a_fork_and_a_new_generation_keep_phases_and_reasoning(client: Client, provider: FakeProvider) -> None:
    provider.script(
        Reply(Reasoning("hm"), Text("Reading.", phase="commentary"), WRITE), Reply(Text("one", phase="final_answer"))
    )
    session, _ = await client.run("task", model=RESPONSES)
    response = await client.http.post(f"/v1/sessions/{session['id']}/fork", json={})
    assert response.status_code == 201, response.text
    forked = response.json()
    await client.say(forked["id"], "and now?", after=forked["last_seq"])

    last = provider.requests[-1]
    assert [item.get("phase") for item in items(last, "assistant")] == ["commentary", "final_answer"]
    assert len(items(last, "reasoning")) == 1
    assert provider.refusals == []


@pytest.mark.shared_server
async def test_steer_cancel_and_resume(client: Client, provider: FakeProvider) -> None:
    provider.script(
        Reply(Reasoning("hm"), WRITE, Gate("steered")),
        Reply(Reasoning("half of a thought"), Text("half of it", 3), Hang()),
        Reply(Reasoning("again"), Text("the rest")),
    )
    made = await client.create("task", model=RESPONSES)
    await provider.reached("steered")
    await client.post(made["id"], "look at b too")
    provider.open("steered")
    async with following(client, made["id"]) as follower:
        await follower.seen(lambda event: event.type == "text.delta" and "half" in event.data["text"])
        await cancel(client, made["id"])
        await follower.type("session.idle")
    await client.resume(made["id"])
    await client.until_idle(made["id"])

    assert (await client.session(made["id"]))["outcome"] == "completed"
    await assert_sound(client, made["id"])
    second, third = provider.requests[1:]
    assert "look at b too" in second.user_texts
    assert kinds(third)[-3:] == ["reasoning", "assistant", "user"]
    assert provider.refusals == []


@across(1, policy=["reactive", "threshold", "handoff"], steps=[15, 40 if LONG else 24])
async def test_reasoning_survives_compaction(
    start_server: StartServer, provider: FakeProvider, policy: str, steps: int
) -> None:
    provider.configure(window=WINDOW)
    task = LongTask(steps, most=20_000, seed=5)

    def thinking(request: RecordedRequest) -> Reply:
        reply = task(request)
        assert isinstance(reply, Reply)
        return Reply(Reasoning("I think."), *reply.parts, finish=reply.finish, usage=reply.usage)

    provider.respond(thinking)
    async with Client(start_server(models=SMALL).url) as client:
        session, _ = await client.run("task", model=RESPONSES, compaction=policy, limits={"max_steps": None})
        assert (session["outcome"], session["error"]) == ("completed", None)
        await assert_sound(client, session["id"])
        assert session["compaction"]["count"] > 0
    assert any(items(request, "reasoning") for request in provider.requests[-3:])
    assert provider.refusals == []


@pytest.mark.bubblewrap
async def test_a_killed_server_continues_with_its_reasoning(
    tmp_path: Path, provider: FakeProvider, sandbox_image: str
) -> None:
    need("bubblewrap")
    provider.script(
        Reply(Reasoning("hm"), Text("Writing.", phase="commentary"), WRITE), Reply(Gate("killed"), Text("never"))
    )
    with ServerProcess(tmp_path / "data", provider, "bubblewrap", sandbox_image, {}) as first:
        async with Client(first.url) as client:
            made = await client.create("task", model=RESPONSES)
            await provider.reached("killed")
        first.end(signal.SIGKILL)
    provider.script(Reply(Text("done")))
    with ServerProcess(tmp_path / "data", provider, "bubblewrap", sandbox_image, {}) as second:
        async with Client(second.url) as client:
            await client.until_idle(made["id"])
            assert (await client.session(made["id"]))["outcome"] == "completed"
    before, after = provider.requests[-2:]
    assert after.raw.startswith(before.raw.removesuffix(b"]}"))
    assert kinds(after)[:4] == ["user", "reasoning", "assistant", "function_call"]
    assert items(after, "assistant")[0]["phase"] == "commentary"
    assert provider.refusals == []


@pytest.mark.shared_server
async def test_how_answers_end(client: Client, provider: FakeProvider) -> None:
    provider.script_for("refuse it", Reply(Text("I can't help with that."), finish="refusal"))
    provider.script_for("filter it", Reply(Text("so"), finish="content_filter"))
    provider.script_for("cut it", Reply(Text("half"), finish="length"), Reply(Text(" and half")))
    refused, _ = await client.run("refuse it", model=RESPONSES)
    filtered, _ = await client.run("filter it", model=RESPONSES)
    cut, events = await client.run("cut it", model=RESPONSES)

    assert (refused["outcome"], refused["error"]["code"]) == ("failed", "refusal")
    (message,) = [m for m in await client.messages(refused["id"]) if m["role"] == "assistant"]
    assert message["parts"][0]["text"] == "I can't help with that."
    assert (filtered["outcome"], filtered["error"]["code"]) == ("failed", "content_filter")
    assert of_type(events, "step.finished")[0].data["finish_reason"] == "length"
    assert cut["outcome"] == "completed"
    assert provider.refusals == []


@pytest.mark.shared_server
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StreamError("server_error", "Try again.", "server_error"), "provider_server_error"),
        (StreamError("server_error", "Try again."), "provider_server_error"),
    ],
)
async def test_an_error_in_the_stream_is_retried(
    client: Client, provider: FakeProvider, error: StreamError, code: str
) -> None:
    provider.script(Reply(Reasoning("hm"), Text("void", 2), error), Reply(Text("better")))
    session, events = await client.run("task", model=RESPONSES)

    assert (session["outcome"], session["steps"]) == ("completed", 1)
    assert [event.data["code"] for event in of_type(events, "step.retrying")] == [code]


@pytest.mark.shared_server
async def test_a_permanent_error_in_the_stream_fails(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(Text("void"), StreamError("invalid_request_error", "Invalid prompt.", "invalid_prompt")))
    session, events = await client.run("task", model=RESPONSES)

    assert (session["outcome"], session["error"]["code"]) == ("failed", "provider_bad_request")
    assert of_type(events, "step.retrying") == []


async def test_an_overflow_in_the_stream_makes_the_next_request_smaller(
    start_server: StartServer, provider: FakeProvider
) -> None:
    task = LongTask(4, most=4_000, seed=3)
    overflow = [Reply(Text("I go"), finish="context_overflow")]

    def answer(request: RecordedRequest) -> Any:
        full = len(request.tool_results) >= 3 and overflow
        return overflow.pop() if full else task(request)

    provider.respond(answer)
    async with Client(start_server().url) as client:
        settings = {"policy": "reactive", "tail_tokens": 300, "min_turns_to_keep": 0, "recent_messages_to_keep": 2}
        session, _ = await client.run("task", model=RESPONSES, compaction=settings)
    assert (session["outcome"], session["error"]) == ("completed", None)
    full = next(at for at, request in enumerate(provider.requests) if len(request.tool_results) >= 3)
    assert provider.requests[full + 1].tokens < provider.requests[full].tokens
    assert provider.refusals == []


async def test_an_overflowing_request_is_compacted(start_server: StartServer, provider: FakeProvider) -> None:
    """The window is smaller than the catalog says, and the refusal names no number."""
    provider.configure(window=6_000)
    provider.respond(LongTask(6, most=12_000, seed=3))
    async with Client(start_server().url) as client:
        settings = {"policy": "reactive", "tail_tokens": 300, "min_turns_to_keep": 0, "recent_messages_to_keep": 2}
        session, _ = await client.run("task", model=RESPONSES, compaction=settings)
    assert (session["outcome"], session["error"]) == ("completed", None)
    assert provider.broken == []


@pytest.mark.shared_server
async def test_an_image_is_sent_as_an_image(client: Client, provider: FakeProvider) -> None:
    url = f"data:image/png;base64,{PNG}"
    content = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": url}}]
    messages = [{"role": "user", "content": content}, {"role": "assistant", "content": "I see."}]
    body = {"format": "openai", "messages": messages}
    session, _ = await client.run("and now?", model=RESPONSES, history=body)

    assert session["outcome"] == "completed"
    (image,) = [part for part in provider.requests[0].messages[0]["content"] if part["type"] == "input_image"]
    assert image["image_url"] == url
    assert provider.refusals == []


async def test_refused_parameters_are_left_out(client: Client, provider: FakeProvider) -> None:
    refused = {"reasoning.summary", "include", "prompt_cache_key", "max_output_tokens"}
    provider.configure(refused_parameters=frozenset(refused), efforts=frozenset({"none", "low", "medium", "high"}))
    provider.script(Reply(Reasoning("unsent"), WRITE), Reply(Text("done")))
    session, _ = await client.run("task", model=RESPONSES, reasoning_effort="minimal")

    assert session["outcome"] == "completed"
    *_, before, last = provider.requests
    for request in (before, last):
        assert not refused & request.body.keys()
        assert request.body["reasoning"] == {"effort": "low"}
    assert items(last, "reasoning") == []
    assert provider.broken == []


@pytest.mark.parametrize("in_stream", [False, True])
async def test_reasoning_that_the_provider_cannot_read_is_left_out(
    client: Client, provider: FakeProvider, in_stream: bool
) -> None:
    provider.configure(refuses_in_stream=in_stream)
    provider.script(Reply(Reasoning("old"), WRITE), Reply(Text("one")), Reply(Reasoning("new"), WRITE))
    session, _ = await client.run("task", model=RESPONSES)
    provider.forget_thinking()
    await client.say(session["id"], "go on", after=session["last_seq"])

    assert (await client.session(session["id"]))["outcome"] == "completed"
    assert [refusal.rule for refusal in provider.refusals] == ["thinking"]
    last = provider.requests[-1]
    assert [item["summary"][0]["text"] for item in items(last, "reasoning")] == ["new"]


@pytest.mark.parametrize(
    ("model", "settings", "wires"),
    [
        (OPENAI, {"tools_on_responses": frozenset({"model"})}, ["openai", "responses", "responses"]),
        (OPENAI, {"responses_only": frozenset({"model"})}, ["openai", "responses", "responses"]),
        (RESPONSES, {"has_responses": False}, ["openai", "openai"]),
    ],
)
async def test_a_model_is_switched_to_the_other_endpoint_once(
    client: Client, provider: FakeProvider, model: str, settings: dict[str, Any], wires: list[str]
) -> None:
    provider.configure(**settings)
    provider.script(Reply(WRITE), Reply(Text("done")))
    session, events = await client.run("task", model=model)

    assert (session["outcome"], session["steps"]) == ("completed", 2)
    await assert_sound(client, session["id"])
    (retrying,) = of_type(events, "step.retrying")
    assert (retrying.data["code"], retrying.data["delay_ms"]) == ("endpoint_switched", 0)
    assert [request.wire for request in provider.requests] == wires
    assert [refusal.rule for refusal in provider.refusals] == (["parameter"] if model == OPENAI else [])

    again, events = await client.run("another task", model=model)
    assert again["outcome"] == "completed"
    assert of_type(events, "step.retrying") == []


async def test_endpoints_that_point_to_each_other_fail_the_run(client: Client, provider: FakeProvider) -> None:
    provider.configure(tools_on_responses=frozenset({"model"}), has_responses=False)
    for task in ("one", "two"):
        session, events = await client.run(task, model=OPENAI)
        assert (session["outcome"], session["error"]["code"]) == ("failed", "provider_bad_request")
        assert len(of_type(events, "step.retrying")) == 2


async def test_a_transient_404_of_a_proxy_is_no_permanent_switch(
    start_server: StartServer, provider: FakeProvider
) -> None:
    provider.configure(tools_on_responses=frozenset({"model"}))
    provider.script(HttpError(404, b"no such route"), Reply(WRITE), Reply(Text("done")))
    server = start_server()
    async with Client(server.url) as client:
        session, events = await client.run("task", model=RESPONSES)
    assert session["outcome"] == "completed"
    assert [event.data["code"] for event in of_type(events, "step.retrying")] == ["endpoint_switched"] * 2
    assert [request.wire for request in provider.requests] == ["responses", "openai", "responses", "responses"]
    server.stop()

    async with Client(start_server().url) as client:
        session, events = await client.run("after a restart", model=RESPONSES)
    assert session["outcome"] == "completed"
    assert (provider.requests[-1].wire, of_type(events, "step.retrying")) == ("responses", [])


async def test_a_transient_404_is_retried_without_another_endpoint(client: Client, provider: FakeProvider) -> None:
    """The other one only says that it does not know the path or the model."""
    for unknown in (b"404 page not found", orjson.dumps({"error": {"message": "The model does not exist."}})):
        provider.script(HttpError(404, b"404 page not found"), HttpError(404, unknown), Reply(Text("done")))
        session, events = await client.run("task", model=RESPONSES)
        assert session["outcome"] == "completed"
        assert [event.data["code"] for event in of_type(events, "step.retrying")] == ["endpoint_switched"] * 2
    assert [request.wire for request in provider.requests] == ["responses", "openai", "responses"] * 2


async def test_an_endpoint_that_has_not_answered_is_forgotten(
    start_server: StartServer, provider: FakeProvider
) -> None:
    """It refused a parameter, which is remembered, and then failed for another reason."""
    body = {"error": {"message": "Unsupported parameter: 'stream_options'.", "param": "stream_options"}}
    away = [HttpError(404, b"404 page not found"), HttpError(400, orjson.dumps(body)), HttpError(403)]
    provider.script(*away, Reply(Text("one")), *away)
    server = start_server()
    async with Client(server.url) as client:
        for outcome in ("failed", "completed", "failed"):
            session, _ = await client.run("task", model=RESPONSES)
            assert session["outcome"] == outcome
    server.stop()
    provider.script(Reply(Text("after")))
    async with Client(start_server().url) as client:
        session, events = await client.run("after a restart", model=RESPONSES)
    assert (session["outcome"], of_type(events, "step.retrying")) == ("completed", [])
    assert provider.requests[-1].wire == "responses"


@pytest.mark.slow
async def test_an_endpoint_that_keeps_failing_is_forgotten(start_server: StartServer, provider: FakeProvider) -> None:
    """A transient 404 led there, and that endpoint returns only a rate limit error."""
    provider.script(HttpError(404, b"404 page not found"), *[HttpError(429)] * MOST_FAILURES, Reply(Text("Done.")))
    async with Client(start_server(provider_max_attempts=6).url) as client:
        session, _ = await client.run("task", model=RESPONSES)
    assert session["outcome"] == "completed"
    wires = [request.wire for request in provider.requests]
    assert wires == ["responses", *["openai"] * MOST_FAILURES, "responses"]


async def test_a_missing_item_is_not_a_missing_path(start_server: StartServer, provider: FakeProvider) -> None:
    """The model has answered at its endpoint, so a 404 there means something else."""
    only = {"error": {"message": "This model is only supported in v1/responses and not in v1/chat/completions."}}
    not_chat = HttpError(404, orjson.dumps(only))
    provider.script(not_chat, Reply(Text("one")), HttpError(404, b"<html>404</html>"), Reply(Text("two")))
    async with Client(start_server().url) as client:
        outcomes = [(await client.run("task", model=OPENAI))[0]["outcome"] for _ in range(3)]
    assert outcomes == ["completed", "failed", "completed"]
    assert [request.wire for request in provider.requests] == ["openai", *["responses"] * 3]


async def test_an_answer_of_the_old_endpoint_does_not_count_for_the_new_one(
    start_server: StartServer, provider: FakeProvider
) -> None:
    provider.script(
        Reply(Text("a"), Gate("under way"), Text("b")), HttpError(404, b"404 page not found"), HttpError(503)
    )
    server = start_server(provider_max_attempts=1)
    async with Client(server.url) as client:
        first = await client.create("one", model=RESPONSES)
        await provider.reached("under way")
        other, _ = await client.run("two", model=RESPONSES)
        provider.open("under way")
        await client.until_idle(first["id"])
        assert (other["outcome"], (await client.session(first["id"]))["outcome"]) == ("failed", "completed")
    server.stop()
    provider.script(Reply(Text("after")))
    async with Client(start_server().url) as client:
        await client.run("after a restart", model=RESPONSES)
    assert provider.requests[-1].wire == "responses"


async def test_a_switch_uses_up_no_attempt(start_server: StartServer, provider: FakeProvider) -> None:
    provider.configure(responses_only=frozenset({"model"}))
    async with Client(start_server(provider_max_attempts=1).url) as client:
        session, _ = await client.run("task", model=OPENAI)
    assert session["outcome"] == "completed"


async def test_a_missing_model_is_no_reason_to_switch(client: Client, provider: FakeProvider) -> None:
    error = {"error": {"message": "The model `model` does not exist or you do not have access to it."}}
    provider.script(HttpError(404, orjson.dumps(error)))
    session, events = await client.run("task", model=RESPONSES)

    assert (session["outcome"], session["error"]["code"]) == ("failed", "provider_not_found")
    assert of_type(events, "step.retrying") == []
