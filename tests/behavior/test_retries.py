"""A failed model call is retried if that may help, and the failed attempt's output is voided."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.behavior.checks import assert_sound, requests_of
from tests.behavior.combinations import first_of
from tests.behavior.conftest import StartServer
from tests.behavior.harness import ANTHROPIC, OPENAI, RESPONSES, Client, command, of_type
from tests.provider import (
    EndWithoutFinish,
    FakeProvider,
    Hang,
    HttpError,
    Reasoning,
    Reply,
    Reset,
    StreamError,
    Text,
    ToolCall,
)

MODELS = (OPENAI, ANTHROPIC, RESPONSES)
NOW = {"retry-after": "0"}


BROKEN: dict[str, Reply | HttpError] = {
    "reset": Reply(Text("void", 2), ToolCall("write_file", {"path": "void", "content": ""}), Reset()),
    "closed": Reply(Text("void", 2), Reset("close")),
    "no finish": Reply(Text("void", 2), EndWithoutFinish()),
    "error event": Reply(Reasoning("hm", 2), Text("void", 2), StreamError()),
    "silence": Reply(Text("void", 2), Hang()),
    "rate limit": HttpError(429, headers=NOW),
    "server error": HttpError(500, headers=NOW),
    "overloaded": HttpError(529, headers=NOW),
    "bad gateway": HttpError(502, b"<html>oops</html>", headers=NOW),
}
CODES = {
    "rate limit": "provider_rate_limited",
    "server error": "provider_server_error",
    "overloaded": "provider_overloaded",
    "silence": "provider_timeout",
    "reset": "provider_unreachable",
}


@first_of(model=MODELS)
async def test_a_broken_attempt_is_voided_and_retried(
    start_server: StartServer, provider: FakeProvider, model: str
) -> None:
    async with Client(start_server(provider_idle_timeout_s=2).url) as client, asyncio.TaskGroup() as tasks:
        for kind, answer in BROKEN.items():
            provider.script_for(f"task {kind}", answer, Reply(Text("better")))
            tasks.create_task(_retried(client, provider, kind, model))

    assert provider.refusals == []


async def _retried(client: Client, provider: FakeProvider, kind: str, model: str) -> None:
    session, _ = await client.run(f"task {kind}", model=model)
    assert (session["outcome"], session["steps"]) == ("completed", 1), kind
    events = await assert_sound(client, session["id"])

    first, second = of_type(events, "step.started")
    assert (first.data["attempt"], second.data["attempt"], second.data["step"]) == (1, 2, 1)
    (retrying,) = of_type(events, "step.retrying")
    assert retrying.data["message_id"] == first.data["message_id"]
    assert retrying.data["attempt"] == 1
    assert retrying.data["code"] == CODES.get(kind, retrying.data["code"])
    assert retrying.data["detail"]
    (finished,) = of_type(events, "step.finished")
    assert (finished.data["attempt"], finished.data["message_id"]) == (2, second.data["message_id"])
    assert of_type(events, "tool.result") == []

    by_id = {message["id"]: message for message in await client.messages(session["id"])}
    assert by_id[first.data["message_id"]]["voided_at"] is not None
    assert by_id[second.data["message_id"]]["voided_at"] is None
    closed = [event for event in events if event.data.get("message_id") == first.data["message_id"]]
    texts = [event.data["part_id"] for event in closed if event.type == "text.completed"]
    assert {part["id"] for part in by_id[first.data["message_id"]]["parts"]} >= set(texts)
    assert all(
        "void" not in text for request in requests_of(provider, f"task {kind}") for text in request.assistant_texts
    )

    await client.say(session["id"], "next")
    assert requests_of(provider, f"task {kind}")[-1].assistant_texts == ("better",)
    context = await client.get(f"/v1/sessions/{session['id']}/context")
    assert first.data["message_id"] not in {item["message"]["id"] for item in context["messages"]}


async def test_every_attempt_is_in_the_list_of_steps(server_with: StartServer, provider: FakeProvider) -> None:
    provider.script(*[HttpError(429, headers=NOW)] * 4, Reply(Text("at last")))
    async with Client(server_with().url) as client:
        session, events = await client.run("task")
        steps = await client.steps(session["id"])

        assert session["outcome"] == "completed"
        assert [(step["step"], step["attempt"], step["finish_reason"]) for step in steps] == [
            *[(1, attempt, "error") for attempt in range(1, 5)],
            (1, 5, "stop"),
        ]
        assert [event.data["attempt"] for event in of_type(events, "step.retrying")] == [1, 2, 3, 4]
        await assert_sound(client, session["id"])


@pytest.mark.shared_server
async def test_the_providers_retry_delay_is_respected(client: Client, provider: FakeProvider) -> None:
    provider.script(HttpError(429, headers={"retry-after": "0.4"}), Reply(Text("now")))
    _, events = await client.run("task")

    (retrying,) = of_type(events, "step.retrying")
    assert 400 <= retrying.data["delay_ms"] <= 440
    first, second = provider.requests
    assert second.arrived_at - first.arrived_at >= 0.4


@first_of(model=MODELS)
async def test_a_provider_that_stays_broken_fails_the_run(
    start_server: StartServer, provider: FakeProvider, model: str
) -> None:
    provider.script(HttpError(503, headers=NOW), HttpError(503, headers=NOW), Reply(Text("back")))
    async with Client(start_server(provider_max_attempts=2).url) as client:
        session, events = await client.run("task", model=model)

        assert (session["outcome"], session["error"]["code"]) == ("failed", "provider_overloaded")
        assert session["error"]["status"] == 502
        assert len(provider.requests) == 2
        assert [event.data["finish_reason"] for event in of_type(events, "step.finished")] == ["error"]
        assert of_type(events, "session.idle")[0].data["error"] == session["error"]
        await client.resume(session["id"])
        await client.until_idle(session["id"])
        assert (await client.session(session["id"]))["outcome"] == "completed"
        await assert_sound(client, session["id"])
    assert provider.refusals == []


async def test_the_last_attempts_text_is_kept(start_server: StartServer, provider: FakeProvider) -> None:
    call = command("touch never")
    provider.script(Reply(Text("half of it"), call, Reset()), Reply(Text("on")))
    async with Client(start_server(provider_max_attempts=1).url) as client:
        session, events = await client.run("task")

        assert session["error"]["code"] == "provider_unreachable"
        (text,) = of_type(events, "text.completed")
        assert text.data["text"] == "half of it"
        calls = of_type(events, "tool.call")  # the reset may cut the stream before the call
        assert [event.data["status"] for event in of_type(events, "tool.result")] == ["interrupted"] * len(calls)
        await client.say(session["id"], "go on")
        assert provider.requests[-1].assistant_texts == ("half of it",)
        await assert_sound(client, session["id"])
    assert provider.refusals == []


@pytest.mark.shared_server
@pytest.mark.parametrize("model", [OPENAI, ANTHROPIC])  # a bare 404 of Responses points to Chat Completions
@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, "provider_auth"),
        (403, "provider_auth"),
        (404, "provider_not_found"),
    ],
)
async def test_permanent_errors_fail_at_once(
    client: Client, provider: FakeProvider, model: str, status: int, code: str
) -> None:
    provider.script(HttpError(status))
    session, events = await client.run("task", model=model)

    assert (session["outcome"], session["error"]["code"]) == ("failed", code)
    assert str(status) in session["error"]["detail"]
    assert len(provider.requests) == 1
    assert of_type(events, "step.retrying") == []
    await assert_sound(client, session["id"])


@first_of(model=MODELS)
async def test_a_context_that_does_not_fit_is_reported_as_too_large(
    client: Client, provider: FakeProvider, model: str
) -> None:
    provider.configure(window=700)
    session, events = await client.run("task", model=model)

    assert (session["outcome"], session["error"]["code"]) == ("failed", "context_too_large")
    assert session["error"]["limit"] == 128_000
    assert [event.data["finish_reason"] for event in of_type(events, "step.finished")] == ["error"]
    assert provider.broken == []
    await assert_sound(client, session["id"])


async def test_a_model_that_was_taken_away_fails_its_step(start_server: StartServer, provider: FakeProvider) -> None:
    first = start_server()
    async with Client(first.url) as client:
        session, _ = await client.run("task")
    first.stop()

    only = {"fake-anthropic": {"kind": "anthropic", "base_url": provider.url}}
    async with Client(start_server(providers=only, model=ANTHROPIC).url) as client:
        await client.say(session["id"], "more")

        after = await client.session(session["id"])
        assert (after["outcome"], after["error"]["code"]) == ("failed", "unknown_model")
        await assert_sound(client, session["id"])
        await client.change(session["id"], model=ANTHROPIC)
        await client.resume(session["id"])
        await client.until_idle(session["id"])
        assert (await client.session(session["id"]))["outcome"] == "completed"
        await assert_sound(client, session["id"])


KEY = "sk-verysecret-0123456789abcdef"


def _echoing(status: int) -> HttpError:
    body = {"error": {"message": f"Incorrect API key provided: {KEY}.", "type": "invalid_request_error"}}
    return HttpError(status, body, headers=NOW)


@first_of(model=MODELS)
async def test_the_key_is_in_no_error_event_or_log(
    start_server: StartServer,
    provider: FakeProvider,
    model: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("FAKE_PROVIDER_KEY", KEY)
    provider.configure(key=KEY)
    provider.script(
        _echoing(500), Reply(StreamError(message=f"no {KEY}")), Reply(Text("ok")), _echoing(401), per_conversation=True
    )
    providers: dict[str, Any] = {
        "fake-openai": {"kind": "openai", "base_url": provider.openai_url, "api_key_env": "FAKE_PROVIDER_KEY"},
        "fake-anthropic": {"kind": "anthropic", "base_url": provider.url, "api_key_env": "FAKE_PROVIDER_KEY"},
        "fake-responses": {
            "kind": "openai-responses",
            "base_url": provider.openai_url,
            "api_key_env": "FAKE_PROVIDER_KEY",
        },
    }
    async with Client(start_server(providers=providers, log_level="debug").url) as client:
        session, events = await client.run("task", model=model)
        assert session["outcome"] == "completed"
        assert len(of_type(events, "step.retrying")) == 2
        await client.post(session["id"], "once more")
        events += await client.until_idle(session["id"])
        session = await client.session(session["id"])
        assert session["error"]["code"] == "provider_auth"
        seen = json.dumps([event.data for event in events])
        for path in ("", "/messages", "/steps", "/context"):
            seen += (await client.http.get(f"/v1/sessions/{session['id']}{path}")).text
        seen += (await client.http.get("/v1/models")).text

    logged = capfd.readouterr()
    assert KEY not in seen + logged.out + logged.err
    assert provider.refusals == []
