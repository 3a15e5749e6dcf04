"""An incompressible context ends in one clear error, and the session works again once the cause is gone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.tools import ToolRegistry, default_tools
from tests.behavior.checks import assert_sound
from tests.behavior.combinations import across, first_of
from tests.behavior.conftest import StartServer
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, Event, command, of_type
from tests.behavior.long_task import asks_for_summary, works_on
from tests.behavior.packed import packed
from tests.provider import FakeProvider, RecordedRequest, Reply, Text, ToolCall

WINDOW = 8_000
ROOMY = {OPENAI: "fake-openai/roomy", ANTHROPIC: "fake-anthropic/roomy"}
POLICIES = ["reactive", "threshold", "handoff"]
MODELS = [OPENAI, ANTHROPIC]
LONG = "All work and no play. "
ALL_TOOLS = [name for name in ToolRegistry(default_tools()).names() if name != "delegate"]

MOST_CALLS = 12
"""Maximum model calls of a round."""


@pytest.fixture
def windows(provider: FakeProvider) -> dict[str, Any]:
    """Settings of a server whose models have a small window, equal to the provider's; two have a large one."""
    provider.configure(window=WINDOW, windows={"roomy": 64_000})
    sizes = dict.fromkeys(MODELS, WINDOW) | dict.fromkeys(ROOMY.values(), 64_000)
    return {name: {"context_window": size} for name, size in sizes.items()}


@pytest.fixture
async def small(start_server: StartServer, windows: dict[str, Any]) -> AsyncIterator[Client]:
    async with Client(start_server(models=windows).url) as client:
        yield client


async def fails_once(client: Client, session_id: str, after: int = 0) -> dict[str, Any]:
    """The error of a session whose last run ended because of a full window; its log has it exactly once."""
    session = await client.session(session_id)
    assert session["outcome"] == "failed"
    events = [event for event in await assert_sound(client, session_id) if (event.id or 0) > after]
    (idle,) = of_type(events, "session.idle")
    assert idle.data["error"] == session["error"]
    assert_calm(events)
    assert not session["compaction"]["in_progress"]
    error: dict[str, Any] = session["error"]
    assert error["code"] == "context_too_large"
    assert error["part_tokens"] <= error["tokens"]
    assert error["tokens"] > error["limit"] * 0.7
    return error


def assert_calm(events: list[Event]) -> None:
    """At most one round, which failed at most once per rung; no step was started."""
    assert len(of_type(events, "compaction.started")) <= 1
    rungs = [event.data["rung"] for event in of_type(events, "compaction.failed")]
    assert len(set(rungs)) == len(rungs)
    assert of_type(events, "step.started", "step.retrying", "compaction.completed", "prune.completed") == []
    assert len(events) < 20


async def says(client: Client, session_id: str, text: str) -> dict[str, Any]:
    """Posts a message and waits for the outcome."""
    await client.say(session_id, text)
    return await client.session(session_id)


@across(policy=POLICIES, model=MODELS)
async def test_a_system_prompt_that_does_not_fit(
    small: Client, provider: FakeProvider, policy: str, model: str
) -> None:
    provider.respond(works_on)
    session, _ = await small.run("task", model=model, compaction=policy, system_prompt=LONG * 2_000)
    error = await fails_once(small, session["id"])
    assert error["part"] == "system prompt"
    assert error["part_tokens"] == pytest.approx(11_000, rel=0.2)
    assert error["limit"] == WINDOW
    assert "system prompt" in error["detail"]
    assert provider.requests == []

    last_seq = (await small.session(session["id"]))["last_seq"]
    await says(small, session["id"], "again")
    assert (await fails_once(small, session["id"], last_seq))["part"] == "system prompt"
    assert provider.requests == []

    await small.change(session["id"], system_prompt="Be brief.")
    session = await says(small, session["id"], "and now?")
    assert (session["outcome"], session["error"]) == ("completed", None)
    texts = "\n".join(provider.requests[-1].user_texts)
    assert texts.index("task") < texts.index("again") < texts.index("and now?")
    assert provider.refusals == []


@first_of(policy=POLICIES)
async def test_a_system_prompt_that_grew_while_the_session_worked(
    small: Client, provider: FakeProvider, policy: str
) -> None:
    """Something can be compacted, but not enough; the context stays as it was."""
    provider.respond(works_on)
    session, _ = await small.run("go on", compaction=policy, history=packed("the task", 2))
    assert session["outcome"] == "completed"
    before, last_seq = await small.messages(session["id"]), session["last_seq"]
    count = session["compaction"]["count"]
    calls = len(provider.requests)
    await small.change(session["id"], system_prompt=LONG * 2_000)
    await says(small, session["id"], "more")
    assert (await fails_once(small, session["id"], last_seq))["part"] == "system prompt"
    assert len(provider.requests) - calls <= MOST_CALLS
    assert (await small.messages(session["id"]))[: len(before)] == before

    await small.change(session["id"], system_prompt="Be brief.")
    session = await says(small, session["id"], "and now?")
    assert session["outcome"] == "completed"
    assert session["compaction"]["count"] == count
    assert provider.refusals == []


