"""Dry runs of a round."""

from __future__ import annotations

import pytest

from app.agent.compaction.triggers import ManualRound
from app.context.policies import CompactionSettings, Policy, preset
from app.errors import NotFoundError
from app.messages import new_id
from app.runtime.agents import AgentSetup
from app.runtime.services.history import preview
from app.runtime.values.history import CompactionPreview
from app.sessions import QueueMode
from tests.unit.runtime.stage import (
    GENERATION_OPENED,
    Attempt,
    Stage,
    call_part,
    result_of,
)

OUTPUT = "x" * 8_000
STEPS = 30


async def work(stage: Stage, steps: int = STEPS) -> list[str]:
    """A history of steps with a large output each; returns the ids of their calls."""
    calls = []
    await stage.change(compaction=preset("reactive").model_dump())
    await stage.commit(GENERATION_OPENED)
    for number in range(1, steps + 1):
        attempt, call = Attempt(step=number), call_part()
        calls.append(call.call_id)
        await stage.commit(attempt.opened, *attempt.wrote(call), attempt.answered())
        result = result_of(call, new_id(), output=OUTPUT)
        tokens = result.part.model_copy(update={"tokens": len(OUTPUT) // 4})
        await stage.commit(type(result)(result.message_id, tokens), attempt.closed())
    return calls


async def look(stage: Stage, agents: AgentSetup, settings: CompactionSettings) -> CompactionPreview:
    return await preview(stage.database, stage.session_id, ManualRound(0, settings), agents, None)


@pytest.mark.parametrize("policy", ["reactive", "threshold", "handoff"])
async def test_a_preview_shows_what_is_covered_and_freed(stage: Stage, agents: AgentSetup, policy: Policy) -> None:
    await work(stage)
    before, history = await stage.row(), await stage.history()
    told = await look(stage, agents, preset(policy))
    assert told.policy == policy
    assert told.first_message_id == history[0].id
    ids = [message.id for message in history]
    assert told.last_message_id in ids
    assert told.messages_compacted == ids.index(told.last_message_id) + 1
    assert told.tokens_after < told.tokens_before
    assert told.tokens_before > STEPS * len(OUTPUT) // 4
    assert 0 < told.trigger <= told.usable < told.limit
    if policy == "threshold":
        assert len(history) - told.messages_compacted == 10
    assert await stage.row() == before, "nothing is changed"
    assert await stage.history() == history


async def test_a_preview_shows_what_is_cleared_in_addition(stage: Stage, agents: AgentSetup) -> None:
    await work(stage, 60)
    told = await look(stage, agents, preset("reactive"))
    assert told.messages_compacted > 0
    assert (told.outputs_pruned, told.call_ids) == (0, ()), "what the summary replaces is not cleared too"
    others = await look(stage, agents, preset("handoff"))
    assert (others.outputs_pruned, others.call_ids) == (0, ())


async def test_a_preview_without_anything_to_do(stage: Stage, agents: AgentSetup) -> None:
    await stage.change(compaction=preset("reactive").model_dump())
    await stage.post("Please.", QueueMode.STEER)
    told = await look(stage, agents, preset("reactive"))
    assert (told.first_message_id, told.last_message_id, told.messages_compacted) == (None, None, 0)
    assert (told.kept_message_ids, told.call_ids, told.outputs_pruned) == ((), (), 0)
    assert told.tokens_after == told.tokens_before


async def test_a_missing_session_is_not_found(stage: Stage, agents: AgentSetup) -> None:
    with pytest.raises(NotFoundError):
        await preview(stage.database, new_id(), ManualRound(0, preset("reactive")), agents, None)
