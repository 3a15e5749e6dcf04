"""Calls that wait for a client in the database: across owners, when nothing is left to wait for, and when a run
crashes."""

from __future__ import annotations

from typing import Any

import pytest

from app.agent.changes import CallsAwaited, CallsReleased, ResultClosed
from app.agent.loop import RunResult
from app.db.repositories import client_calls
from app.errors import ConflictError
from app.messages import FinishReason, ToolCallPart, ToolResultPart, ToolStatus, new_id, now
from app.runtime.owner.leftover import waiting_step
from app.runtime.owner.recorder import Recorder
from app.runtime.owner.waits import StoredWaits
from app.runtime.transactions import recovery, runs
from app.runtime.transactions.client_calls import answer, pending
from app.runtime.transactions.recovery import INTERRUPTED_NOTE, MAX_RECOVERIES, NOT_STARTED_NOTE
from app.runtime.values.queue import ToolCallAnswer
from app.sessions import Outcome, Status
from tests.unit.runtime.stage import GENERATION_OPENED, Attempt, Stage, call_part


async def _await(stage: Stage, timeout_s: float | None = 60.0) -> tuple[Attempt, list[ToolCallPart]]:
    """A step with four calls: one has ended, the next two wait for a client, the last comes after them."""
    await stage.post("task")
    await stage.commit(GENERATION_OPENED)
    attempt, calls = Attempt(), [call_part(index) for index in range(4)]
    await stage.commit(attempt.opened, *attempt.wrote(*calls))
    await stage.commit(attempt.answered(FinishReason.TOOL_CALLS))
    first = calls[0]
    ended = ToolResultPart(
        id=new_id(), index=0, call_id=first.call_id, name=first.name, output="one", status=ToolStatus.COMPLETED
    )
    await stage.commit(ResultClosed(new_id(), ended))
    await stage.commit(CallsAwaited(attempt.message_id, tuple((call, timeout_s) for call in calls[1:3])))
    return attempt, calls


async def _answer(stage: Stage, call: ToolCallPart, **posted: str) -> None:
    await stage.act(lambda c: answer(c, stage.session_id, call.call_id, ToolCallAnswer(**posted)))


async def _waiting(stage: Stage) -> Any:
    row = await stage.row()
    return await stage.database.read(lambda c: waiting_step(c, row))


async def _recover(stage: Stage, *, parks: bool = False) -> tuple[RunResult | None, list[Any]]:
    before = (await stage.row()).last_seq
    epoch = await stage.claim()
    result = await stage.act(lambda c: recovery.recover(c, stage.session_id, epoch, parks=parks))
    return result, await stage.log(before)


async def test_a_step_waits_through_any_number_of_owners(stage: Stage) -> None:
    attempt, calls = await _await(stage)
    await _answer(stage, calls[1], output="Ticket 17")
    with pytest.raises(ConflictError):
        await _answer(stage, calls[1], error="again")
    for _ in range(MAX_RECOVERIES + 2):
        result, log = await _recover(stage)
        assert (result, [event.type for event in log]) == (None, ["session.recovered"])
    assert (await stage.row()).status == Status.AWAITING_CLIENT
    waiting = await _waiting(stage)
    assert (waiting.held, waiting.parked) == (None, True)
    assert [(call.call_id, timeout_s) for call, timeout_s in waiting.awaited.calls] == [
        (call.call_id, 60) for call in calls[1:3]
    ], "an answer that the model has not got is awaited too"
    assert [result.output for result in waiting.results.tool_results] == ["one"]

    epoch = await stage.claim()
    gate = StoredWaits(
        Recorder(stage.database, stage.bus, stage.session_id, epoch), stage.session_id, epoch, lambda _: None
    )
    found = await gate.answers(attempt.message_id, [call.call_id for call in calls])
    assert {call_id: (each.text, each.is_error) for call_id, each in found.items()} == {
        calls[1].call_id: ("Ticket 17", False)
    }


async def test_calls_after_those_of_a_client_have_not_started_until_they_are_released(stage: Stage) -> None:
    attempt, calls = await _await(stage)
    tool_message = (await _waiting(stage)).results.id
    for call in calls[1:3]:
        await _answer(stage, call, output="done")
        part = ToolResultPart(
            id=new_id(), index=1, call_id=call.call_id, name=call.name, output="done", status=ToolStatus.COMPLETED
        )
        await stage.commit(ResultClosed(tool_message, part, is_posted=True))
    assert (await stage.row()).status == Status.RUNNING
    rows = await stage.database.read(lambda c: client_calls.of_message(c, stage.session_id, attempt.message_id))
    assert [row.output for row in rows] == [None, None], "the results have it"
    waiting = await _waiting(stage)
    assert (waiting.awaited, waiting.parked) == (None, True)
    await stage.commit(CallsReleased(attempt.message_id))
    assert await _waiting(stage) is None
    _, log = await _recover(stage)
    assert [event.data["output"] for event in log if event.type == "tool.result"] == [INTERRUPTED_NOTE]


@pytest.mark.parametrize("timeout_s", [60.0, 0.5])
async def test_a_run_with_nothing_to_wait_for_is_parked_with_what_was_posted(stage: Stage, timeout_s: float) -> None:
    _, calls = await _await(stage, timeout_s)
    await _answer(stage, calls[1], output="Ticket 17")
    if timeout_s == 60.0:
        await _answer(stage, calls[2], error="x" * 10_000)
    while timeout_s < 1 and any(
        row.expires_at > now()
        for row in await stage.database.read(lambda c: client_calls.open_ones(c, stage.session_id))
    ):
        pass
    result, log = await _recover(stage, parks=True)
    assert result is not None
    assert result.outcome is Outcome.INTERRUPTED
    first, second, third = (event.data["output"] for event in log if event.type == "tool.result")
    assert first == f"Ticket 17\n{INTERRUPTED_NOTE}"
    if timeout_s == 60.0:
        assert second.endswith(INTERRUPTED_NOTE)
        assert len(second) < 5_000
    else:
        assert second == NOT_STARTED_NOTE
    assert third == NOT_STARTED_NOTE
    assert (await pending_ids(stage), await _waiting(stage)) == ([], None)


async def pending_ids(stage: Stage) -> list[str]:
    found = await stage.database.read(lambda c: pending(c, stage.session_id))
    return [item.call_id for item in found.items]


async def test_a_crashed_run_leaves_no_waiting_calls(stage: Stage) -> None:
    _, calls = await _await(stage)
    assert await pending_ids(stage) == [call.call_id for call in calls[1:3]]
    epoch = await stage.claim()
    await stage.act(lambda c: runs.finish(c, stage.session_id, epoch, RunResult(Outcome.INTERRUPTED)))
    assert (await pending_ids(stage), (await stage.row()).status) == ([], Status.IDLE)
    with pytest.raises(ConflictError):
        await _answer(stage, calls[1], output="late")
