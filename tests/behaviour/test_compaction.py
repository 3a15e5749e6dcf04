"""A session goes on for as long as it takes within a small window, under each policy and over both wires."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.behaviour.checks import assert_sound
from tests.behaviour.harness import ANTHROPIC, OPENAI, Client, RunningServer, of_type
from tests.behaviour.long_task import LongTask
from tests.provider import FakeProvider

WINDOW = 8_000
SMALL = {name: {"context_window": WINDOW} for name in (OPENAI, ANTHROPIC)}

StartServer = Callable[..., RunningServer]


@pytest.mark.parametrize("model", [OPENAI, ANTHROPIC])
@pytest.mark.parametrize("policy", ["reactive", "threshold", "handoff"])
async def test_a_long_task_finishes_within_a_small_window(
    start_server: StartServer, provider: FakeProvider, policy: str, model: str
) -> None:
    provider.configure(window=WINDOW)
    task = LongTask(60)
    provider.respond(task)
    async with Client(start_server(models=SMALL).url) as client:
        session, _ = await client.run("task", model=model, compaction=policy, limits={"max_steps": None})
        assert (session["outcome"], session["error"]) == ("completed", None)
        assert task.made == 61
        events = await assert_sound(client, session["id"])
        completed = of_type(events, "compaction.completed")
        assert session["compaction"]["count"] == len(completed) > 0
        assert not session["compaction"]["in_progress"]
        for event in completed:
            assert event.data["tokens_after"] < event.data["tokens_before"]
    assert provider.broken == []
    assert provider.refusals == []
