"""Rounds of compaction within a run: before which step they come, what they let through, and what ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.agent.changes import (
    ControlAdded,
    GenerationOpened,
    ResultClosed,
    RoundCompleted,
    RungFailed,
    StepClosed,
    StepOpened,
)
from app.agent.compaction.triggers import ManualRound
from app.agent.conversation import is_last_word
from app.agent.limits import Progress
from app.agent.loop import NOT_RUN, NOT_RUN_IN_SESSION, RunResult
from app.agent.protocols import AgentConfig
from app.context.policies import CompactionSettings
from app.context.prompts import control_text
from app.errors import ContextOverflowError
from app.llm.base import TextDelta
from app.messages import Message, Usage
from app.sessions import Limits
from app.sessions import Outcome as RunOutcome
from tests.unit.agent.rounds import PROSE, SMALL, SUMMARY, UNPRUNED, counted, settings_of
from tests.unit.agent.scenes import Mark, Post, Reply, Scene, Script, calls, config, conversation, loop_of, says, usage
from tests.unit.context import builders as b

UNCUT = settings_of(prune_exempt_tools=UNPRUNED)
TOO_LARGE: Reply = [ContextOverflowError("Too large.")]
HANGS: Reply = [TextDelta(0, "Half."), Mark.HANGS]


class Long:
    """A run over a history that is too large for its window, unless stated otherwise."""

    def __init__(
        self,
        *replies: Reply,
        history: list[Message] | None = None,
        settings: CompactionSettings = UNCUT,
        budget: Any = SMALL,
    ) -> None:
        given = b.long_task(12, 1_000) if history is None else history
        self.scene = Scene(Script(*replies), conversation(*map(counted, given)))
        self.sink, self.script, self.interrupt = self.scene.sink, self.scene.script, self.scene.interrupt
        self.post = Post(self.sink, after=given[-1].seq)
        self.progress = Progress(0, 0, Usage(), 0.0)
        self.config: Callable[[], AgentConfig] = lambda: config(budget=budget, settings=settings)

    async def run(
        self,
        limits: Limits | None = None,
        *,
        elapsed_s: float = 0.0,
        last_step_s: float = 0.0,
        manual_round: Callable[[], Awaitable[ManualRound | None]] | None = None,
    ) -> RunResult:
        loop = loop_of(
            self.scene,
            self.post,
            limits=lambda: limits or Limits(),
            settings=self.config,
            progress=self.progress,
            elapsed_s=elapsed_s,
            last_step_s=last_step_s,
            manual_round=manual_round,
        )
        async with asyncio.timeout(60):
            result = await loop.run()
            await loop.close()
        return result

    def code(self, result: RunResult) -> str:
        assert result.error is not None
        return str(result.error["code"])


def crowded() -> AgentConfig:
    """A system text that alone is larger than the window."""
    return config(budget=SMALL, settings=UNCUT, system="x" * 60_000)


class TestBeforeALastStep:
    async def test_the_context_is_fitted_as_before_any_other(self) -> None:
        long = Long(SUMMARY, calls("good", report=usage(10_500, 5)), SUMMARY, says("So far."))
        result = await long.run(Limits(max_steps=1), last_step_s=60)
        assert (result.outcome, long.code(result)) == (RunOutcome.LIMIT_REACHED, "max_steps")
        assert [step.compaction_round for step in long.sink.of(StepOpened)] == [1, 2]
        assert [added.message.text for added in long.sink.of(ControlAdded)] == [control_text("last_step")]
        assert long.scene.conversation.history[-1].text == "So far."

    async def test_the_model_reads_whether_the_limit_is_its_runs_or_the_sessions(self) -> None:
        run, whole = control_text("last_step"), control_text("last_step_of_session")
        for limits, word, refusal in (
            (Limits(max_steps=1), run, NOT_RUN),
            (Limits(max_tokens=1), whole, NOT_RUN_IN_SESSION),
            (Limits(max_cost_usd=0), whole, NOT_RUN_IN_SESSION),
        ):
            long = Long(SUMMARY, calls("good"))
            long.progress.run_steps = 1
            await long.run(limits, last_step_s=60)
            [told] = long.sink.of(ControlAdded)
            assert told.message.text == word
            assert is_last_word(told.message)
            [refused] = long.sink.of(ResultClosed)
            assert refused.part.output == refusal

    async def test_it_has_its_own_time_limit(self) -> None:
        long = Long(SUMMARY, says("So far."))
        result = await long.run(Limits(max_seconds=1), elapsed_s=2, last_step_s=60)
        assert (result.outcome, long.code(result)) == (RunOutcome.LIMIT_REACHED, "max_seconds")
        assert long.script.requests == [], "a run without steps has nothing to sum up"
        long.progress.run_steps = 1
        await long.run(Limits(max_seconds=1), elapsed_s=2, last_step_s=60)
        assert long.scene.conversation.history[-1].text == "So far."

    async def test_there_is_no_last_step_if_fitting_takes_too_long(self) -> None:
        long = Long(HANGS)
        long.progress.run_steps = 1
        result = await long.run(Limits(max_steps=1), last_step_s=0.05)
        assert (result.outcome, long.code(result)) == (RunOutcome.LIMIT_REACHED, "max_steps")
        assert long.sink.of(StepOpened) == []

    async def test_there_is_none_if_the_context_cannot_fit(self) -> None:
        long = Long(history=[b.user(1)])
        long.config = crowded
        long.progress.run_steps = 1
        result = await long.run(Limits(max_steps=1), last_step_s=60)
        assert (result.outcome, long.code(result)) == (RunOutcome.LIMIT_REACHED, "max_steps")
        assert long.script.requests == []


class TestBeforeAStep:
    async def test_the_context_is_fitted_first(self) -> None:
        long = Long(SUMMARY, says())
        assert await long.run() == RunResult(RunOutcome.COMPLETED)
        assert long.sink.shape == "G M DG O P CS"
        assert [opened.generation.reason for opened in long.sink.of(GenerationOpened)] == ["created", "checkpoint"]
        [step] = long.sink.of(StepOpened)
        assert (step.generation, step.compaction_round, step.step) == (2, 1, 1)
        [completed] = long.sink.of(RoundCompleted)
        assert step.context.tokens == completed.tokens_after
        assert completed.summary.id in {message.id for message in long.script.sent[1]}

    async def test_messages_that_arrive_meanwhile_are_delivered_before_it(self) -> None:
        long = Long(says())
        long.script.replies.insert(0, [lambda: long.post.send("And more."), *SUMMARY])
        await long.run()
        assert long.script.sent[1][-1].text == "And more."

    async def test_a_context_that_cannot_shrink_ends_the_run_before_a_step(self) -> None:
        long = Long(history=[b.user(1)])
        long.config = crowded
        result = await long.run()
        assert (result.outcome, long.code(result)) == (RunOutcome.FAILED, "context_too_large")
        assert (long.sink.shape, long.script.requests) == ("G", [])

    async def test_the_session_stays_usable_afterwards(self) -> None:
        long = Long(says(), history=[b.user(1)])
        long.config = crowded
        await long.run()
        long.config = lambda: config(settings=UNCUT)
        assert await long.run() == RunResult(RunOutcome.COMPLETED)

    async def test_steps_that_fill_the_window_make_rounds_in_between(self) -> None:
        large = usage(9_990, 5)
        full = usage(10_500, 5)
        long = Long(SUMMARY, calls("good", report=large), calls("good", report=full), SUMMARY, says())
        assert await long.run() == RunResult(RunOutcome.COMPLETED)
        assert [completed.checkpoint.round for completed in long.sink.of(RoundCompleted)] == [1, 2]
        assert [step.compaction_round for step in long.sink.of(StepOpened)] == [1, 1, 2]


class TestAfterAnOverflow:
    async def test_the_run_continues_with_a_smaller_context(self) -> None:
        long = Long(TOO_LARGE, SUMMARY, says(), budget=config().budget)
        assert await long.run() == RunResult(RunOutcome.COMPLETED)
        refused, done = long.sink.of(StepClosed)
        assert done.context.tokens < refused.context.tokens
        assert [opening.reason for opening in long.sink.rounds] == ["provider_overflow"]
        assert [step.step for step in long.sink.of(StepOpened)] == [1, 2]

    async def test_a_provider_that_refuses_everything_ends_it(self) -> None:
        long = Long(*[TOO_LARGE] * 100, budget=config().budget)
        result = await long.run(Limits(max_steps=None))
        assert (result.outcome, long.code(result)) == (RunOutcome.FAILED, "context_too_large")
        sizes = [step.context.tokens for step in long.sink.of(StepOpened)]
        assert sizes == sorted(set(sizes), reverse=True), "never the same again"
        assert 1 < len(sizes) < 40


class TestCost:
    async def test_a_summary_counts_in_the_limits(self) -> None:
        long = Long(says(PROSE, usage(900, 100)))
        result = await long.run(Limits(max_tokens=1_000))
        assert (result.outcome, long.code(result)) == (RunOutcome.LIMIT_REACHED, "max_tokens")
        assert long.sink.of(StepOpened) == []
        assert long.progress.usage.total_tokens == 1_000
        assert long.progress.cost_usd == pytest.approx(1.1)

    async def test_an_abandoned_summary_counts_too(self) -> None:
        long = Long(HANGS)
        running = asyncio.create_task(long.run())
        await long.script.reached.wait()
        long.interrupt.fire("cancel")
        assert await running == RunResult(RunOutcome.CANCELLED)
        assert long.progress.usage.output_tokens > 0
        assert long.sink.shape == "G M E"


class TestStops:
    async def test_a_time_limit_applies_to_a_round(self) -> None:
        long = Long(HANGS)
        # The run's remaining time is over at once, so the round is ended as soon as possible.
        result = await long.run(Limits(max_seconds=3_600), elapsed_s=3_599.95)
        assert (result.outcome, long.code(result)) == (RunOutcome.LIMIT_REACHED, "max_seconds")
        assert long.sink.of(StepOpened) == []

    async def test_a_shutdown_parks_the_run(self) -> None:
        long = Long(HANGS)
        running = asyncio.create_task(long.run())
        await long.script.reached.wait()
        long.interrupt.fire("shutdown")
        assert (await running).parked


class TestAsked:
    async def test_a_manual_round_comes_before_the_runs_next_step(self) -> None:
        long = Long(SUMMARY, says(), budget=config().budget)
        waiting = [ManualRound(4, UNCUT, "Keep names.")]

        async def asked() -> ManualRound | None:
            return waiting.pop() if waiting else None

        assert await long.run(manual_round=asked) == RunResult(RunOutcome.COMPLETED)
        assert long.sink.shape == "G M DG O P CS"
        assert long.sink.of(RoundCompleted)[0].checkpoint.round == 4
        assert "Keep names." in long.script.sent[0][-1].text

    async def test_a_manual_round_with_nothing_to_do_ends_no_run(self) -> None:
        long = Long(says(), history=[b.user(1)])
        waiting = [ManualRound(1, UNCUT)]

        async def asked() -> ManualRound | None:
            return waiting.pop() if waiting else None

        assert await long.run(manual_round=asked) == RunResult(RunOutcome.COMPLETED)
        assert [failed.next for failed in long.sink.of(RungFailed)] == [None]


class TestTheEnd:
    async def test_old_outputs_are_cleared_when_the_trigger_is_near(self) -> None:
        long = Long(says(), history=b.long_task(9, 1_000), settings=settings_of())
        assert await long.run() == RunResult(RunOutcome.COMPLETED)
        assert long.sink.shape == "GO P CS XG"

    async def test_also_after_an_error(self) -> None:
        long = Long(says(finish="refusal"), history=b.long_task(9, 1_000), settings=settings_of())
        assert (await long.run()).outcome is RunOutcome.FAILED
        assert long.sink.shape.endswith(" XG")
