"""All histories under all policies, with a model that may fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from app.context.policies import POLICIES
from app.errors import ProviderError, UnknownModelError
from app.llm.base import ModelRequest, StreamEvent
from evals import BASELINE, Evaluation, evaluate, report, work_of

from .stage import MODEL, Model, asks_for_summary, history, knows_all, models, probe

PROBES = (probe("What was to be written?", "alpha.sh"), probe("What comes next?", "omega.txt", kind="next_step"))


def evaluation(*names: str, **more: object) -> Evaluation:
    histories = [history(name, probes=PROBES) for name in names or ("one",)]
    return Evaluation(MODEL, histories, POLICIES, **more)  # type: ignore[arg-type]


def silent(history: str, policy: str, what: str) -> None:
    """Do nothing: nobody watches."""


async def test_every_history_gets_a_row_for_each_policy_and_for_the_full_context() -> None:
    asked = evaluation("one", "two")
    await evaluate(asked, models(Model()), silent)
    rows = asked.in_order()
    assert [(row.history, row.policy) for row in rows] == work_of(asked)
    assert [row.policy for row in rows[:4]] == [BASELINE, *POLICIES]
    for row in rows:
        assert row.complete
        assert [answer.question for answer in row.answers] == [item.question for item in PROBES]
        assert (row.rung is None) == (row.policy == BASELINE)
        assert (row.tokens_after < row.tokens_before) == (row.policy != BASELINE)
        assert row.probing.input_tokens == 200
        assert row.compaction.input_tokens == (0 if row.policy == BASELINE else 100)
    assert all(row.answers[0].found == (True,) for row in rows)


async def test_what_the_context_has_lost_is_not_recalled() -> None:
    asked = Evaluation(MODEL, [history("one", probes=(probe("Which step?", "output 3"),))], ("handoff",))

    def outputs(request: ModelRequest) -> str:
        if asks_for_summary(request):
            return knows_all(request)
        return " ".join(result.output for message in request.messages for result in message.tool_results)

    await evaluate(asked, models(Model(outputs)), silent)
    assert [row.answers[0].found for row in asked.in_order()] == [(True,), (False,)]


async def test_the_full_context_is_asked_before_a_round_so_that_it_is_cached() -> None:
    model = Model()
    await evaluate(evaluation(), models(model), silent)
    kinds = ["summary" if asks_for_summary(request) else "probe" for request in model.requests]
    assert kinds == ["probe", "probe", *["summary", "probe", "probe"] * len(POLICIES)]


async def test_a_full_context_that_does_not_fit_is_reported_in_its_row() -> None:
    asked = evaluation()
    await evaluate(asked, models(Model(), window=6_000), silent)
    first, *others = asked.in_order()
    assert first.error is not None
    assert "does not fit the window of 6,000" in first.error
    assert all(row.complete for row in others)


async def test_provider_failures_are_recorded_in_rows_and_not_raised() -> None:
    def answer(request: ModelRequest) -> str:
        raise ProviderError("The key was refused.", code="provider_auth")

    asked = evaluation()
    await evaluate(asked, models(Model(answer)), silent)
    rows = asked.in_order()
    assert {row.error for row in rows} == {"The key was refused. (provider_auth)"}
    assert [row.rung for row in rows] == [None, "fold", "fold", "fold"]
    assert rows[1].notes == ("summary: The key was refused. (provider_auth)",)


async def test_answers_before_an_error_are_kept_but_do_not_count() -> None:
    def answer(request: ModelRequest) -> str:
        if "What comes next?" in request.messages[-1].text:
            raise ProviderError("Gone.", code="provider_gone")
        return knows_all(request)

    asked = evaluation()
    await evaluate(asked, models(Model(answer)), silent)
    rows = asked.in_order()
    assert all(len(row.answers) == 1 and not row.complete for row in rows)
    assert report(MODEL, None, rows, scripted=False).compared == ()


async def test_a_judge_is_asked_about_each_answer() -> None:
    def answer(request: ModelRequest) -> str:
        return "1: yes" if request.model == "judge" else knows_all(request)

    asked = evaluation(judge="acme/judge")
    await evaluate(asked, models(Model(answer)), silent)
    for row in asked.in_order():
        assert [item.judged for item in row.answers] == [(True,), (True,)]
        assert row.judging.input_tokens == 200


async def test_a_history_too_short_for_a_round_is_reported_in_its_row() -> None:
    asked = Evaluation(MODEL, [history("one", steps=0, probes=(probe(),))], ("threshold",))
    await evaluate(asked, models(Model()), silent)
    row = asked.in_order()[1]
    assert row.error is not None
    assert row.error.startswith("No round was made. ")
    assert row.error.endswith("(nothing_to_compact)")
    assert not row.answers


@pytest.mark.parametrize("wrong", [{"judge": "nobody/x"}, {"model": "nobody/x"}])
async def test_an_unknown_model_is_an_error_before_anything_is_billed(wrong: dict[str, str]) -> None:
    model = Model()
    asked = Evaluation(**{"model": MODEL, "histories": [history()], "policies": POLICIES, **wrong})  # type: ignore[arg-type]
    with pytest.raises(UnknownModelError):
        await evaluate(asked, models(model), silent)
    assert not model.requests


async def test_a_cancelled_evaluation_keeps_the_finished_rows() -> None:
    reached = asyncio.Event()

    class Stalls(Model):
        async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
            if asks_for_summary(request):
                reached.set()
                await asyncio.Event().wait()
            async for event in super().stream(request):
                yield event

    asked = evaluation()
    task = asyncio.create_task(evaluate(asked, models(Stalls()), silent))
    async with asyncio.timeout(60):
        await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [row.policy for row in asked.in_order()] == [BASELINE]


async def test_histories_are_measured_in_parallel_up_to_a_limit() -> None:
    open_now = most = 0

    class Counts(Model):
        async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
            nonlocal open_now, most
            open_now += 1
            most = max(most, open_now)
            await asyncio.sleep(0)
            async for event in super().stream(request):
                yield event
            open_now -= 1

    await evaluate(evaluation("a", "b", "c", "d", parallel=2), models(Counts()), silent)
    assert most == 2


async def test_progress_names_the_current_work() -> None:
    told: list[tuple[str, str, str]] = []
    await evaluate(evaluation(), models(Model()), lambda *what: told.append(what))
    assert told[0] == ("one", BASELINE, "question 1 of 2")
    assert ("one", "reactive", "done") in told
    assert any(what.startswith("compacting: ") for _, _, what in told)
