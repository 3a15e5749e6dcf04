"""Summaries are prepared in the background only if likely needed: the number of unused ones is bounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.behavior.combinations import first_of
from tests.behavior.conftest import StartServer
from tests.behavior.harness import OPENAI, Client
from tests.behavior.long_task import SUMMARY, LongTask, asks_for_summary
from tests.behavior.packed import packed
from tests.behavior.rounds import assert_rounds, rounds, says, summaries_of
from tests.load import LONG
from tests.provider import Answer, FakeProvider, HttpError, RecordedRequest, Reply, Text, ToolCall

ROOMY = 32_000
WINDOWS = {OPENAI: {"context_window": ROOMY}}
USABLE = 24_000
NEAR = 18
"""Steps of about a thousand tokens that bring the context beyond 80 % of that, and not to its end."""

MOST_UNUSED = 5
"""Each starts halfway from the last one to the trigger: at 80, 90, 95, 97.5 and 98.75 % of it."""


async def size(client: Client, session_id: str) -> int:
    return int((await client.session(session_id))["context"]["tokens"])


async def test_a_run_of_one_answer_prepares_nothing(start_server: StartServer, provider: FakeProvider) -> None:
    """The run ends before the summary would be written."""
    provider.configure(window=ROOMY)
    provider.respond(lambda _: Reply(Text("Quite so.")))
    async with Client(start_server(models=WINDOWS).url) as client:
        session, _ = await client.run("go on", model=OPENAI, history=packed("the task", NEAR))
        for number in range(3):
            await says(client, session["id"], f"And {number}?")
        assert 0.8 * USABLE < await size(client, session["id"]) < USABLE
        assert await rounds(client, session["id"]) == []
    assert summaries_of(provider) == []


class ShortRuns:
    """A model that makes one small step for each user message, then says that it is done."""

    def __init__(self, summary: Callable[[], Answer]) -> None:
        self.summary = summary
        self.at_work = False

    def __call__(self, request: RecordedRequest) -> Answer:
        if asks_for_summary(request):
            return self.summary()
        self.at_work = not self.at_work
        if not self.at_work:
            return Reply(Text("Done."))
        return Reply(Text("word " * 160), ToolCall("execute_command", {"command": "true"}))


@pytest.mark.extended
@first_of(fails=[False, True])
async def test_runs_that_end_near_the_trigger_prepare_few_unused_summaries(
    start_server: StartServer, provider: FakeProvider, fails: bool
) -> None:
    provider.configure(window=ROOMY)
    provider.respond(ShortRuns(lambda: HttpError(403) if fails else Reply(Text(SUMMARY.format(step=1)))))
    async with Client(start_server(models=WINDOWS).url) as client:
        session, _ = await client.run("go on", model=OPENAI, history=packed("the task", NEAR))
        session_id, runs, asked = str(session["id"]), 0, 0
        while (await client.session(session_id))["compaction"]["count"] == 0:
            asked = len(summaries_of(provider))
            runs += await size(client, session_id) > 0.8 * USABLE
            assert runs < 60
            await says(client, session_id, "More.")
        listed = await rounds(client, session_id)
        unused = [item["status"] for item in listed[:-1]]
        assert runs > 2 * MOST_UNUSED
        assert 0 < len(unused) <= MOST_UNUSED
        assert asked <= MOST_UNUSED
        # One whose run ended before it had failed is discarded too.
        assert set(unused) <= {"failed", "discarded"}
        assert ("failed" in unused) is fails
        assert listed[-1]["rung"] == ("fold" if fails else "summary")
        await assert_rounds(client, session_id)
    assert provider.refusals == []


@pytest.mark.extended
@first_of(settings=[{}, {"background": False}])
async def test_if_clearing_is_enough_no_summary_is_prepared(
    start_server: StartServer, provider: FakeProvider, settings: dict[str, Any]
) -> None:
    """The context is all outputs: clearing them is enough every time, and no model is called."""
    provider.configure(window=ROOMY)
    command = "head -c 14000 /dev/zero | tr '\\0' x"
    made = 0

    def answer(request: RecordedRequest) -> Answer:
        nonlocal made
        made += 1
        # Each call differs, so that the loop guard does not act.
        call = ToolCall("execute_command", {"command": f"{command} # {made}"})
        return Reply(Text("Done.")) if made > 24 else Reply(call)

    provider.respond(answer)
    async with Client(start_server(models=WINDOWS).url) as client:
        session, events = await client.run("the task", model=OPENAI, compaction={"clear_first": True, **settings})
        assert session["outcome"] == "completed"
        assert len([event for event in events if event.type == "prune.completed"]) >= 3
        assert await rounds(client, session["id"]) == []
    assert summaries_of(provider) == []


STEPS, WINDOW = (100, ROOMY) if LONG else (28, 16_000)
"""With 28, each policy begins three rounds or more."""


@pytest.mark.extended
@first_of(policy=["reactive", "threshold", "handoff"])
async def test_most_prepared_summaries_are_used(start_server: StartServer, provider: FakeProvider, policy: str) -> None:
    provider.configure(window=WINDOW)
    provider.respond(LongTask(STEPS, most=12_000))
    async with Client(start_server(models={OPENAI: {"context_window": WINDOW}}).url) as client:
        made = await client.create("the task", model=OPENAI, compaction=policy, limits={"max_steps": None})
        await client.until_idle(made["id"])
        statuses = [item["status"] for item in await rounds(client, made["id"])]
        assert (await client.session(made["id"]))["outcome"] == "completed"
    assert statuses.count("completed") >= 2
    # The last one may be left unused by the run's end.
    assert statuses.count("discarded") <= 1 + statuses.count("completed") / 4
