"""A run: what is delivered before which step, what a step's outcome means, and what ends the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from app.agent.changes import AttemptVoided, ControlAdded, GenerationOpened, ResponseClosed, StepClosed, StepOpened
from app.agent.conversation import control_message
from app.agent.interrupt import StopReason
from app.agent.limits import Progress
from app.agent.loop import RunResult
from app.context.prompts import ControlKind, control_text
from app.context.tokens import PER_MESSAGE, estimate_text
from app.errors import ContextOverflowError, ProviderError, StaleOwnerError
from app.llm.base import TextDelta
from app.messages import Message, Role, Usage
from app.sessions import Limits
from app.sessions import Outcome as RunOutcome
from tests.unit.agent.scenes import (
    Mark,
    Post,
    Reply,
    Scene,
    Script,
    calls,
    code_of,
    config,
    conversation,
    loop_of,
    passing,
    says,
    text,
    usage,
    user,
)
from tests.unit.context import builders as b

CUT = says("And so", finish="length")


class Session:
    """A scene with a message source."""

    def __init__(self, *replies: Reply, history: tuple[Message, ...] = (), **changes: Any) -> None:
        self.scene = Scene(Script(*replies), conversation(*history), **changes)
        self.sink, self.script, self.interrupt = self.scene.sink, self.scene.script, self.scene.interrupt
        self.post = Post(self.sink)
        self.progress = Progress(0, 0, Usage(), 0.0)

    async def run(self, limits: Limits | Callable[[], Limits] | None = None, **changes: Any) -> RunResult:
        given = limits if callable(limits) else lambda: limits or Limits()
        async with asyncio.timeout(60):
            return await loop_of(self.scene, self.post, limits=given, progress=self.progress, **changes).run()

    def said(self, call: int) -> list[str]:
        """The texts that the model was sent with a call."""
        return [message.text for message in self.script.sent[call]]


def ended(outcome: RunOutcome) -> RunResult:
    return RunResult(outcome)


class TestSteps:
    async def test_the_run_continues_until_an_answer_without_calls(self) -> None:
        session = Session(calls("good"), calls("good", "good"), says("Done."))
        assert await session.run() == ended(RunOutcome.COMPLETED)
        assert session.sink.shape == "GO P C R S O P P C R R S O P CS"
        assert [change.step for change in session.sink.of(StepOpened)] == [1, 2, 3]
        for before, after in pairwise(session.script.sent):
            assert after[: len(before)] == before

    async def test_progress_is_added_to_earlier_progress(self) -> None:
        session = Session(calls("good", report=usage(1_000, 100)), [passing()], says(report=usage(2_000, 50)))
        session.progress = Progress(2, 10, Usage(input_tokens=5, cost_usd=0.5), 0.5)
        await session.run()
        progress = session.progress
        assert (progress.run_steps, progress.steps) == (4, 12)
        assert [change.step for change in session.sink.of(StepOpened)] == [11, 12, 12]
        assert (progress.usage.input_tokens, progress.usage.output_tokens) == (3_005, 150)
        assert progress.cost_usd == progress.usage.cost_usd == pytest.approx(0.5 + 1.2 + 2.1)

    async def test_the_known_part_of_the_cost_counts(self) -> None:
        session = Session(
            calls("good", report=usage(cost_usd=0.25)),
            calls("good"),
            says(report=usage(cost_usd=0.5)),
            cost_usd=lambda *_: None,
        )
        await session.run()
        assert (session.progress.usage.cost_usd, session.progress.cost_usd) == (None, 0.75)

    async def test_it_also_counts_within_a_step(self) -> None:
        session = Session([*text(), passing()], says(report=usage(cost_usd=0.5)), cost_usd=lambda *_: None)
        await session.run()
        assert session.progress.cost_usd == 0.5

    async def test_settings_are_read_before_each_step(self) -> None:
        session = Session(calls("good"), says())

        def settings() -> Any:
            return config("other/two" if session.script.requests else "acme/one")

        await session.run(settings=settings)
        assert session.sink.shape == "GO P C R S GO P CS"
        assert [change.model for change in session.sink.of(StepOpened)] == ["acme/one", "other/two"]
        assert [change.generation.reason for change in session.sink.of(GenerationOpened)] == ["created", "model"]
        assert [change.generation for change in session.sink.of(StepOpened)] == [1, 2]

    @pytest.mark.parametrize(
        ("reply", "code"),
        [
            ([ProviderError("No.", code="provider_auth")], "provider_auth"),
            (says(finish="refusal"), "refusal"),
            (says(finish="content_filter"), "content_filter"),
        ],
    )
    async def test_a_failed_step_fails_the_run(self, reply: Reply, code: str) -> None:
        session = Session(calls("good"), reply)
        result = await session.run()
        assert (result.outcome, code_of(result), result.parked, result.void) == (
            RunOutcome.FAILED,
            code,
            False,
            False,
        )

    async def test_a_context_that_is_too_large_is_reported_with_its_size(self) -> None:
        session = Session([ContextOverflowError("The window is 10.")])
        result = await session.run()
        assert len(session.script.requests) == 1, "a context that cannot shrink is not sent again"
        assert (result.outcome, code_of(result)) == (RunOutcome.FAILED, "context_too_large")
        assert result.error is not None
        state = session.sink.of(StepClosed)[0].context
        assert (result.error["tokens"], result.error["limit"]) == (state.tokens, state.limit)
        [request] = session.scene.conversation.history[:1]
        assert result.error["part"] == f"user message {request.id}"
        assert result.error["part_tokens"] == request.tokens
        assert f"user message {request.id}" in result.error["detail"]

    async def test_a_new_owner_ends_the_run_without_a_result(self) -> None:
        session = Session(says())
        session.sink.refused[ResponseClosed] = StaleOwnerError("Another.")
        with pytest.raises(StaleOwnerError):
            await session.run()


class TestCutOff:
    async def test_once_it_continues_with_a_control_message(self) -> None:
        session = Session(CUT, says("it ends."))
        assert await session.run() == ended(RunOutcome.COMPLETED)
        assert session.sink.shape == "GO P CS K O P CS"
        assert session.said(1) == ["Please.", "And so", control_text("continue")]

    async def test_twice_in_a_row_ends_the_run(self) -> None:
        session = Session(CUT, CUT)
        result = await session.run()
        assert (result.outcome, code_of(result)) == (RunOutcome.FAILED, "output_limit")
        assert session.progress.run_steps == 2

    async def test_calls_in_between_reset_the_count(self) -> None:
        session = Session(CUT, calls("good"), CUT, says())
        assert await session.run() == ended(RunOutcome.COMPLETED)

    async def test_calls_in_a_cut_off_answer_are_progress(self) -> None:
        session = Session(*[calls("good", finish="length")] * 3, says())
        assert await session.run() == ended(RunOutcome.COMPLETED)

    async def test_a_message_in_between_resets_the_count(self) -> None:
        session = Session()
        session.script.replies = [[lambda: session.post.send("More."), *CUT], CUT, says()]
        assert await session.run() == ended(RunOutcome.COMPLETED)
        assert session.said(1)[-1] == "More."
        assert session.said(2)[-1] == control_text("continue")


class TestControlMessages:
    @pytest.mark.parametrize("kind", ["resume", "continue", "interrupted", "limit"])
    def test_a_control_message(self, kind: ControlKind) -> None:
        message = control_message(kind)
        assert (message.role, message.text, message.seq) == (Role.CONTROL, control_text(kind), 0)
        assert message.tokens == PER_MESSAGE + estimate_text(control_text(kind))
        assert message.parts[0].tokens == estimate_text(control_text(kind))

    async def test_a_run_continued_after_an_answer_gets_a_control_message(self) -> None:
        session = Session(says(), history=(user("Please.", 1), b.message(Role.ASSISTANT, 2, b.text("I was"))))
        await session.run(continues=True)
        assert session.sink.shape == "K GO P CS"
        assert session.said(0) == ["Please.", "I was", control_text("interrupted")]
        [added] = session.sink.of(ControlAdded)
        sent = session.script.sent[0][-1]
        assert sent == added.message.model_copy(update={"seq": session.sink.seq_of(added)})

    async def test_after_a_user_message_none_is_added(self) -> None:
        session = Session(says(), history=(user("Please.", 1),))
        await session.run(continues=True)
        assert session.sink.of(ControlAdded) == []

    async def test_after_an_interruption_without_a_message_the_run_is_resumed(self) -> None:
        session = Session([TextDelta(0, "Half"), Mark.HANGS], says())
        running = asyncio.create_task(session.run())
        await session.script.reached.wait()
        session.interrupt.fire("interrupt")
        assert await running == ended(RunOutcome.COMPLETED)
        assert session.said(1) == ["Please.", "Half", control_text("resume")]

    async def test_a_broken_history_is_repaired_in_the_record_of_the_first_step(self) -> None:
        asked = b.message(Role.ASSISTANT, 2, b.call("c1"))
        session = Session(says(), history=(user("Please.", 1), asked, user("Go on.", 3)))
        await session.run()
        assert session.sink.shape == "GGO P CS"
        assert [change.generation.reason for change in session.sink.of(GenerationOpened)] == ["created", "repair"]
        assert [change.generation for change in session.sink.of(StepOpened)] == [2]
        roles = [message.role for message in session.script.sent[0]]
        assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.USER]


class TestDeliveries:
    async def test_messages_are_delivered_before_the_first_step_in_order(self) -> None:
        session = Session(says())
        session.post.send("One.", "Two.")
        assert await session.run(continues=False) == ended(RunOutcome.COMPLETED)
        assert session.said(0) == ["Please.", "One.", "Two."]

    async def test_messages_during_a_step_are_delivered_before_the_next(self) -> None:
        session = Session()
        session.script.replies = [[lambda: session.post.send("More."), *calls("good")], says()]
        await session.run()
        assert session.script.sent[1][-1].text == "More."
        assert [message.role for message in session.script.sent[1]][-2:] == [Role.TOOL, Role.USER]

    async def test_messages_during_the_last_answer_continue_the_run(self) -> None:
        session = Session()
        session.script.replies = [[lambda: session.post.send("More."), *says("Done.")], says()]
        assert await session.run() == ended(RunOutcome.COMPLETED)
        assert session.said(1) == ["Please.", "Done.", "More."]
        assert session.sink.of(ControlAdded) == []

    async def test_an_interrupting_message_ends_the_step_and_begins_the_next(self) -> None:
        session = Session([TextDelta(0, "Half"), Mark.HANGS], says())
        running = asyncio.create_task(session.run())
        await session.script.reached.wait()
        session.post.send("Stop, look.")
        session.interrupt.fire("interrupt")
        assert await running == ended(RunOutcome.COMPLETED)
        assert session.said(1) == ["Please.", "Half", "Stop, look."]
        assert session.interrupt.reason is None

    async def test_the_queue_is_not_read_if_nothing_waits(self) -> None:
        session = Session(calls("good"), says())
        await session.run()
        assert session.post.looked == 0

    async def test_without_a_message_there_is_no_run(self) -> None:
        session = Session()
        assert await session.run(continues=False) == RunResult(RunOutcome.COMPLETED, void=True)
        assert session.sink.changes == []

    async def test_a_withdrawn_interrupting_message_makes_no_run(self) -> None:
        session = Session()
        session.interrupt.fire("interrupt")
        assert await session.run(continues=False) == RunResult(RunOutcome.COMPLETED, void=True)
        assert (session.post.looked, session.interrupt.reason) == (1, None)


class TestStops:
    STOPS = [
        ("cancel", RunResult(RunOutcome.CANCELLED)),
        ("shutdown", RunResult(RunOutcome.INTERRUPTED, parked=True)),
    ]

    @pytest.mark.parametrize(("reason", "result"), STOPS)
    @pytest.mark.parametrize("continues", [True, False])
    async def test_stopped_before_it_began_nothing_is_delivered(
        self, reason: StopReason, result: RunResult, continues: bool
    ) -> None:
        session = Session()
        session.post.send("More.")
        session.interrupt.fire(reason)
        assert await session.run(continues=continues) == result
        assert (session.sink.changes, len(session.post.pending)) == ([], 1)

    @pytest.mark.parametrize(("reason", "result"), STOPS)
    async def test_stopped_in_a_step_the_run_ends(self, reason: StopReason, result: RunResult) -> None:
        session = Session([TextDelta(0, "Half"), Mark.HANGS])
        running = asyncio.create_task(session.run())
        await session.script.reached.wait()
        session.post.send("More.")
        session.interrupt.fire(reason)
        assert await running == result
        assert session.sink.shape == "GO P C S"
        assert len(session.post.pending) == 1
        assert session.progress.run_steps == 1

    @pytest.mark.parametrize("reason", ["cancel", "shutdown", "limit"])
    async def test_a_final_answer_stays_finished_whatever_comes_with_it(self, reason: StopReason) -> None:
        session = Session(says())
        session.sink.held = frozenset({ResponseClosed})
        running = asyncio.create_task(session.run())
        await session.sink.until(ResponseClosed)
        session.post.send("More.")
        session.interrupt.fire(reason)
        session.sink.commit()
        assert await running == ended(RunOutcome.COMPLETED)
        assert len(session.post.pending) == 1


class TestLimits:
    @pytest.mark.parametrize(
        ("limits", "code", "made"),
        [
            (Limits(max_steps=1), "max_steps", 1),
            (Limits(max_steps=3), "max_steps", 3),
            (Limits(max_tokens=220), "max_tokens", 2),
            (Limits(max_tokens=221), "max_tokens", 3),
            (Limits(max_cost_usd=0.24), "max_cost_usd", 2),
            (Limits(max_cost_usd=0.25), "max_cost_usd", 3),
            (Limits(max_cost_usd=0), "max_cost_usd", 0),
            (Limits(max_steps=2, max_tokens=110), "max_tokens", 1),
        ],
    )
    async def test_a_limit_that_is_reached_ends_the_run(self, limits: Limits, code: str, made: int) -> None:
        """A step uses 110 tokens and costs 0.12 dollars."""
        session = Session(*[calls("good")] * 5)
        result = await session.run(limits)
        assert (result.outcome, code_of(result)) == (RunOutcome.LIMIT_REACHED, code)
        assert result.error is not None
        assert (result.error["status"], result.error["limit"]) == (409, getattr(limits, code))
        whose = "run" if code == "max_steps" else "session"
        assert result.error["detail"] == f"The {whose} has reached its limit: {code} = {getattr(limits, code):g}."
        assert (session.progress.run_steps, len(session.sink.of(StepOpened))) == (made, made)

    @pytest.mark.parametrize(
        ("limits", "made"),
        [(Limits(max_steps=5), 2), (Limits(max_tokens=300), 1), (Limits(max_cost_usd=1.0), 2)],
    )
    async def test_earlier_runs_count(self, limits: Limits, made: int) -> None:
        session = Session(*[calls("good")] * 5)
        session.progress = Progress(3, 40, Usage(input_tokens=200, cost_usd=0.8), 0.8)
        result = await session.run(limits)
        assert (result.outcome, session.progress.run_steps) == (RunOutcome.LIMIT_REACHED, 3 + made)

    @pytest.mark.parametrize("limits", [Limits(max_steps=1), Limits(max_tokens=1), Limits(max_cost_usd=0.01)])
    async def test_a_final_answer_stays_finished_at_a_limit(self, limits: Limits) -> None:
        assert await Session(says()).run(limits) == ended(RunOutcome.COMPLETED)

    async def test_a_limit_is_reported_exactly(self) -> None:
        session = Session(calls("good"))
        session.progress = Progress(1, 40, Usage(input_tokens=1_234_568), 0)
        error = (await session.run(Limits(max_tokens=1_234_567))).error or {}
        assert error["detail"] == "The session has reached its limit: max_tokens = 1234567."

    async def test_a_run_without_limits_continues(self) -> None:
        session = Session(*[calls("good")] * 60, says())
        assert await session.run(Limits(max_steps=None)) == ended(RunOutcome.COMPLETED)
        assert session.progress.run_steps == 61

    async def test_limits_are_read_before_each_step(self) -> None:
        session = Session(calls("good"), calls("good"), calls("good"))
        result = await session.run(lambda: Limits(max_steps=1 if session.progress.run_steps > 1 else 50))
        assert (code_of(result), session.progress.run_steps) == ("max_steps", 2)

    async def test_pending_messages_are_delivered_before_a_limit_ends_the_run(self) -> None:
        session = Session()
        session.script.replies = [[lambda: session.post.send("More."), *calls("good")]]
        result = await session.run(Limits(max_steps=1))
        assert (code_of(result), session.post.pending) == ("max_steps", [])
        assert session.scene.conversation.last is not None
        assert session.scene.conversation.last.text == "More."


@dataclass
class Timers:
    """The event loop's timers, all of them deadlines; the running one fires when told to."""

    delays: list[float] = field(default_factory=list)
    handles: list[asyncio.TimerHandle] = field(default_factory=list)

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        loop = asyncio.get_running_loop()
        self.delays.append(delay)
        self.handles.append(asyncio.TimerHandle(loop.time() + delay, callback, args, loop))
        return self.handles[-1]

    def go_off(self) -> None:
        [running] = [handle for handle in self.handles if not handle.cancelled()]
        running._run()


