"""How an interrupted run is recovered: from each possible state, and how often."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from app.agent.changes import Change, ControlAdded
from app.agent.conversation import control_message
from app.agent.loop import RunResult
from app.context.tokens import PER_MESSAGE, estimate_text
from app.db.repositories import costs
from app.errors import StaleOwnerError
from app.messages import FinishReason, ReasoningPart, ToolStatus, Usage, new_id
from app.runtime.transactions import recovery
from app.runtime.transactions.recovery import INTERRUPTED_NOTE, MAX_RECOVERIES, NOT_STARTED_NOTE
from app.sessions import Outcome, Status
from tests.unit.runtime.stage import (
    GENERATION_OPENED,
    USAGE,
    Attempt,
    Logged,
    Stage,
    call_part,
    message_tokens,
    result_of,
    text_part,
)

NOTHING = Usage()


async def recover(stage: Stage, epoch: int | None = None) -> tuple[RunResult | None, list[Logged]]:
    """How the run ends, and the events of the recovery."""
    row = await stage.row()
    epoch = await stage.claim() if epoch is None else epoch
    result = await stage.act(lambda c: recovery.recover(c, stage.session_id, epoch))
    return result, await stage.log(row.last_seq)


async def is_needed(stage: Stage) -> bool:
    row = await stage.row()
    return await stage.database.read(lambda c: recovery.is_needed(c, row))


@pytest.fixture
async def run(stage: Stage) -> Stage:
    """A session whose run has its first message."""
    await stage.post("task")
    await stage.commit(GENERATION_OPENED)
    return stage


@dataclass
class Left:
    """The state that a run was left in, and the result of its recovery. `wrote` are the parts that it closes."""

    wrote: list[dict[str, Any]] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    step: int | None = 1
    attempt: int = 1
    usage: Usage = NOTHING
    message: tuple[str, FinishReason, int] | None = None
    """The assistant message's id, how it ended and its size in tokens."""


State = Callable[[Stage], Awaitable[Left]]


async def step_without_a_word(stage: Stage) -> Left:
    attempt = Attempt()
    await stage.commit(attempt.opened)
    return Left(message=(attempt.message_id, FinishReason.INTERRUPTED, PER_MESSAGE))


async def text_in_the_middle(stage: Stage) -> Left:
    attempt, whole = Attempt(), text_part("whole")
    await stage.commit(attempt.opened, *attempt.wrote(whole))
    await stage.write_open(attempt.message_id, text_part("hal", 1).model_copy(update={"tokens": 0}))
    return Left(
        wrote=[{"type": "text.completed", "text": "hal", "interrupted": True, "index": 1}],
        message=(attempt.message_id, FinishReason.INTERRUPTED, message_tokens(whole) + estimate_text("hal")),
    )


async def reasoning_and_calls_in_the_middle(stage: Stage) -> Left:
    attempt, whole = Attempt(), call_part(1)
    await stage.commit(attempt.opened, *attempt.wrote(whole))
    half = call_part(2).model_copy(update={"arguments_text": '{"a', "tokens": 0})
    await stage.write_open(attempt.message_id, half, ReasoningPart(id=new_id(), index=0, text="hm"))
    return Left(
        wrote=[
            {"type": "reasoning.completed", "text": "hm", "interrupted": True, "index": 0},
            {"type": "tool.call", "call_id": half.call_id, "arguments": '{"a', "index": 2},
        ],
        results=[0, 1],
    )


async def answer_whose_calls_run(stage: Stage) -> Left:
    attempt, calls = Attempt(), [call_part(0), call_part(1)]
    await stage.commit(attempt.opened, *attempt.wrote(*calls), attempt.answered(FinishReason.TOOL_CALLS, tokens=33))
    return Left(results=[0, 1], usage=USAGE, message=(attempt.message_id, FinishReason.TOOL_CALLS, 33))


async def calls_partly_answered(stage: Stage) -> Left:
    attempt, calls = Attempt(), [call_part(index) for index in range(3)]
    await stage.commit(attempt.opened, *attempt.wrote(*calls), attempt.answered(FinishReason.TOOL_CALLS))
    await stage.commit(result_of(calls[1], new_id(), 1))
    return Left(results=[0, 2], usage=USAGE)


async def calls_all_answered(stage: Stage) -> Left:
    attempt, call = Attempt(), call_part()
    await stage.commit(attempt.opened, *attempt.wrote(call), attempt.answered(FinishReason.TOOL_CALLS))
    await stage.commit(result_of(call, new_id()))
    return Left(usage=USAGE)


