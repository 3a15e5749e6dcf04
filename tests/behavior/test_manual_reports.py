"""Manual compactions: what they report, what they keep and which budget they use; and the context size after a revert
during a step."""

from __future__ import annotations

from typing import Any

import pytest

from tests.behavior.harness import Client, of_type
from tests.behavior.packed import CLEARS_ALL, packed, worked_before
from tests.behavior.rounds import compact, compacted, context, ended, path, revert, settled, summaries_of, worked
from tests.provider import FakeProvider, Gate, Reply, Text, ToolCall


async def dry_run(client: Client, session_id: str, **body: Any) -> dict[str, Any]:
    response = await client.http.post(path(session_id), json={"dry_run": True, **body})
    assert response.status_code == 200, response.text
    told: dict[str, Any] = response.json()
    return told


async def size(client: Client, session_id: str) -> tuple[int, int]:
    """Tokens of the next request, and of its system text and tools."""
    shown = await client.get(f"/v1/sessions/{session_id}/context")
    return shown["tokens"], shown["system"]["tokens"] + sum(tool["tokens"] for tool in shown["tools"])


def talk(turns: int) -> dict[str, Any]:
    """A history of short turns, each answered with about 500 tokens."""
    messages = []
    for turn in range(turns):
        messages.append({"role": "user", "content": f"Request {turn}."})
        messages.append({"role": "assistant", "content": f"Answer {turn}: " + "word " * 400})
    return {"format": "openai", "messages": messages}


# sizes


@pytest.mark.parametrize("ran", [False, True])
async def test_a_round_reports_the_size_of_the_whole_context_from_its_start(
    client: Client, provider: FakeProvider, ran: bool
) -> None:
    provider.respond(lambda _: Reply(Text("Fine.")))
    session_id = (await client.create(history=packed("the task", 12)))["id"]
    if ran:
        await client.say(session_id, "go on")
    tokens, fixed = await size(client, session_id)
    assert fixed > 1_000
    would = await dry_run(client, session_id)
    asked = await compact(client, session_id)
    completed = (await ended(client, session_id, 1)).data
    [started] = of_type(await client.until_idle(session_id), "compaction.started")

    told = {asked["tokens_before"], started.data["tokens_before"], completed["tokens_before"], would["tokens_before"]}
    assert len(told) == 1
    assert told.pop() == pytest.approx(tokens, rel=0.02)
    assert (started.data["limit"], would["limit"]) == (128_000, 128_000)


async def test_its_limit_is_that_of_the_current_model(start_server: Any, provider: FakeProvider) -> None:
    provider.respond(lambda _: Reply(Text("Fine.")))
    models = {"fake-openai/model": {"context_window": 128_000}, "fake-openai/small": {"context_window": 50_000}}
    async with Client(start_server(models=models).url) as client:
        session_id = (await client.create(history=packed("the task", 12)))["id"]
        await client.change(session_id, model="fake-openai/small")
        await compact(client, session_id)
        await ended(client, session_id, 1)
        [started] = of_type(await client.until_idle(session_id), "compaction.started")
        assert started.data["limit"] == 50_000


@pytest.mark.parametrize("at_its_end", [False, True])
async def test_a_revert_during_a_step_counts_in_the_size_after_it(
    client: Client, provider: FakeProvider, at_its_end: bool
) -> None:
    """The run may continue after the step or end with it."""
    session_id = await worked(client, provider)
    made = (await compacted(client, session_id)).data
    saved = made["tokens_before"] - made["tokens_after"]
    replies = [Reply(Text("The"), Gate("last"), Text(" end"))]
    provider.script(*([] if at_its_end else [Reply(ToolCall("list_directory", {"path": "."}))]), *replies)
    await client.post(session_id, "look around")
    # By then, the step has reported its starting size.
    await client.wait_for(session_id, lambda event: event.type == "text.delta" and event.data["text"] == "The")
    smaller = (await client.session(session_id))["context"]["tokens"]
    await revert(client, session_id, 1)
    larger = (await client.session(session_id))["context"]["tokens"]
    assert larger == pytest.approx(smaller + saved, abs=50)
    provider.open("last")
    events = await client.until_idle(session_id)

    shown = (await client.session(session_id))["context"]
    assert shown["tokens"] == pytest.approx((await size(client, session_id))[0], rel=0.1)
    assert shown["tokens"] > smaller + 0.9 * saved
    assert shown["source"] == "estimated"
    assert of_type(events, "step.finished")[-1].data["context"] == shown
    last = (await client.steps(session_id))[-1]
    assert last["context"]["tokens"] < larger, "what the step itself has sent"


