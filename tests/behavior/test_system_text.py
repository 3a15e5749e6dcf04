"""The system text of a context: when plan and notes are included, and that it is measured as sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.behavior.checks import assert_sound
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, RunningServer, command, of_type
from tests.behavior.long_task import SUMMARY, asks_for_summary
from tests.behavior.rounds import (
    SHORT_TAIL,
    assert_sent,
    compact,
    compacted,
    context,
    ended,
    settings,
    steps_of,
)
from tests.behavior.test_files import address
from tests.provider import FakeProvider, Gate, HttpError, RecordedRequest, Reply, Text, Tokens, ToolCall

HEAD = "\n\n## Your plan\n"


def plan(text: str) -> Reply:
    return Reply(ToolCall("update_plan", {"items": [{"text": text, "status": "in_progress"}]}))


def output(chars: int = 4_000) -> Reply:
    return Reply(command(f"head -c {chars} /dev/zero | tr '\\0' x"))


def answers(*replies: Reply, summary: Reply | None = None) -> Callable[[RecordedRequest], Reply]:
    """Replies to steps in turn, a last text after them, and a summary whenever one is asked for."""
    left: Iterator[Reply] = iter(replies)

    def answer(request: RecordedRequest) -> Reply:
        if asks_for_summary(request):
            return summary or Reply(Text(SUMMARY.format(step=1)))
        return next(left, Reply(Text("Done.")))

    return answer


async def estimated(client: Client, session_id: str, step: int) -> int:
    """A step's estimated tokens before anything is known about its model's tokenizer."""
    shown = await client.get(f"/v1/sessions/{session_id}/context", step=step)
    return int(sum(part["tokens"] for part in (shown["system"], *shown["tools"], *shown["messages"])))


async def test_a_changed_plan_leaves_the_cache_and_the_reported_size_alone(
    start_server: Callable[..., RunningServer], provider: FakeProvider
) -> None:
    provider.respond(answers(output(), plan("dig"), plan("plant"), output(), Reply(Text("One.")), Reply(Text("Two."))))
    server = start_server()
    async with Client(server.url) as client:
        session_id = (await client.run("the task", compaction=settings()))[0]["id"]
    server.stop()
    async with Client(start_server().url) as client:
        await client.say(session_id, "Go on.")

        made = await client.steps(session_id)
        assert [step["generation"] for step in made] == [1] * 6
        assert all(step["usage"]["cache_read_tokens"] > 0 for step in made[1:])
        assert {step["context"]["source"] for step in made[1:]} == {"reported"}
        requests = steps_of(provider)
        assert len({request.system for request in requests}) == 1
        assert [*requests[-1].tool_results.values()][1:3] == ["[>] dig", "[>] plant"]

        provider.respond(answers(plan("water")))
        await compacted(client, session_id)
        await client.say(session_id, "Go on.")
        requests = steps_of(provider)
        first, *checkpointed = dict.fromkeys(request.system for request in requests)
        (system,) = checkpointed
        assert system.startswith(first + HEAD)
        assert "\n- [>] plant" in system, "the plan as it was when this context began"
        assert "`update_plan`" in system.removeprefix(first)
        assert "dig" not in system.removeprefix(first)
        assert len(requests) == len(await client.steps(session_id)) == 8
        for number, request in enumerate(requests, 1):
            assert_sent(await context(client, session_id, number), request)
        assert (await context(client, session_id))["system"]["text"] == system
        await assert_sound(client, session_id)
    assert provider.refusals == []


@pytest.mark.parametrize("change", [{"model": ANTHROPIC}, {"tools": ["read_file"]}, {"system_prompt": "Be quick."}])
async def test_every_new_context_uses_the_newest_plan(
    client: Client, provider: FakeProvider, change: dict[str, Any]
) -> None:
    provider.respond(answers(plan("dig"), plan("plant")))
    session_id = (await client.run("the task"))[0]["id"]
    await client.change(session_id, **change)
    await client.say(session_id, "Go on.")

    *before, last = steps_of(provider)
    assert all(HEAD not in request.system for request in before)
    assert last.system.endswith("\n- [>] plant")


async def test_notes_are_there_after_a_compaction_that_comes_before_anything_else(
    client: Client, provider: FakeProvider
) -> None:
    session_id = (await client.create())["id"]
    for text in (b"Use tabs.", b"Use spaces."):
        assert (await client.http.put(address(session_id, "AGENTS.md"), content=text)).is_success
        assert text.decode() in (await context(client, session_id))["system"]["text"]
        event = await ended(client, session_id, (await compact(client, session_id))["round"])
        assert (event.type, event.data["code"]) == ("compaction.failed", "nothing_to_compact")
    shown = await context(client, session_id)
    await client.say(session_id, "Go on.")

    (request,) = provider.requests
    assert "\nUse spaces.\n" in request.system
    assert request.system == shown["system"]["text"]


@pytest.mark.parametrize("lines", [20, 2_000])
async def test_a_round_is_measured_with_its_new_notes(client: Client, provider: FakeProvider, lines: int) -> None:
    provider.respond(answers(output(), output(), output(10), output(10)))
    session_id = (await client.run("the task", compaction=settings(prune_minimum=1_000_000)))[0]["id"]
    before = await context(client, session_id)
    size = (await client.get(f"/v1/sessions/{session_id}/context"))["tokens"]
    notes = b"a note that is kept\n" * lines
    assert (await client.http.put(address(session_id, "MEMORY.md"), content=notes)).is_success
    event = await ended(client, session_id, (await compact(client, session_id))["round"])

    after = await client.get(f"/v1/sessions/{session_id}/context")
    if lines == 2_000:
        assert (event.type, event.data["code"]) == ("compaction.failed", "not_small_enough")
        assert await context(client, session_id) == before
    else:
        assert event.type == "compaction.completed"
        assert "a note that is kept" in after["system"]["text"]
        # A round also counts the placeholder line after an answer.
        assert 0 <= event.data["tokens_after"] - after["tokens"] < 30
        assert after["tokens"] < size


async def test_a_model_chosen_during_a_round_uses_its_own_estimates(client: Client, provider: FakeProvider) -> None:
    report = Tokens(input=30_000)
    dear = [Reply(*output().parts, usage=Tokens(input=3_000)), Reply(*output().parts, usage=report)]
    provider.respond(answers(*dear, summary=Reply(Gate("summary"), Text(SUMMARY.format(step=2)))))
    rules = {**SHORT_TAIL, "policy": "handoff", "handoff_threshold": 20_000}
    session_id = (await client.create("the task", compaction=rules))["id"]
    await provider.reached("summary")
    await client.change(session_id, model=ANTHROPIC)
    provider.open("summary")
    events = await client.until_idle(session_id)
    assert len(of_type(events, "compaction.completed")) == 1

    started = of_type(events, "step.started")[-1].data
    assert (started["step"], started["context"]["source"]) == (3, "estimated")
    assert (await context(client, session_id, 3))["model"] == ANTHROPIC
    size = await estimated(client, session_id, 3)
    assert started["context"]["tokens"] == pytest.approx(1.1 * size, abs=2), "nothing is known of this one yet"

    other, events = await client.run("another task", model=OPENAI)
    started = of_type(events, "step.started")[0].data
    size = await estimated(client, other["id"], 1)
    assert started["context"]["tokens"] == pytest.approx(3.0 * size, abs=2), "what was learnt before is kept"
    assert provider.refusals == []


async def test_a_refusal_from_a_previous_model_compacts_nothing(client: Client, provider: FakeProvider) -> None:
    body = {"error": {"message": "maximum context length exceeded", "code": "context_length_exceeded"}}
    refused = Reply(Gate("refused"), HttpError(400, body))
    provider.respond(answers(output(), output(), output(), refused))
    session_id = (await client.create("the task", compaction=settings()))["id"]
    await provider.reached("refused")
    await client.change(session_id, model=ANTHROPIC)
    provider.open("refused")
    events = await client.until_idle(session_id)

    assert (await client.session(session_id))["outcome"] == "completed"
    assert of_type(events, "compaction.started", "prune.completed") == []
    assert [request.wire for request in provider.requests][-2:] == ["openai", "anthropic"]
    assert len(provider.requests[-1].tool_results) == 3
