"""Reasoning effort as a session's setting: mapped to what the model offers, learned if unknown."""

from __future__ import annotations

import pytest

from tests.behavior.conftest import StartServer
from tests.behavior.harness import OPENAI, Client
from tests.behavior.long_task import asks_for_summary
from tests.behavior.packed import packed
from tests.provider import FakeProvider, HttpError, RecordedRequest, Reply, Text

KNOWN = "fake-openai/gpt-5.1"
KNOWN_EFFORTS = ["none", "low", "medium", "high"]


def sent(provider: FakeProvider) -> list[str | None]:
    return [request.body.get("reasoning_effort") for request in provider.requests]


def answers(request: RecordedRequest) -> Reply:
    return Reply(Text("## Completed Work\nall" if asks_for_summary(request) else "done"))


@pytest.mark.shared_server
async def test_the_effort_goes_to_the_model_from_the_next_step_on(client: Client, provider: FakeProvider) -> None:
    provider.respond(answers)
    session, _ = await client.run("go", reasoning_effort="high")
    path = f"/v1/sessions/{session['id']}"
    assert session["reasoning_effort"] == "high"

    changed = await client.http.patch(path, json={"reasoning_effort": "low"})
    assert changed.json()["reasoning_effort"] == "low"
    await client.say(session["id"], "again")
    fork = (await client.http.post(f"{path}/fork", json={})).json()
    assert fork["reasoning_effort"] == "low"
    await client.say(fork["id"], "and again")

    await client.http.patch(path, json={"title": "unrelated"})
    assert (await client.session(session["id"]))["reasoning_effort"] == "low"
    await client.http.patch(path, json={"reasoning_effort": None})
    await client.say(session["id"], "the default")
    assert sent(provider) == ["high", "low", "low", None]
    assert "reasoning_effort" not in provider.requests[-1].body


@pytest.mark.shared_server
async def test_an_effort_is_mapped_to_what_the_model_offers(client: Client, provider: FakeProvider) -> None:
    provider.respond(answers)
    session, _ = await client.run("go", model=KNOWN, reasoning_effort="max")
    path = f"/v1/sessions/{session['id']}"
    for change in ({"reasoning_effort": "minimal"}, {"model": "fake-openai/gpt-4o"}, {"model": OPENAI}):
        assert (await client.http.patch(path, json=change)).is_success
        await client.say(session["id"], "again")
    assert sent(provider) == ["high", "low", None, "minimal"]
    assert (await client.session(session["id"]))["reasoning_effort"] == "minimal"

    nonsense = await client.http.post("/v1/sessions", json={"reasoning_effort": "much"})
    assert (nonsense.status_code, nonsense.json()["code"]) == (422, "validation_error")


async def test_the_list_of_models_shows_accepted_efforts(start_server: StartServer, provider: FakeProvider) -> None:
    provider.respond(answers)
    models = {KNOWN: {"context_window": 64_000}, OPENAI: {"reasoning_efforts": ["low", "high"]}}
    async with Client(start_server(models=models).url) as client:
        listed = {item["name"]: item["reasoning_efforts"] for item in (await client.get("/v1/models"))["items"]}
        assert (listed[KNOWN], listed[OPENAI]) == (KNOWN_EFFORTS, ["low", "high"])
        assert listed["scripted/demo"] is None
        await client.run("go", model=OPENAI, reasoning_effort="max")
    assert sent(provider) == ["high"]


async def test_a_refused_effort_is_replaced_by_the_nearest_accepted_one(client: Client, provider: FakeProvider) -> None:
    provider.configure(efforts=frozenset({"low", "high"}))
    provider.respond(answers)
    session, events = await client.run("go", reasoning_effort="minimal")
    assert session["outcome"] == "completed"
    assert not [event for event in events if event.type == "step.retrying"]
    await client.run("another session", reasoning_effort="minimal")
    assert sent(provider) == ["minimal", "low", "low"]


async def test_a_model_without_efforts_is_called_without_one(client: Client, provider: FakeProvider) -> None:
    provider.configure(refused_parameters=frozenset({"reasoning_effort"}))
    provider.respond(answers)
    session, _ = await client.run("go", reasoning_effort="high")
    await client.run("another session", reasoning_effort="high")
    assert session["outcome"] == "completed"
    assert sent(provider) == ["high", None, None]


@pytest.mark.shared_server
@pytest.mark.parametrize(("model", "effort"), [(None, "high"), (OPENAI, None)])
async def test_a_summary_in_the_conversation_keeps_the_effort(
    client: Client, provider: FakeProvider, model: str | None, effort: str | None
) -> None:
    """The request continues a cached prefix that includes the effort; a text summary is a separate call."""
    provider.respond(answers)
    made = await client.create(history=packed("the task", 9), reasoning_effort="high", compaction={"model": model})
    await client.http.post(f"/v1/sessions/{made['id']}/compactions", json={})
    await client.wait_for(made["id"], lambda event: event.type in ("compaction.completed", "compaction.failed"))
    assert {request.body.get("reasoning_effort") for request in provider.requests} == {effort}


async def test_an_effort_refused_without_a_list_is_lowered_and_then_dropped(
    client: Client, provider: FakeProvider
) -> None:
    """A server in Anthropic's format with another vendor's model."""
    refused = {"error": {"message": "output_config.effort: invalid value"}}
    provider.respond(
        lambda request: HttpError(400, refused) if "output_config" in request.body else Reply(Text("done"))
    )
    session, _ = await client.run("go", model="fake-anthropic/kimi", reasoning_effort="minimal")
    asked = [request.body.get("output_config", {}).get("effort") for request in provider.requests]
    assert session["outcome"] == "completed"
    assert asked == [*dict.fromkeys(asked)], "no request twice"