async def test_marks_during_a_round_do_not_report_the_context_size(client: Client, provider: FakeProvider) -> None:
    provider.respond(lambda _: Reply(Text("Fine.")))
    session_id = (await client.create(history=worked_before(40), compaction=CLEARS_ALL))["id"]
    made = (await compacted(client, session_id)).data
    assert made["outputs_pruned"] > 0
    assert (await client.session(session_id))["context"]["tokens"] == made["tokens_after"]
    await revert(client, session_id, 1)
    assert (await client.session(session_id))["context"]["tokens"] == made["tokens_before"]


# budgets and notes


async def test_another_policy_is_measured_by_its_own_budget(client: Client, provider: FakeProvider) -> None:
    session_id = (await client.create(history=packed("the task", 12)))["id"]
    usable = {
        policy: (await dry_run(client, session_id, policy=policy))["usable"] for policy in ("reactive", "handoff")
    }
    assert len(set(usable.values())) == 1
    would = await dry_run(client, session_id, policy="threshold")
    assert (would["usable"], would["trigger"]) == (128_000 - 4_000 - 5_000, 93_600)
    assert would["usable"] > usable["reactive"]


async def test_a_dry_run_and_a_round_read_the_same_notes(client: Client, provider: FakeProvider) -> None:
    provider.respond(lambda _: Reply(Text("Fine.")))
    session_id = (await client.create(history=packed("the task", 12), compaction="handoff"))["id"]
    await client.say(session_id, "go on")
    plain = await dry_run(client, session_id)
    response = await client.http.put(f"/v1/sessions/{session_id}/files/AGENTS.md", content=b"Be brief. " * 400)
    assert response.is_success
    would = await dry_run(client, session_id)
    assert would["tokens_before"] == plain["tokens_before"], "the copy counts until a context is made"
    assert would["tokens_after"] == pytest.approx(plain["tokens_after"] + 1_000, abs=100)
    made = (await compacted(client, session_id)).data
    assert made["tokens_before"] == would["tokens_before"]
    assert "Be brief." in (await context(client, session_id))["system"]["text"]
    assert made["tokens_after"] == pytest.approx((await size(client, session_id))[0], rel=0.02)


# what is kept


@pytest.mark.parametrize(("turns", "kept"), [(6, 2), (2, 1)])
async def test_the_newest_turns_of_a_small_context_stay_verbatim(
    client: Client, provider: FakeProvider, turns: int, kept: int
) -> None:
    provider.respond(lambda _: Reply(Text("Fine.")))
    session_id = (await client.create(history=talk(turns)))["id"]
    before = settled(await context(client, session_id))
    would = await dry_run(client, session_id)
    made = (await compacted(client, session_id)).data
    assert made["last_message_id"] == would["last_message_id"]
    after = settled(await context(client, session_id))
    assert after[-2 * kept :] == before[-2 * kept :]
    assert after[-2 * kept - 1]["is_summary"]
    assert made["tokens_after"] < made["tokens_before"]


async def test_no_summary_is_requested_that_would_save_nothing(client: Client, provider: FakeProvider) -> None:
    provider.respond(lambda _: Reply(Text("Yes.")))
    session_id = (await client.create())["id"]
    for word in ("One?", "Two?", "Three?", "Four?"):
        await client.say(session_id, word)
    would = await dry_run(client, session_id)
    assert (would["messages_compacted"], would["tokens_after"]) == (0, would["tokens_before"])
    await compact(client, session_id)
    failed = await ended(client, session_id, 1)
    assert (failed.type, failed.data["code"]) == ("compaction.failed", "not_small_enough")
    assert f"not less than the current {would['tokens_before']:,}" in failed.data["detail"]
    assert summaries_of(provider) == []