@pytest.fixture
async def timers(monkeypatch: pytest.MonkeyPatch) -> Timers:
    timers = Timers()
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", timers.call_later)
    return timers


class TestDeadlines:
    async def test_a_running_step_is_ended(self, timers: Timers) -> None:
        session = Session([TextDelta(0, "Half"), Mark.HANGS])
        running = asyncio.create_task(session.run(Limits(max_seconds=10), elapsed_s=10))
        await session.script.reached.wait()
        timers.go_off()
        result = await running
        assert (result.outcome, code_of(result)) == (RunOutcome.LIMIT_REACHED, "max_seconds")
        assert result.error is not None
        assert result.error["limit"] == 10
        assert session.sink.shape == "GO P C S"

    async def test_a_retry_is_not_awaited(self, timers: Timers) -> None:
        session = Session([passing(after_s=100)])
        running = asyncio.create_task(session.run(Limits(max_seconds=10), elapsed_s=10))
        await session.sink.until(AttemptVoided)
        timers.go_off()
        assert (code_of(await running), session.sink.shape) == ("max_seconds", "GO V S")

    @pytest.mark.parametrize("elapsed_s", [3_599.95, 3_600, 7_200])
    async def test_the_time_before_a_restart_counts(self, elapsed_s: float) -> None:
        session = Session([Mark.HANGS])
        result = await session.run(Limits(max_seconds=3_600), elapsed_s=elapsed_s)
        assert (result.outcome, code_of(result)) == (RunOutcome.LIMIT_REACHED, "max_seconds")

    async def test_each_step_has_the_remaining_time(self, timers: Timers) -> None:
        session = Session(calls("good"), says())
        result = await session.run(Limits(max_seconds=1_000), elapsed_s=400)
        assert result == ended(RunOutcome.COMPLETED)
        assert len(timers.delays) == 4, "one for fitting the context, one for the step"
        assert sorted(timers.delays, reverse=True) == timers.delays
        assert 590 < timers.delays[-1] <= timers.delays[0] <= 600

    async def test_no_timer_outlives_its_step(self, timers: Timers) -> None:
        session = Session(calls("good"), [ProviderError("No.")])
        await session.run(Limits(max_seconds=1_000))
        assert [handle.cancelled() for handle in timers.handles] == [True] * 4

    async def test_without_a_limit_there_is_no_timer(self, timers: Timers) -> None:
        await Session(says()).run(Limits(max_seconds=None))
        assert timers.delays == []

    @pytest.mark.parametrize("raised", [2_000.0, None])
    async def test_a_limit_raised_meanwhile_does_not_end_the_run(self, timers: Timers, raised: float | None) -> None:
        seconds: list[float | None] = [1_000.0]
        session = Session([TextDelta(0, "Half"), Mark.HANGS], says())
        running = asyncio.create_task(session.run(lambda: Limits(max_seconds=seconds[-1])))
        await session.script.reached.wait()
        seconds.append(raised)
        timers.go_off()
        assert await running == ended(RunOutcome.COMPLETED)
        assert session.said(1) == ["Please.", "Half", control_text("resume")]
        assert session.interrupt.reason is None

    async def test_calls_that_ran_past_it_are_the_last(self, timers: Timers) -> None:
        session = Session(calls("good"))
        session.sink.held = frozenset({ResponseClosed})
        running = asyncio.create_task(session.run(Limits(max_seconds=10), elapsed_s=10))
        await session.sink.until(ResponseClosed)
        timers.go_off()
        session.sink.commit()
        result = await running
        assert (code_of(result), session.sink.shape) == ("max_seconds", "GO P C R S")