async def void_attempt_that_waits(stage: Stage) -> Left:
    attempt = Attempt()
    await stage.commit(attempt.opened)
    await stage.write_open(attempt.message_id, text_part("hal"), call_part(1))
    await stage.commit(attempt.voided())
    return Left(usage=USAGE)


async def second_attempt(stage: Stage) -> Left:
    void, again = Attempt(), Attempt(number=2)
    await stage.commit(void.opened, void.voided())
    await stage.commit(again.opened, again.answered())
    return Left(attempt=2, usage=USAGE + USAGE)


async def between_steps(stage: Stage) -> Left:
    attempt, call = Attempt(), call_part()
    await stage.commit(attempt.opened, *attempt.wrote(call), attempt.answered(FinishReason.TOOL_CALLS))
    await stage.commit(result_of(call, new_id()), attempt.closed(FinishReason.TOOL_CALLS))
    return Left(step=None)


STATES = [
    step_without_a_word,
    text_in_the_middle,
    reasoning_and_calls_in_the_middle,
    answer_whose_calls_run,
    calls_partly_answered,
    calls_all_answered,
    void_attempt_that_waits,
    second_attempt,
    between_steps,
]


@pytest.mark.parametrize("state", STATES)
async def test_an_interrupted_run_is_closed_and_continues(run: Stage, state: State) -> None:
    left = await state(run)
    before = await run.row()
    assert await is_needed(run)
    result, news = await recover(run)

    assert result is None
    assert [event.seq for event in news] == list(range(before.last_seq + 1, before.last_seq + 1 + len(news)))
    closings = ["step.finished"] if left.step is not None else []
    assert [event.type for event in news] == [
        *(part["type"] for part in left.wrote),
        *["tool.result"] * len(left.results),
        *closings,
        "session.recovered",
        "session.running",
    ]
    for event, part in zip(news, left.wrote, strict=False):
        assert {"type": event.type, **event.data}.items() >= part.items()
    results = [event for event in news if event.type == "tool.result"]
    assert [event.data["index"] for event in results] == left.results
    note = NOT_STARTED_NOTE if left.wrote else INTERRUPTED_NOTE  # no call starts while the model is still writing
    assert {(event.data["status"], event.data["output"]) for event in results} <= {("interrupted", note)}
    *_, recovered, going_on = news
    assert recovered.data["interrupted_step"] == left.step
    assert recovered.data["closed_calls"] == [event.data["call_id"] for event in results]
    assert going_on.data["trigger"] == "recovery"
    if left.step is not None:
        finished = next(event.data for event in news if event.type == "step.finished")
        assert [finished[name] for name in ("step", "attempt", "finish_reason")] == [1, left.attempt, "interrupted"]
        assert Usage(**finished["usage"]) == left.usage, "usage is kept"
    row = await run.row()
    used = left.usage if left.step is not None else USAGE
    assert (Usage(**row.usage), Usage(**row.run_usage), row.run_steps) == (used, used, 1)
    assert (row.status, row.run_trigger, row.recoveries) == (Status.RUNNING, "recovery", 1)
    if left.message is not None:
        [message] = [message for message in await run.history() if message.id == left.message[0]]
        assert (message.id, message.finish_reason, message.tokens) == left.message


@pytest.mark.parametrize("state", STATES)
async def test_a_recovery_closes_everything_only_once(run: Stage, state: State) -> None:
    await state(run)
    await recover(run)
    history, usage = await run.history(), (await run.row()).usage
    result, news = await recover(run)
    assert result is None
    assert [event.type for event in news] == ["session.recovered", "session.running"]
    assert (news[0].data["interrupted_step"], news[0].data["closed_calls"]) == (None, [])
    assert (await run.history(), (await run.row()).usage) == (history, usage)
    for message in history:
        assert {call.status for call in message.tool_calls if message.voided_at is None} <= {
            ToolStatus.INTERRUPTED,
            ToolStatus.COMPLETED,
        }


async def test_results_of_one_message_stay_together_in_the_order_of_their_calls(run: Stage) -> None:
    await calls_partly_answered(run)
    await recover(run)
    *_, assistant, tool = await run.history()
    assert [part.call_id for part in tool.tool_results] == [call.call_id for call in assistant.tool_calls]
    assert [part.status for part in tool.tool_results] == ["interrupted", "completed", "interrupted"]
    assert [call.status for call in assistant.tool_calls] == ["interrupted", "completed", "interrupted"]
    assert tool.tokens == sum(part.tokens for part in tool.parts)


