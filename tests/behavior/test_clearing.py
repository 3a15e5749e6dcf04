"""Old outputs cleared together with a summary, and when the provider's cache is cold anyway."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from tests.behavior.checks import assert_sound
from tests.behavior.conftest import StartServer
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, of_type
from tests.behavior.long_task import asks_for_summary
from tests.behavior.packed import CLEARS_ALL, worked_before
from tests.behavior.rounds import assert_rounds, assert_sent, compact, context, ended, path, revert
from tests.provider import FakeProvider, RecordedRequest, Reply, Text

UNCALIBRATED = 1.1
"""By how much estimates are raised before a model's first report."""


def answer(request: RecordedRequest) -> Reply:
    return Reply(Text("## Completed Work\nall so far" if asks_for_summary(request) else "Fine."))


async def sizes(client: Client, session_id: str) -> dict[str, int]:
    """The calls of the next context, with the tokens that their results have in it."""
    shown = await client.get(f"/v1/sessions/{session_id}/context")
    results = [item for item in shown["messages"] if item["message"]["role"] == "tool"]
    return {part["call_id"]: item["tokens"] for item in results for part in item["message"]["parts"]}


async def test_the_marks_of_a_summary_are_those_of_the_kept_messages(
    start_server: StartServer, provider: FakeProvider
) -> None:
    provider.respond(answer)
    async with Client(start_server().url) as client:
        session_id = (await client.create(history=worked_before(40), compaction=CLEARS_ALL))["id"]
        before = await sizes(client, session_id)
        assert len(before) == 40
        told = (await client.http.post(path(session_id), json={"dry_run": True})).json()
        with capture_logs() as logs:
            completed = await ended(client, session_id, (await compact(client, session_id))["round"])
        assert completed.type == "compaction.completed"
        after = await sizes(client, session_id)
        [line] = [line for line in logs if line["event"] == "outputs_cleared"]
        assert (line["session_id"], line["outputs_pruned"]) == (session_id, len(after))
        assert 0 < len(after) < 40, "some are behind the summary, some are covered"

        log = await assert_rounds(client, session_id)
        [cleared] = of_type(log, "prune.completed")
        assert set(cleared.data["call_ids"]) == set(after) == set(told["call_ids"])
        assert cleared.data["outputs_pruned"] == completed.data["outputs_pruned"] == len(after)
        # What the marks free, not what the round frees.
        freed = sum(before[call_id] - after[call_id] for call_id in after)
        assert abs(cleared.data["tokens_saved"] - UNCALIBRATED * freed) <= 2
        assert cleared.data["tokens_before"] == completed.data["tokens_before"]
        assert cleared.data["tokens_saved"] < completed.data["tokens_before"] - completed.data["tokens_after"]

        await revert(client, session_id, completed.data["round"])
        assert await sizes(client, session_id) == before
    assert provider.refusals == []


@pytest.mark.parametrize("changes", [True, False])
async def test_old_outputs_are_cleared_with_a_change_of_the_model(
    start_server: StartServer, provider: FakeProvider, changes: bool
) -> None:
    """The new model's provider has nothing of the conversation in its cache."""
    provider.respond(answer)
    async with Client(start_server().url) as client:
        made = await client.create(model=OPENAI, history=worked_before(40), compaction=CLEARS_ALL)
        session_id = made["id"]
        await client.say(session_id, "one")
        if changes:
            await client.change(session_id, model=ANTHROPIC)
        for text in ("two", "three"):
            await client.say(session_id, text)
        log = await assert_rounds(client, session_id)
        cleared = of_type(log, "prune.completed")
        assert len(cleared) == changes
        first, second, third = provider.requests
        assert not any("Old tool result cleared" in output for output in first.tool_results.values())
        for number, request in enumerate((second, third), 2):
            assert all(("Old tool result cleared" in o) is changes for o in request.tool_results.values())
            assert_sent(await context(client, session_id, number), request)
        assert third.cached_tokens > 0
        if changes:
            data = cleared[0].data
            assert (data["reason"], data["outputs_pruned"]) == ("model_change", 40)
            assert data["tokens_before"] > data["tokens_after"]
            steps = of_type(log, "step.started")
            assert log.index(steps[0]) < log.index(cleared[0]) < log.index(steps[1])
            assert steps[1].data["context"]["tokens"] <= data["tokens_after"] + 100
        await assert_sound(client, session_id)
    assert provider.refusals == []
