"""What a compaction costs: summaries requested in the conversation share its prefix, and those prepared in the
background (the default) delay nobody."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.behavior.checks import assert_sound, at, following
from tests.behavior.combinations import across, first_of
from tests.behavior.conftest import StartProcess, StartServer
from tests.behavior.harness import OPENAI, Client, Event, of_type
from tests.behavior.long_task import ASKS_IN_CONVERSATION, SUMMARY, LongTask, asks_for_summary
from tests.behavior.rounds import (
    MODELS,
    assert_rounds,
    compact,
    rounds,
    snapshot,
    state,
    steps_of,
    summaries_of,
)
from tests.behavior.test_cancel_resume import cancel
from tests.load import LONG
from tests.provider import Answer, FakeProvider, Gate, HttpError, RecordedRequest, Reply, Text, Tokens, ToolCall

ROOMY = 32_000
"""A window in which there is room for a summary beside a context that is due."""

WINDOWS = {name: {"context_window": ROOMY} for name in MODELS}
NO_PRUNING = {"prune_exempt_tools": ["execute_command"]}

PAUSE_S = 0.2
"""Maximum time an agent may pause for a summary that is ready."""


class Steady:
    """A model whose steps all have the same size, so that the trigger comes at a known step. After the first request
    for a summary it makes `more` steps, waits at the gate `near`, and continues for `rest` steps."""

    def __init__(self, summary: Callable[[RecordedRequest], Answer], *, more: int = 2, rest: int = 14) -> None:
        self.summary = summary
        self.more = more
        self.rest = rest
        self.asked = 0
        self.since = 0

    def __call__(self, request: RecordedRequest) -> Answer:
        if asks_for_summary(request):
            self.asked += 1
            return self.summary(request)
        if self.asked:
            self.since += 1
        if self.since > self.more + self.rest:
            return Reply(Text("All done."))
        # Its first outputs are large, so that the test is short.
        size = 12_000 if len(request.tool_results) < 4 and not self.asked else 2_000
        command = f"head -c {size} /dev/zero | tr '\\0' x; echo {len(request.tool_results)}"
        gate = [Gate("near")] if self.since == self.more + 1 else []
        return Reply(*gate, Text("On it."), ToolCall("execute_command", {"command": command}))


def summary_after(*gates: str, usage: Tokens | None = None) -> Callable[[RecordedRequest], Answer]:
    """The first summary waits at the gates, in the middle of its text."""
    left = list(gates)

    def answer(request: RecordedRequest) -> Answer:
        waits = [Gate(left.pop(0)) for _ in gates if left]
        return Reply(Text("## Completed Work\nsome\n"), *waits, Text(SUMMARY.format(step=1)), usage=usage)

    return answer


async def begun(client: Client, **fields: Any) -> str:
    fields.setdefault("compaction", {"policy": "reactive", **NO_PRUNING})
    made = await client.create("the task", limits={"max_steps": None, **fields.pop("limits", {})}, **fields)
    return str(made["id"])


async def all_answered_but_one(provider: FakeProvider) -> None:
    """Waits until only the step at its gate is open."""
    await provider.answered(len(provider.requests) - 1)


# the shared prefix


@across(1, background=[True, False], policy=["handoff", "reactive"], model=MODELS)
@pytest.mark.slow
async def test_a_summary_asked_for_in_the_conversation_shares_the_prefix_of_the_step_before(
    start_server: StartServer, provider: FakeProvider, policy: str, model: str, background: bool
) -> None:
    provider.configure(window=ROOMY)
    provider.respond(LongTask(34, most=24_000))
    compaction = {"policy": policy, "background": background, **NO_PRUNING}
    async with Client(start_server(models=WINDOWS).url) as client:
        session_id = await begun(client, model=model, compaction=compaction)
        await client.until_idle(session_id)
        assert (await client.session(session_id))["outcome"] == "completed"
        await assert_rounds(client, session_id)
    asked = summaries_of(provider)
    assert len(asked) >= 2
    for request in asked:
        assert ASKS_IN_CONVERSATION in request.last_user_text
        before = [r for r in steps_of(provider) if r.index < request.index][-1]
        assert request.shared_tokens >= 0.95 * before.tokens
        assert request.cached_tokens >= 0.95 * before.tokens
        assert request.tool_names == before.tool_names
        assert request.system == before.system
    assert provider.refusals == []


# no waiting


@across(1, policy=["reactive", "threshold", "handoff"], model=MODELS)
async def test_an_agent_does_not_pause_for_a_summary_that_is_ready(
    start_server: StartServer, provider: FakeProvider, policy: str, model: str
) -> None:
    provider.configure(window=ROOMY)
    task = Steady(summary_after("slow"))
    provider.respond(task)
    async with Client(start_server(models=WINDOWS).url) as client:
        session_id = await begun(client, model=model, compaction={"policy": policy, **NO_PRUNING})
        async with following(client, session_id) as follower:
            await provider.reached("slow")
            opened = await follower.type("compaction.started")
            assert opened.data["background"]
            # It continues while the summary is written.
            await provider.reached("near")
            assert await state(client, session_id) == (0, False)
            assert [item["status"] for item in await rounds(client, session_id)] == ["running"]
            provider.open("slow")
            await all_answered_but_one(provider)
            provider.open("near")
            await follower.type("session.idle")

        events = await assert_sound(client, session_id)
        completed = of_type(events, "compaction.completed")[0]
        assert completed.data["round"] == opened.data["round"]
        assert completed.data["was_summarized"]
        place = events.index(completed)
        before = [e for e in events[:place] if e.type == "step.finished"][-1]
        after = next(e for e in events[place:] if e.type == "step.started")
        assert at(before) >= at(opened)
        between = events[events.index(before) : events.index(after)]
        assert of_type(between, "compaction.started") == [], "no round was begun for it"
        pause_s = (at(after) - at(before)).total_seconds()
        print(f"{policy} over {model}: a pause of {pause_s * 1000:.0f} ms")
        assert pause_s < PAUSE_S or not LONG
        await assert_rounds(client, session_id)
    assert provider.refusals == []


async def test_the_agent_waits_for_a_summary_that_is_not_ready(
    start_server: StartServer, provider: FakeProvider
) -> None:
    provider.configure(window=ROOMY)
    provider.respond(Steady(summary_after("slow"), more=99, rest=0))
    async with Client(start_server(models=WINDOWS).url) as client:
        session_id = await begun(client)
        async with following(client, session_id) as follower:
            await provider.reached("slow")

            def full(event: Event) -> bool:
                context = event.data.get("context") or {}
                return event.type == "step.finished" and context["tokens"] > context["usable"]

            await follower.seen(full)
            count = len(provider.requests)
            await client.post(session_id, "said meanwhile", "interrupt")
            assert len(provider.requests) == count
            provider.open("slow")
            await follower.type("compaction.completed")
            await provider.request_count(count + 1)
            await cancel(client, session_id)
            await follower.type("session.idle")
        assert "said meanwhile" in steps_of(provider)[-1].last_user_text
        first = (await rounds(client, session_id))[0]
        assert (first["round"], first["status"]) == (1, "completed")
        opened, *_ = of_type(follower.events, "compaction.started")
        assert (opened.data["round"], opened.data["background"]) == (1, True)
        assert of_type(follower.events, "compaction.discarded") == []
        assert len(summaries_of(provider)) == 1
        await assert_rounds(client, session_id)


@pytest.mark.extended
@first_of(2, background=[None, False, True])
async def test_preparing_can_be_turned_off(
    start_server: StartServer, provider: FakeProvider, background: bool | None
) -> None:
    provider.configure(window=ROOMY)
    provider.respond(LongTask(20, most=18_000))
    asked = {} if background is None else {"background": background}
    async with Client(start_server(models=WINDOWS).url) as client:
        session_id = await begun(client, compaction={**NO_PRUNING, **asked})
        events = await client.until_idle(session_id)
        shown = (await client.session(session_id))["compaction"]["settings"]["background"]
    assert shown is (background is not False)
    started = of_type(events, "compaction.started")
    assert started
    assert any(event.data["background"] for event in started) is shown


# what is not needed


@first_of(ends=["completed", "cancelled", "failed"])
async def test_a_summary_that_is_not_needed_is_discarded_with_its_cost(
    start_server: StartServer, provider: FakeProvider, ends: str
) -> None:
    provider.configure(window=ROOMY)
    provider.respond(Steady(summary_after("slow"), more=1, rest=0))
    async with Client(start_server(models=WINDOWS).url) as client:
        session_id = await begun(client)
        await provider.reached("slow")
        spent = (await client.session(session_id))["usage"]
        assert spent["output_tokens"] > 0
        if ends == "cancelled":
            provider.script_when(lambda r: True, Reply(Gate("held")))
            await cancel(client, session_id)
        elif ends == "failed":
            provider.script_when(lambda r: not asks_for_summary(r), HttpError(402))
        provider.open("near")
        events = await client.until_idle(session_id)

        assert (await client.session(session_id))["outcome"] == ends
        [discarded] = of_type(events, "compaction.discarded")
        assert discarded.data["usage"]["output_tokens"] > 0
        assert events[-1].type == "session.idle"
        [item] = await rounds(client, session_id)
        assert (item["status"], item["usage"]) == ("discarded", discarded.data["usage"])
        await provider.left()
        await assert_rounds(client, session_id)
        assert (await client.session(session_id))["compaction"]["last_at"] is None


async def test_a_summary_of_another_base_is_discarded(start_server: StartServer, provider: FakeProvider) -> None:
    provider.configure(window=ROOMY)
    provider.respond(Steady(summary_after("slow"), more=1, rest=3))
    async with Client(start_server(models=WINDOWS).url) as client:
        session_id = await begun(client)
        await provider.reached("near")
        asked = await compact(client, session_id, policy="threshold")
        assert asked["round"] == 2
        provider.open("near")
        await client.until_idle(session_id)
        listed = await rounds(client, session_id)
        assert [item["status"] for item in listed[:2]] == ["discarded", "completed"]
        await assert_sound(client, session_id)
        await assert_rounds(client, session_id)


@first_of(change=[{"compaction": {"tail_tokens": 2_000}}, {"compaction": {"background": False}}, {"model": MODELS[1]}])
async def test_a_summary_of_other_settings_is_discarded(
    start_server: StartServer, provider: FakeProvider, change: dict[str, Any]
) -> None:
    provider.configure(window=ROOMY)
    provider.respond(Steady(summary_after("slow"), more=1, rest=3))
    async with Client(start_server(models=WINDOWS).url) as client:
        session_id = await begun(client)
        await provider.reached("near")
        await client.change(session_id, **change)
        provider.open("near")
        events = await client.until_idle(session_id)
        assert (await rounds(client, session_id))[0]["status"] == "discarded"
        [first, *_] = of_type(events, "compaction.discarded")
        assert first.data["round"] == 1
        await assert_rounds(client, session_id)


async def test_a_failed_background_summary_is_not_requested_repeatedly(
    start_server: StartServer, provider: FakeProvider
) -> None:
    provider.configure(window=ROOMY)
    task = Steady(lambda _: HttpError(403) if task.asked == 1 else Reply(Text(SUMMARY.format(step=2))))
    provider.respond(task)
    provider.open("near")
    async with Client(start_server(models=WINDOWS).url) as client:
        session_id = await begun(client)
        events = await client.until_idle(session_id)
        assert (await client.session(session_id))["outcome"] == "completed"
        listed = await rounds(client, session_id)
        assert [item["status"] for item in listed[:2]] == ["failed", "completed"]
        [failed] = [e for e in of_type(events, "compaction.failed") if e.data["round"] == 1]
        assert failed.data["next"] is None
        assert of_type(events, "compaction.discarded") == []
        await assert_rounds(client, session_id)


async def test_background_cost_counts_for_limits(start_server: StartServer, provider: FakeProvider) -> None:
    provider.configure(window=ROOMY)
    provider.respond(Steady(summary_after("slow", usage=Tokens(input=5_000_000)), more=1, rest=50))
    async with Client(start_server(models=WINDOWS).url) as client:
        session_id = await begun(client, limits={"max_tokens": 5_000_000})
        await provider.reached("near")
        provider.open("slow")
        await all_answered_but_one(provider)
        count = len(provider.requests)
        provider.open("near")
        await client.until_idle(session_id)

        session = await client.session(session_id)
        assert (session["outcome"], session["error"]["code"]) == ("limit_reached", "max_tokens")
        assert session["usage"]["input_tokens"] > 5_000_000
        assert len(provider.requests) - count <= 2, "the last step is one more"
        assert [item["status"] for item in await rounds(client, session_id)] == ["discarded"]
        await assert_rounds(client, session_id)


@first_of(how=[signal.SIGTERM, signal.SIGKILL])
@pytest.mark.slow
async def test_a_background_summary_ends_with_its_server(
    start_process: StartProcess, provider: FakeProvider, how: signal.Signals
) -> None:
    provider.configure(window=ROOMY)
    provider.respond(Steady(summary_after("slow"), more=1, rest=4))
    more = {"PALIMPSEST_MODELS": json.dumps(WINDOWS)}
    first = start_process(**more)
    async with Client(first.url) as client:
        session_id = await begun(client, model=OPENAI)
        await provider.reached("near")
        first.end(how)
    provider.open("near")
    async with Client(start_process(**more).url) as client:
        await client.until_idle(session_id)
        assert (await client.session(session_id))["outcome"] == "completed"
        listed = await rounds(client, session_id)
        assert listed[0]["status"] == ("discarded" if how is signal.SIGTERM else "cancelled")
        assert all(item["status"] != "running" for item in listed)
        await assert_sound(client, session_id)
        await assert_rounds(client, session_id)


async def test_a_client_that_joins_during_a_background_round_has_the_same_state(
    start_server: StartServer, provider: FakeProvider
) -> None:
    provider.configure(window=ROOMY)
    provider.respond(Steady(summary_after("slow"), more=1, rest=12))
    async with Client(start_server(models=WINDOWS).url) as client:
        session_id = await begun(client)
        await provider.reached("near")
        late = await snapshot(client, session_id)
        provider.open("slow")
        provider.open("near")
        await asyncio.wait_for(client.until_idle(session_id), 60)
        events = await assert_rounds(client, session_id)
        for event in events:
            if event.id is not None and event.id > late.last_seq:
                late.apply(event)
        whole = (await snapshot(client, session_id)).view
        assert not late.rounds.sure_of_usage
        assert {**late.view, "usage": whole["usage"]} == whole
