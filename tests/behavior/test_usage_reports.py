"""A provider's reported prompt sizes: plausible ones are used, impossible ones ignored."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from string import ascii_letters

from tests.behavior.checks import assert_sound
from tests.behavior.combinations import across
from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client, of_type
from tests.behavior.long_task import asks_for_summary
from tests.behavior.rounds import MODELS, POLICIES, SMALL, WINDOW
from tests.provider import FakeProvider, RecordedRequest, Reply, Text, Tokens, ToolCall

STEPS = 9
NOTHING_READ = Tokens(input=0, cache_read=0, cache_write=0, output=5)
"""As from servers that report 0 if they have not counted."""


class Working:
    """A model that fills the window, one output at a time. `reported` sets a step's usage."""

    def __init__(self, reported: Callable[[int], Tokens | None]) -> None:
        self.steps = 0
        self._reported = reported

    def __call__(self, request: RecordedRequest) -> Reply:
        if asks_for_summary(request):
            return Reply(Text("## Completed Work\nall so far"), usage=self._reported(0))
        self.steps += 1
        usage = self._reported(self.steps)
        if self.steps > STEPS:
            return Reply(Text("All done."), usage=usage)
        command = f"head -c 4000 /dev/zero | tr '\\0' {ascii_letters[self.steps]}"
        return Reply(ToolCall("execute_command", {"command": command}), usage=usage)


@across(model=MODELS, policy=POLICIES)
async def test_a_report_of_zero_prompt_tokens_is_ignored(
    start_server: StartServer, provider: FakeProvider, model: str, policy: str
) -> None:
    provider.configure(window=WINDOW)
    provider.respond(Working(lambda _: NOTHING_READ))
    async with Client(start_server(models=SMALL).url) as client:
        session, events = await client.run("the task", model=model, compaction=policy)
        assert (session["outcome"], session["error"]) == ("completed", None)
        begun = of_type(events, "compaction.started", "prune.completed")
        assert {event.data["reason"] for event in begun} <= {"overflow", "threshold", "trigger"}
        assert begun != []
        shown = [event.data["context"] for event in of_type(events, "step.finished")]
        assert {context["source"] for context in shown} == {"estimated"}
        assert shown[-1]["tokens"] > 2_000
        # Its output is billed anyway.
        steps = [event.data["usage"]["output_tokens"] for event in of_type(events, "step.finished")]
        assert steps == [5] * (STEPS + 1)
        await assert_sound(client, session["id"])
    assert provider.refusals == []


async def test_a_report_keeps_counting_if_the_next_one_is_empty(
    start_server: StartServer, provider: FakeProvider
) -> None:
    """The first step's real report is the baseline; later content is estimated on top of it."""
    provider.configure(window=WINDOW)
    provider.respond(Working(lambda step: None if step == 1 else NOTHING_READ))
    async with Client(start_server(models=SMALL).url) as client:
        session, events = await client.run("the task", compaction={"policy": "reactive", "background": False})
        assert session["outcome"] == "completed"
        full = of_type(events, "compaction.started")[0]
        shown = [e.data["context"] for e in of_type(events, "step.finished") if (e.id or 0) < (full.id or 0)]
        assert {context["source"] for context in shown} == {"reported"}
        sizes = [context["tokens"] for context in shown]
        assert len(sizes) > 2
        assert all(later - earlier > 900 for earlier, later in pairwise(sizes))
        assert full.data["reason"] == "overflow"
    assert provider.refusals == []
