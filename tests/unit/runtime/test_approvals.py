"""Pending approvals in the database: across any number of owners, and when a run crashes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.agent.changes import CallsHeld, CallsReleased
from app.agent.loop import RunResult
from app.db.repositories import sessions, steps
from app.errors import ConflictError, InvalidRequestError, NotFoundError
from app.messages import FinishReason, ToolCallPart, ToolStatus, now
from app.runtime.admission import covers, joined, operators_approval
from app.runtime.owner.leftover import ended_by, waiting_step
from app.runtime.owner.recorder import Recorder
from app.runtime.owner.waits import StoredWaits
from app.runtime.transactions import recovery, runs
from app.runtime.transactions.recovery import MAX_RECOVERIES, NOT_STARTED_NOTE
from app.runtime.transactions.runs import decide_approval, read_pending
from app.runtime.values.queue import ApprovalAnswer
from app.sessions import Approval, ApprovalRules, Outcome, QueueMode, Status
from tests.unit.runtime.stage import GENERATION_OPENED, USAGE, Attempt, Stage, call_part

APPROVE, DENY = ApprovalAnswer(decision="approve"), ApprovalAnswer(decision="deny", reason="No.")


async def _hold(stage: Stage, timeout_s: float = 60.0) -> tuple[Attempt, list[ToolCallPart]]:
    """A step with three calls, the last two of which need approval."""
    await stage.post("task")
    await stage.commit(GENERATION_OPENED)
    attempt, calls = Attempt(), [call_part(index) for index in range(3)]
    await stage.commit(attempt.opened, *attempt.wrote(*calls))
    held = CallsHeld(attempt.message_id, tuple(calls[1:]), timeout_s)
    await stage.commit(attempt.answered(FinishReason.TOOL_CALLS), held)
    return attempt, calls


async def _decide(stage: Stage, call_id: str, answer: ApprovalAnswer) -> None:
    await stage.act(lambda c: decide_approval(c, stage.session_id, call_id, answer))


async def _waiting(stage: Stage) -> Any:
    row = await stage.row()
    return await stage.database.read(lambda c: waiting_step(c, row))


async def _recover(stage: Stage) -> list[str]:
    """Recovers the session with a new owner, which does not end its run; returns the events."""
    row = await stage.row()
    assert await stage.database.read(lambda c: recovery.is_needed(c, row))
    epoch = await stage.claim()
    assert await stage.act(lambda c: recovery.recover(c, stage.session_id, epoch)) is None
    return await stage.types(row.last_seq)


async def test_a_step_waits_through_any_number_of_owners(stage: Stage) -> None:
    attempt, calls = await _hold(stage)
    await _decide(stage, calls[1].call_id, DENY)
    before = (await read_pending(stage.database, stage.session_id)).items
    for _ in range(MAX_RECOVERIES + 2):
        assert await _recover(stage) == ["session.recovered"]
    row = await stage.row()
    assert (row.status, row.recoveries) == (Status.AWAITING_APPROVAL, 0)
    assert (await read_pending(stage.database, stage.session_id)).items == before

    waiting = await _waiting(stage)
    assert waiting.opened == attempt.opened
    assert (waiting.finish_reason, waiting.usage) == (FinishReason.TOOL_CALLS, USAGE)
    assert [call.call_id for call in waiting.calls] == [call.call_id for call in calls]
    assert {call.status for call in waiting.calls} == {ToolStatus.PENDING}
    assert waiting.held.calls == waiting.calls[1:]
    assert (waiting.held.timeout_s, waiting.known_cost_usd) == (60, USAGE.cost_usd)


async def test_a_released_step_is_closed_like_any_other(stage: Stage) -> None:
    attempt, calls = await _hold(stage)
    await _decide(stage, calls[1].call_id, APPROVE)
    await _decide(stage, calls[2].call_id, APPROVE)
    assert (await stage.row()).status == Status.RUNNING
    assert await _waiting(stage) is not None, "decided, but not started"
    await stage.commit(CallsReleased(attempt.message_id))
    assert await _waiting(stage) is None
    assert (await _recover(stage)).count("tool.result") == 3


@pytest.mark.parametrize(("answers", "timeout_s"), [((APPROVE, DENY), 60), ((APPROVE,), 0.2), ((), 0.2)])
async def test_a_run_with_nothing_to_wait_for_is_parked_like_any_other(
    stage: Stage, answers: tuple[ApprovalAnswer, ...], timeout_s: float
) -> None:
    _, calls = await _hold(stage, timeout_s)
    for call, answer in zip(calls[1:], answers, strict=False):
        await _decide(stage, call.call_id, answer)
    epoch, before = await stage.claim(), (await stage.row()).last_seq
    while len(answers) < 2 and not await _is_late(stage):
        pass
    result = await stage.act(lambda c: recovery.recover(c, stage.session_id, epoch, parks=True))
    assert result is not None
    assert result.error is not None
    assert (result.outcome, result.error["code"]) == (Outcome.INTERRUPTED, "run_parked")
    log = await stage.log(before)
    ends = [(event.data["decision"], event.data["by"]) for event in log if event.type == "approval.resolved"]
    assert ends == [("deny", "timeout")] * (2 - len(answers))
    assert [event.data["output"] for event in log if event.type == "tool.result"] == [NOT_STARTED_NOTE] * 3
    assert log[-1].type == "session.recovered"
    assert await _waiting(stage) is None
    assert (await stage.row()).status == Status.RUNNING


async def _is_late(stage: Stage) -> bool:
    rows = await stage.database.read(lambda c: steps.open_approvals(c, stage.session_id))
    return all(row.expires_at <= now() for row in rows)


async def test_a_run_that_waits_for_approval_is_not_parked(stage: Stage) -> None:
    _, calls = await _hold(stage)
    await _decide(stage, calls[1].call_id, APPROVE)
    epoch = await stage.claim()
    assert await stage.act(lambda c: recovery.recover(c, stage.session_id, epoch, parks=True)) is None
    assert await _waiting(stage) is not None


@pytest.mark.parametrize("decided", [True, False])
async def test_a_run_frees_its_resources_while_it_waits(stage: Stage, decided: bool) -> None:
    attempt, calls = await _hold(stage)
    epoch = await stage.claim()
    rests: list[bool] = []
    begun = asyncio.Event()

    def rest(now: bool) -> None:
        rests.append(now)
        begun.set()

    approval_gate = StoredWaits(
        Recorder(stage.database, stage.bus, stage.session_id, epoch), stage.session_id, epoch, rest
    )
    waiting = asyncio.create_task(approval_gate.decisions(attempt.message_id))
    async with asyncio.timeout(60):
        await begun.wait()
        assert rests == [True]
        if decided:
            for call in calls[1:]:
                await _decide(stage, call.call_id, APPROVE)
            approval_gate.ring()
        else:
            waiting.cancel()
        await asyncio.wait({waiting})
    assert waiting.cancelled() != decided
    assert rests == [True, False]


async def test_a_decision_at_the_same_moment_does_not_keep_a_cancelled_run_waiting(stage: Stage) -> None:
    attempt, calls = await _hold(stage)
    epoch = await stage.claim()
    begun = asyncio.Event()
    recorder = Recorder(stage.database, stage.bus, stage.session_id, epoch)
    approval_gate = StoredWaits(recorder, stage.session_id, epoch, lambda _: begun.set())
    waiting = asyncio.create_task(approval_gate.decisions(attempt.message_id))
    async with asyncio.timeout(60):
        await begun.wait()
        await _decide(stage, calls[1].call_id, APPROVE)
        approval_gate.ring()
        waiting.cancel()
        await asyncio.wait({waiting})
    assert waiting.cancelled()


async def test_a_crashed_run_leaves_no_pending_approvals(stage: Stage) -> None:
    _, calls = await _hold(stage)
    await _decide(stage, calls[1].call_id, APPROVE)
    epoch = await stage.claim()
    before = (await stage.row()).last_seq
    await stage.act(lambda c: runs.finish(c, stage.session_id, epoch, RunResult(Outcome.INTERRUPTED)))
    assert await stage.types(before) == ["approval.resolved", "session.updated", "session.idle"]
    assert (await stage.row()).status == Status.IDLE
    assert await stage.database.read(lambda c: steps.count_open_approvals(c, stage.session_id)) == 0
    assert await _waiting(stage) is None
    with pytest.raises(ConflictError, match="cancelled by error"):
        await _decide(stage, calls[2].call_id, APPROVE)
    epoch = await stage.claim()
    before = (await stage.row()).last_seq
    await stage.act(lambda c: recovery.recover(c, stage.session_id, epoch))
    results = [event.data for event in await stage.log(before) if event.type == "tool.result"]
    assert [result["output"] for result in results] == [NOT_STARTED_NOTE] * 3


async def test_a_late_decision_is_refused(stage: Stage) -> None:
    _, calls = await _hold(stage, timeout_s=0.000_001)
    before = (await stage.row()).last_seq
    with pytest.raises(ConflictError, match="approval has expired"):
        await _decide(stage, calls[1].call_id, APPROVE)
    with pytest.raises(NotFoundError):
        await _decide(stage, calls[0].call_id, APPROVE)
    assert (await stage.row()).last_seq == before


@pytest.mark.parametrize(
    ("modes", "cancelled", "reason"),
    [
        ([], False, None),
        ([QueueMode.STEER, QueueMode.FOLLOW_UP], False, None),
        ([QueueMode.STEER, QueueMode.INTERRUPT], False, "interrupt"),
        ([QueueMode.INTERRUPT], True, "cancel"),
    ],
)
async def test_an_interrupt_ends_the_wait_after_a_restart(
    stage: Stage, modes: list[QueueMode], cancelled: bool, reason: str | None
) -> None:
    await _hold(stage)
    await stage.database.writer.write(lambda c: c.exec_driver_sql("update queue set status = 'delivered'"))
    for mode in modes:
        await stage.post("x", mode)
    await stage.database.writer.write(lambda c: sessions.change(c, stage.session_id, cancel_requested=cancelled))
    row = await stage.row()
    assert await stage.database.read(lambda c: ended_by(c, row)) == reason


@pytest.mark.parametrize(
    ("setting", "policy", "timeout_s"),
    [
        ("never", "never", 300),
        ("always", "always", 300),
        ({"policy": "always", "timeout_s": 5}, "always", 5),
        ({"policy": {"tools": ["run"]}}, ApprovalRules(tools=("run",)), 300),
    ],
)
def test_the_operators_setting_is_parsed(setting: Any, policy: Any, timeout_s: float) -> None:
    assert operators_approval(setting, ["run"]) == Approval(policy=policy, timeout_s=timeout_s)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("often", "PALIMPSEST_APPROVAL (policy)"),
        ({"policy": {"commands": ["a", "("]}}, "PALIMPSEST_APPROVAL (policy.commands.1)"),
        ({"policies": "always"}, "PALIMPSEST_APPROVAL (policies)"),
        ({"policy": {"tools": ["fly"]}}, "there is no tool 'fly'"),
    ],
)
def test_an_invalid_operator_setting_is_reported(setting: Any, said: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        operators_approval(setting, ["run"])
    assert said in caught.value.detail


RULES = ApprovalRules(tools=("a",), commands=("x",))


@pytest.mark.parametrize(
    ("policy", "least", "covered", "both"),
    [
        ("never", "never", True, ApprovalRules()),
        ("never", RULES, False, RULES),
        ("never", ApprovalRules(), True, ApprovalRules()),
        (RULES, "always", False, "always"),
        ("always", RULES, True, "always"),
        (ApprovalRules(tools=("a",)), RULES, False, RULES),
        (ApprovalRules(tools=("b", "a"), commands=("x", "y")), RULES, True, None),
        (ApprovalRules(tools=("a", "execute_command")), RULES, True, None),
    ],
)
def test_policies_are_compared_by_strictness(policy: Any, least: Any, covered: bool, both: Any) -> None:
    assert covers(policy, least) == covered
    assert both is None or joined(policy, least) == both