async def test_results_are_not_added_to_an_earlier_step(run: Stage) -> None:
    await between_steps(run)
    attempt, call = Attempt(step=2), call_part()
    await run.commit(attempt.opened, *attempt.wrote(call), attempt.answered(FinishReason.TOOL_CALLS))
    _, news = await recover(run)
    assert [event.data["step"] for event in news if event.type == "step.finished"] == [2]
    *_, earlier, _, later = await run.history()
    assert (len(earlier.parts), [part.call_id for part in later.tool_results]) == (1, [call.call_id])


async def test_an_interrupted_step_counts_for_its_day_as_well(run: Stage) -> None:
    await answer_whose_calls_run(run)
    await recover(run)
    [day] = await run.database.read(lambda c: costs.by_day(c, costs.ALL_DAYS))
    assert (day.steps, day.usage) == (1, USAGE)


# runs that end with their recovery


async def test_a_final_answer_is_the_end(run: Stage) -> None:
    await run.commit(*Attempt().whole())
    result, news = await recover(run)
    assert result == RunResult(Outcome.COMPLETED)
    assert [event.type for event in news] == ["session.recovered"]


LATER: list[tuple[Change, ...]] = [
    (ControlAdded(control_message("resume")),),
    (Attempt(step=2).opened,),
]


@pytest.mark.parametrize("later", LATER)
async def test_an_answer_followed_by_a_message_is_not_the_end(run: Stage, later: tuple[Change, ...]) -> None:
    await run.commit(*Attempt().whole(), *later)
    result, news = await recover(run)
    assert result is None
    assert news[-1].type == "session.running"


@pytest.mark.parametrize("reason", [FinishReason.LENGTH, FinishReason.ERROR, FinishReason.CANCELLED])
async def test_other_finish_reasons_are_not_a_final_answer(run: Stage, reason: FinishReason) -> None:
    attempt = Attempt()
    await run.commit(attempt.opened, *attempt.wrote(text_part("done")), attempt.answered(reason))
    await run.commit(attempt.closed(reason))
    assert (await recover(run))[0] is None


@pytest.mark.parametrize("recoveries", [0, MAX_RECOVERIES])
async def test_a_cancel_is_not_forgotten(run: Stage, recoveries: int) -> None:
    await answer_whose_calls_run(run)
    await run.change(cancel_requested=True, recoveries=recoveries)
    result, news = await recover(run)
    assert result == RunResult(Outcome.CANCELLED)
    assert [event.type for event in news] == ["tool.result", "tool.result", "step.finished", "session.recovered"]


async def test_a_run_is_parked_when_no_step_is_completed_between_its_recoveries(run: Stage) -> None:
    for number in range(1, MAX_RECOVERIES + 1):
        await run.commit(Attempt(step=number).opened)
        assert (await recover(run))[0] is None
        assert (await run.row()).recoveries == number, "a step closed by a recovery does not count as completed"
    await run.commit(Attempt(step=MAX_RECOVERIES + 1).opened)
    result, news = await recover(run)
    assert result is not None
    assert (result.outcome, result.error and result.error["code"]) == (Outcome.INTERRUPTED, "recovery_limit")
    assert [event.type for event in news] == ["step.finished", "session.recovered"]


async def test_a_completed_step_resets_the_count(run: Stage) -> None:
    await run.change(recoveries=MAX_RECOVERIES)
    await between_steps(run)
    assert (await recover(run))[0] is None
    assert (await run.row()).recoveries == 1


# when it is needed, and who may do it


async def test_a_run_that_had_not_started_needs_no_recovery(run: Stage) -> None:
    assert not await is_needed(run)
    await run.commit(*Attempt().whole())
    assert await is_needed(run), "its end must be recorded"
    await run.change(run_steps=0)
    assert not await is_needed(run), "the next run has not started"


@pytest.mark.parametrize("state", [state for state in STATES if state is not between_steps])
async def test_an_interrupted_step_is_detected_before_it_counts(run: Stage, state: State) -> None:
    await state(run)
    assert (await run.row()).run_steps == 0
    assert await is_needed(run)


async def test_a_stale_owner_recovers_nothing(run: Stage) -> None:
    await answer_whose_calls_run(run)
    epoch = await run.claim()
    await run.claim()
    before = await run.log(), await run.history()
    with pytest.raises(StaleOwnerError):
        await recover(run, epoch)
    assert (await run.log(), await run.history()) == before
    assert (await run.row()).recoveries == 0