@across(policy=POLICIES, model=MODELS)
async def test_a_message_that_does_not_fit(small: Client, provider: FakeProvider, policy: str, model: str) -> None:
    provider.respond(works_on)
    session, _ = await small.run("a small task", model=model, compaction=policy)
    path = f"/v1/sessions/{session['id']}/queue"
    response = await small.http.post(path, json={"content": LONG * 2_000})
    assert (response.status_code, response.json()["code"]) == (413, "message_too_large")
    assert (await small.session(session["id"]))["last_seq"] == session["last_seq"]
    calls = len(provider.requests)

    await small.change(session["id"], model=ROOMY[model])
    session = await says(small, session["id"], LONG * 2_000)
    assert session["outcome"] == "completed"
    session = await says(small, session["id"], "and now?")
    assert session["outcome"] == "completed"
    # The model has seen the large message, and it is neither the task nor the latest: it can be summarized.
    await small.change(session["id"], model=model)
    session = await says(small, session["id"], "still there?")
    assert (session["outcome"], session["error"]) == ("completed", None)
    assert len(provider.requests) - calls <= 2 + MOST_CALLS
    assert "still there?" in provider.requests[-1].last_user_text
    assert "a small task" in "\n".join(provider.requests[-1].user_texts)
    assert provider.refusals == []


@across(policy=POLICIES, model=MODELS)
async def test_tool_schemas_that_do_not_fit(
    start_server: StartServer, provider: FakeProvider, windows: dict[str, Any], policy: str, model: str
) -> None:
    provider.configure(window=1_024)
    provider.respond(works_on)
    windows[model] = {"context_window": 1_024}
    async with Client(start_server(models=windows).url) as client:
        # All tools, by name: by default, a session gets few in such a window.
        session, _ = await client.run("task", model=model, compaction=policy, tools=ALL_TOOLS)
        error = await fails_once(client, session["id"])
        assert error["part"] in ("tool schemas", "system prompt")
        assert error["limit"] == 1_024
        assert provider.requests == []

        await client.change(session["id"], tools=[], system_prompt="Be brief.")
        session = await says(client, session["id"], "and now?")
        if session["outcome"] == "failed":
            # Without tools it is the service's own system text.
            assert session["error"]["part"] == "system prompt"
        await client.change(session["id"], model=ROOMY[model])
        session = await says(client, session["id"], "and now?")
        assert session["outcome"] == "completed"
        assert provider.refusals == []


async def test_a_window_known_only_to_the_provider(small: Client, provider: FakeProvider) -> None:
    """The provider refuses everything, although it fits by the server's count: that ends too, with the reason."""
    provider.configure(window=300)
    provider.respond(works_on)
    session, _ = await small.run("go on", history=packed("the task", 2))
    assert session["outcome"] == "failed"
    assert session["error"]["code"] == "context_too_large"
    events = await assert_sound(small, session["id"])
    assert len(of_type(events, "compaction.started")) <= 10
    assert len(provider.requests) <= 60
    provider.configure(window=WINDOW)
    session = await says(small, session["id"], "and now?")
    assert session["outcome"] == "completed"


@first_of(policy=POLICIES)
async def test_outputs_larger_than_the_window_are_clipped(small: Client, provider: FakeProvider, policy: str) -> None:
    calls = [command("head -c 30000 /dev/zero | tr '\\0' 'y'") for _ in range(4)]

    def answer(request: RecordedRequest) -> Reply:
        first = len(provider.requests) == 1
        return Reply(Text("now"), *calls) if first else works_on(request)

    provider.respond(answer)
    session, _ = await small.run("task", compaction=policy)
    assert (session["outcome"], session["error"]) == ("completed", None)
    await assert_sound(small, session["id"])
    assert provider.refusals == []


@pytest.mark.parametrize(
    "settings",
    [
        {"policy": "handoff", "handoff_threshold": 500},
        {"policy": "threshold", "threshold_percent": 0.05, "recent_messages_to_keep": 1},
    ],
)
async def test_an_unreachable_trigger(
    start_server: StartServer, provider: FakeProvider, settings: dict[str, Any]
) -> None:
    """An unreachable trigger must not end a session whose context fits, nor cause useless summaries."""
    provider.configure(window=32_000)
    made = 0

    def answer(request: RecordedRequest) -> Reply:
        nonlocal made
        made += not asks_for_summary(request)
        busy = made < 6 and not asks_for_summary(request)
        return Reply(Text("on"), ToolCall("update_plan", {"items": []})) if busy else works_on(request)

    provider.respond(answer)
    async with Client(start_server(models={OPENAI: {"context_window": 32_000}}).url) as client:
        session, _ = await client.run("task", compaction=settings)
        assert (session["outcome"], session["error"], session["steps"]) == ("completed", None, 6)
        session = await says(client, session["id"], "and more")
        assert session["outcome"] == "completed"
        events = await assert_sound(client, session["id"])
    assert of_type(events, "compaction.started") == []
    assert len(provider.requests) == 7
