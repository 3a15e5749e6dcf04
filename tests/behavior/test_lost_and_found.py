"""Content lost from a context by clipping, clearing and several compactions is found again with one call."""

from __future__ import annotations

import pytest

from tests.behavior.checks import assert_sound
from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client, command, of_type
from tests.behavior.long_task import LongTask, asks_for_summary
from tests.behavior.rounds import POLICIES_ON_WIRES
from tests.behavior.test_recall import FLOOD, outputs
from tests.load import LONG
from tests.provider import FakeProvider, RecordedRequest, Reply, Text, ToolCall

WINDOW = 8_000
DECISION = "We have decided: the wire protocol is cobalt-seven."
ROUNDS = 5
STEPS = 40 if LONG else 19
"""With 19, each policy makes 6 rounds or more."""


class Forgetful(LongTask):
    """Makes a decision in its first step, floods its context, and searches for both after some rounds."""

    flood_id = ""

    def __call__(self, request: RecordedRequest) -> Reply:
        if asks_for_summary(request):
            return super().__call__(request)
        self.made += 1
        if self.made == 1:
            return Reply(Text(DECISION), command(FLOOD))
        if not self.flood_id:
            self.flood_id = next(iter(request.tool_results))
        if self.made <= self.steps:
            return Reply(
                Text(f"Step {self.made}. " + "More of it. " * 150),
                command(f"seq {self.made} 3000; echo step {self.made}"),
            )
        if self.made == self.steps + 1:
            assert not any("nothing to see" in output for output in request.tool_results.values())
            return Reply(
                ToolCall("history_search", {"query": "protocol decided"}),
                ToolCall("recall", {"call_id": self.flood_id, "grep": "ERROR"}),
            )
        return Reply(Text("Found."))


@pytest.mark.extended
@pytest.mark.parametrize(("policy", "model"), POLICIES_ON_WIRES)
async def test_a_decision_and_a_needle_are_found_after_five_rounds(
    start_server: StartServer, provider: FakeProvider, policy: str, model: str
) -> None:
    provider.configure(window=WINDOW)
    agent = Forgetful(STEPS)
    provider.respond(agent)
    server = start_server(models={model: {"context_window": WINDOW}})
    async with Client(server.url) as client:
        session, events = await client.run("the task", model=model, compaction=policy, limits={"max_steps": None})

        assert (session["outcome"], provider.script_errors) == ("completed", [])
        assert session["compaction"]["count"] >= ROUNDS
        (found,) = outputs(events, "history_search")
        assert "cobalt-seven" in found["output"]
        (recalled,) = outputs(events, "recall")
        assert "90001:ERROR 4711: the needle" in recalled["output"]
        assert len(of_type(events, "compaction.completed")) == session["compaction"]["count"]
        await assert_sound(client, session["id"])
    assert provider.refusals == []
