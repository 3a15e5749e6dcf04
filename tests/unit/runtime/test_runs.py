"""The start and end of a run: its session, its outcome and pending messages."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection

from app.agent.loop import RunResult
from app.db.repositories import sessions
from app.errors import StaleOwnerError
from app.eventlog.log import Appender, StreamItem
from app.messages import Usage
from app.runtime.transactions import runs
from app.runtime.transactions.runs import Trigger
from app.sessions import Outcome, Status
from tests.unit.runtime.stage import USAGE, Stage

COMPLETED, FAILED, CANCELLED = Outcome.COMPLETED, Outcome.FAILED, Outcome.CANCELLED
INTERRUPTED, LIMIT_REACHED = Outcome.INTERRUPTED, Outcome.LIMIT_REACHED


async def finish(stage: Stage, result: RunResult) -> bool:
    epoch = (await stage.row()).epoch
    return await stage.act(lambda c: runs.finish(c, stage.session_id, epoch, result))


async def running(stage: Stage, *, pending: int = 0, **fields: Any) -> int:
    """A running session with pending messages; returns its last seq."""
    for number in range(pending):
        await stage.post(f"text {number}")
    await stage.change(**{"status": Status.RUNNING, "run_usage": USAGE.model_dump(), "run_steps": 3, **fields})
    return int((await stage.row()).last_seq)


@pytest.mark.parametrize("trigger", ["message", "resume", "recovery"])
async def test_a_start_clears_the_previous_run(stage: Stage, trigger: Trigger) -> None:
    await running(
        stage, status=Status.IDLE, outcome=FAILED, error={"code": "x"}, queue_held=True, recoveries=2, last_seq=7
    )

    def begin(connection: Connection) -> tuple[None, list[StreamItem]]:
        appender = Appender(connection, stage.session_id)
        runs.begin(connection, appender, trigger)
        return None, appender.flush()

    await stage.act(begin)
    [event] = await stage.log()
    assert (event.seq, event.type, event.data["trigger"]) == (8, "session.running", trigger)
    row = await stage.row()
    assert (row.status, row.outcome, row.error, row.queue_held) == (Status.RUNNING, None, None, False)
    assert (row.run_trigger, row.run_steps, row.recoveries) == (trigger, 0, 0)
    assert Usage(**row.run_usage) == Usage()
    assert row.run_started_at.isoformat(timespec="milliseconds").startswith(event.data["at"].removesuffix("Z"))


def limit(code: str) -> RunResult:
    return RunResult(LIMIT_REACHED, {"code": code})


@pytest.mark.parametrize(
    ("result", "pending", "held", "continues", "holds"),
    [
        (RunResult(COMPLETED), 0, False, False, False),
        (RunResult(COMPLETED), 2, False, True, False),
        (RunResult(FAILED, {"code": "provider_error"}), 1, False, True, False),
        (RunResult(FAILED), 0, False, False, False),
        (RunResult(CANCELLED), 1, True, False, True),
        (RunResult(CANCELLED), 1, False, True, False),
        (RunResult(INTERRUPTED, {"code": "recovery_limit"}), 1, False, False, True),
        (limit("max_steps"), 1, False, True, False),
        (limit("max_seconds"), 1, False, True, False),
        (limit("max_cost_usd"), 1, False, False, True),
        (limit("max_tokens"), 1, False, False, True),
    ],
)
async def test_an_end_records_its_outcome_and_starts_the_next_run_unless_messages_are_held(
    stage: Stage, result: RunResult, pending: int, held: bool, continues: bool, holds: bool
) -> None:
    before = await running(stage, pending=pending, queue_held=held)
    assert await finish(stage, result) is continues
    idle, *rest = await stage.log(before)
    assert (idle.seq, idle.type) == (before + 1, "session.idle")
    assert (idle.data["outcome"], idle.data["error"]) == (result.outcome, result.error)
    assert (idle.data["steps"], Usage(**idle.data["usage"])) == (3, USAGE)
    row = await stage.row()
    assert row.queue_held is holds
    assert len(await stage.pending()) == pending, "the next run delivers them"
    if continues:
        [begun] = rest
        assert (begun.seq, begun.type, begun.data["trigger"]) == (before + 2, "session.running", "message")
        assert (row.status, row.outcome, row.run_steps) == (Status.RUNNING, None, 0)
    else:
        assert rest == []
        assert (row.status, row.outcome, row.error, row.run_steps) == (Status.IDLE, result.outcome, result.error, 3)


@pytest.mark.parametrize(
    ("outcome", "pending", "recorded"),
    [(COMPLETED, 1, CANCELLED), (COMPLETED, 0, COMPLETED), (FAILED, 1, FAILED), (CANCELLED, 1, CANCELLED)],
)
async def test_a_cancel_after_the_answer_counts_if_messages_are_pending(
    stage: Stage, outcome: Outcome, pending: int, recorded: Outcome
) -> None:
    await running(stage, pending=pending, cancel_requested=True, queue_held=True)
    assert not await finish(stage, RunResult(outcome))
    row = await stage.row()
    assert (row.status, row.outcome, row.queue_held) == (Status.IDLE, recorded, True)
    assert row.cancel_requested is False, "the next run is not cancelled too"
    assert (await stage.log())[-1].data["outcome"] == recorded


@pytest.mark.parametrize("before", [RunResult(FAILED, {"code": "x"}), RunResult(CANCELLED), RunResult(INTERRUPTED)])
async def test_a_run_that_did_nothing_keeps_the_previous_outcome(stage: Stage, before: RunResult) -> None:
    await running(stage)
    await finish(stage, before)
    await running(stage, outcome=None, error=None, run_steps=0)
    assert not await finish(stage, RunResult(COMPLETED, void=True))
    row = await stage.row()
    assert (row.outcome, row.error) == (before.outcome, before.error)
    event = (await stage.log())[-1]
    assert (event.data["outcome"], event.data["error"], event.data["steps"]) == (before.outcome, before.error, 0)


async def test_a_first_run_that_did_nothing_is_complete(stage: Stage) -> None:
    await running(stage)
    assert not await finish(stage, RunResult(COMPLETED, void=True))
    assert (await stage.row()).outcome == COMPLETED


async def test_a_stale_owner_ends_no_run(stage: Stage) -> None:
    await running(stage, pending=1)
    epoch = await stage.claim()
    await stage.claim()
    before = await stage.log()
    with pytest.raises(StaleOwnerError):
        await stage.act(lambda c: runs.finish(c, stage.session_id, epoch, RunResult(COMPLETED)))
    assert await stage.log() == before
    row = await stage.database.read(lambda c: sessions.row(c, stage.session_id))
    assert row.status == Status.RUNNING
