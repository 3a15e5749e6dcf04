"""One step: what is recorded in which order, what it costs, and what stays, however the model's call ends."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.contextvars import get_contextvars, merge_contextvars
from structlog.testing import capture_logs

from app.agent.changes import (
    AttemptVoided,
    Change,
    GenerationOpened,
    PartClosed,
    ResponseClosed,
    ResultClosed,
    StepClosed,
    StepOpened,
)
from app.agent.interrupt import StopReason
from app.agent.step import LOGGED, Outcome
from app.agent.stream_processor import MAX_ANSWER_BYTES
from app.context.tokens import PER_MESSAGE, estimate_text
from app.errors import (
    ContextOverflowError,
    MissingApiKeyError,
    PalimpsestError,
    ProviderError,
    StaleOwnerError,
    StorageError,
)
from app.llm.base import Finish, Provider, ReasoningDelta, TextDelta, ToolArgumentsDelta, ToolCallStart, delay_s
from app.llm.base import StopReason as ModelStop
from app.messages import FinishReason, Role, TextPart, ToolStatus, Usage
from tests.unit.agent.scenes import (
    BUDGET,
    MODEL,
    Mark,
    Output,
    Reply,
    Scene,
    Script,
    call,
    calls,
    code_of,
    config,
    passing,
    price,
    says,
    text,
    turns,
    usage,
)

STOPS = [
    ("interrupt", FinishReason.CANCELLED, ToolStatus.CANCELLED),
    ("limit", FinishReason.CANCELLED, ToolStatus.INTERRUPTED),
    ("cancel", FinishReason.CANCELLED, ToolStatus.CANCELLED),
    ("shutdown", FinishReason.INTERRUPTED, ToolStatus.INTERRUPTED),
]


def errors(logs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of what was logged as errors."""
    return [entry["event"] for entry in logs if entry["log_level"] == "error"]


def billed(scene: Scene) -> list[AttemptVoided | ResponseClosed]:
    """The ends of all attempts, in order."""
    return [change for change in scene.sink.changes if isinstance(change, AttemptVoided | ResponseClosed)]


class TestAnswered:
    @pytest.mark.parametrize(
        ("finish", "outcome", "reason", "code"),
        [
            ("stop", Outcome.FINISHED, FinishReason.STOP, None),
            ("other", Outcome.FINISHED, FinishReason.STOP, None),
            ("tool_calls", Outcome.FINISHED, FinishReason.STOP, None),
            ("length", Outcome.CUT_OFF, FinishReason.LENGTH, None),
            ("refusal", Outcome.REFUSED, FinishReason.REFUSAL, "refusal"),
            ("content_filter", Outcome.REFUSED, FinishReason.CONTENT_FILTER, "content_filter"),
        ],
    )
    async def test_a_text_ends_the_step_in_the_same_record_as_the_answer(
        self, finish: ModelStop, outcome: Outcome, reason: FinishReason, code: str | None
    ) -> None:
        scene = Scene(Script(says("Well.", finish=finish)))
        result = await scene.run()
        assert (result.outcome, code_of(result)) == (outcome, code)
        assert scene.sink.shape == "GO P CS"
        [response], [closed] = scene.sink.of(ResponseClosed), scene.sink.of(StepClosed)
        assert (response.finish_reason, closed.finish_reason) == (reason, reason)
        assert response.error is None, "the answer is complete, and its message has no error"

    @pytest.mark.parametrize(
        ("finish", "reason"),
        [
            ("tool_calls", FinishReason.TOOL_CALLS),
            ("stop", FinishReason.TOOL_CALLS),
            ("other", FinishReason.TOOL_CALLS),
            ("length", FinishReason.LENGTH),
            ("refusal", FinishReason.REFUSAL),
        ],
    )
    async def test_calls_run_whatever_the_finish_reason(self, finish: ModelStop, reason: FinishReason) -> None:
        scene = Scene(Script(calls("good", "wrong", finish=finish)))
        with capture_logs():
            result = await scene.run()
        assert result.outcome is Outcome.RAN_TOOLS
        assert scene.sink.shape == "GO P P C R R S"
        assert [change.finish_reason for change in scene.sink.of(StepClosed)] == [reason]
        statuses = {change.part.name: change.part.status for change in scene.sink.of(ResultClosed)}
        assert statuses == {"good": ToolStatus.COMPLETED, "wrong": ToolStatus.ERROR}

    async def test_an_empty_answer_is_finished(self) -> None:
        scene = Scene(Script([usage(), Finish("stop")]))
        assert (await scene.run()).outcome is Outcome.FINISHED
        assert scene.sink.shape == "GO CS"

    async def test_all_changes_name_the_same_step_and_message(self) -> None:
        scene = Scene(Script([*text(), *call("good"), usage(), Finish("tool_calls")]))
        await scene.run(7)
        [opened], [response], [closed] = (scene.sink.of(k) for k in (StepOpened, ResponseClosed, StepClosed))
        assert isinstance(opened, StepOpened)
        assert (opened.step, opened.attempt, opened.model, opened.generation) == (7, 1, MODEL, 1)
        for change in (response, closed):
            assert isinstance(change, ResponseClosed | StepClosed)
            assert (change.step, change.attempt, change.message_id) == (7, 1, opened.message_id)
        assert {change.message_id for change in scene.sink.of(PartClosed)} == {opened.message_id}
        assert scene.sink.of(ResultClosed)[0].message_id != opened.message_id

    async def test_the_conversation_grows_by_the_answer_and_the_results(self) -> None:
        scene = Scene(Script([*text("I look."), *call("good", 1), *call("good", 2), usage(), Finish("tool_calls")]))
        await scene.run()
        _, answer, results = scene.conversation.transcript.messages
        [opened], [response] = scene.sink.of(StepOpened), scene.sink.of(ResponseClosed)
        assert (answer.id, answer.role, answer.model) == (opened.message_id, Role.ASSISTANT, MODEL)
        assert answer.seq == scene.sink.seq_of(opened)
        assert answer.finish_reason is FinishReason.TOOL_CALLS
        assert answer.text == "I look."
        assert answer.tokens == response.tokens == PER_MESSAGE + sum(part.tokens for part in answer.parts)
        first = scene.sink.of(ResultClosed)[0]
        assert (results.role, results.id, results.seq) == (Role.TOOL, first.message_id, scene.sink.seq_of(first))
        assert [part.call_id for part in results.tool_results] == [part.call_id for part in answer.tool_calls]
        assert results.tokens == PER_MESSAGE + sum(part.tokens for part in results.parts)

    async def test_the_request_uses_the_providers_name_of_the_model(self) -> None:
        asked: list[str] = []
        script = Script(says())

        def resolve(model: str) -> tuple[Provider, str]:
            asked.append(model)
            return script, "one-2026"

        scene = Scene(script, resolve=resolve)
        await scene.run()
        [request] = script.requests
        own = scene.conversation.request(config())
        assert (asked, request.model) == ([MODEL], "one-2026")
        assert (request.system, request.temperature) == ("You are an agent.", 0.5)
        assert request.max_output_tokens == BUDGET.output_reserve
        assert request.messages is own.messages
        assert request.wire_cache is own.wire_cache
        assert script.open == 0

    async def test_nothing_is_shown_before_the_start_is_committed(self) -> None:
        scene = Scene(Script(says("Well.")))
        scene.sink.held = frozenset({StepOpened})
        running = asyncio.create_task(scene.run())
        await scene.sink.until(StepOpened)
        await turns()
        assert (scene.sink.lives, scene.script.open) == ([], 1)
        scene.sink.commit()
        await running
        assert "".join(piece for _, piece, _ in scene.sink.lives) == "Well."

    async def test_a_final_answer_is_awaited(self) -> None:
        scene = Scene(Script(says()))
        scene.sink.held = frozenset({StepClosed})
        running = asyncio.create_task(scene.run())
        await scene.sink.until(StepClosed)
        await turns()
        assert not running.done()
        scene.sink.commit()
        assert (await running).outcome is Outcome.FINISHED

    async def test_calls_wait_until_their_message_is_committed(self) -> None:
        scene = Scene(Script(calls("hangs")))
        scene.sink.held = frozenset({ResponseClosed})
        running = asyncio.create_task(scene.run())
        await scene.sink.until(ResponseClosed)
        await turns()
        assert not scene.begun.is_set()
        scene.sink.commit()
        await scene.begun.wait()
        scene.interrupt.fire("cancel")
        await running

    async def test_results_are_awaited_and_the_end_of_the_step_is_not(self) -> None:
        scene = Scene(Script(calls("good")))
        scene.sink.held = frozenset({ResultClosed, StepClosed})
        running = asyncio.create_task(scene.run())
        await scene.sink.until(ResultClosed)
        await turns()
        assert not scene.sink.of(StepClosed)
        scene.sink.commit()
        scene.sink.held = frozenset({StepClosed})
        assert (await running).outcome is Outcome.RAN_TOOLS


class TestRetry:
    @pytest.mark.parametrize(
        "failed",
        [
            pytest.param([passing()], id="at once"),
            pytest.param([*text("Half an"), passing()], id="after a part"),
            pytest.param([TextDelta(0, "Half"), passing()], id="within a part"),
        ],
    )
    async def test_a_failed_attempt_is_voided_and_retried(self, failed: Reply) -> None:
        scene = Scene(Script([*failed], says("Whole.")))
        result = await scene.run()
        assert result.outcome is Outcome.FINISHED
        assert re.fullmatch(r"GO (P )?V O P CS", scene.sink.shape)
        first, second = scene.sink.of(StepOpened)
        assert (first.attempt, second.attempt, first.step) == (1, 2, second.step)
        assert first.message_id != second.message_id
        [void] = scene.sink.of(AttemptVoided)
        assert (void.message_id, void.attempt) == (first.message_id, 1)
        assert [m.id for m in scene.conversation.transcript.messages[1:]] == [second.message_id]
        assert scene.conversation.transcript.messages[-1].text == "Whole."
        assert scene.script.sent[0] == scene.script.sent[1], "the same request again"
        assert scene.sink.of(StepClosed)[0].attempt == 2

    async def test_a_stream_without_an_end_is_a_failed_attempt(self) -> None:
        scene = Scene(Script([*text("Half an answer."), usage()]))
        result = await scene.run_until_recorded(AttemptVoided, lambda: scene.interrupt.fire("cancel"))
        assert (result.outcome, scene.sink.shape) == (Outcome.STOPPED, "GO P V S")
        assert "ended before the answer was complete" in scene.sink.of(AttemptVoided)[0].detail

    async def test_reason_and_delay_are_recorded(self) -> None:
        scene = Scene(Script([passing("Busy now.", after_s=0.001)], says()))
        await scene.run()
        [void] = scene.sink.of(AttemptVoided)
        assert (void.code, void.detail, void.delay_ms) == ("provider_overloaded", "Busy now.", 1)

    async def test_log_lines_carry_the_step_until_it_has_ended(self) -> None:
        scene = Scene(Script([passing(after_s=0.001)], says()))
        with capture_logs(processors=[merge_contextvars]) as logs:
            await scene.run(7)
        [said] = [said for said in logs if said["event"] == "step_retrying"]
        first, _ = scene.sink.of(StepOpened)
        assert (said["step"], said["attempt"], said["message_id"]) == (7, 1, first.message_id)
        assert said["detail"] == scene.sink.of(AttemptVoided)[0].detail
        assert not get_contextvars().keys() & {*LOGGED}

    async def test_the_last_of_the_attempts_stays(self) -> None:
        scene = Scene(Script([passing()], [passing()], [TextDelta(0, "Half"), passing("Still busy.")]))
        result = await scene.run()
        assert (result.outcome, code_of(result)) == (Outcome.FAILED, "provider_overloaded")
        assert scene.sink.shape == "GO V O V O P C S"
        response = scene.sink.of(ResponseClosed)[0]
        assert (response.attempt, response.finish_reason, response.error) == (3, FinishReason.ERROR, result.error)
        last = scene.conversation.last
        assert last is not None
        assert (last.text, last.error) == ("Half", result.error)

    @pytest.mark.parametrize("reason", [stop for stop, _, _ in STOPS])
    async def test_stopped_during_the_delay_only_the_step_is_closed(self, reason: StopReason) -> None:
        error = passing(after_s=100)
        scene = Scene(Script([*text("Half"), usage(100, 10), error]))
        result = await scene.run_until_recorded(AttemptVoided, lambda: scene.interrupt.fire(reason))
        assert (result.outcome, result.usage.total_tokens) == (Outcome.STOPPED, 110)
        assert scene.sink.shape == "GO P V S"
        [void], [closed] = scene.sink.of(AttemptVoided), scene.sink.of(StepClosed)
        wait = delay_s(1, error, scene.rng_again(), max_attempts=3)
        assert wait is not None
        assert void.delay_ms == round(wait * 1000)
        assert (closed.message_id, closed.usage) == (void.message_id, result.usage)
        assert closed.finish_reason is {stop: finish for stop, finish, _ in STOPS}[reason]
        assert [message.role for message in scene.conversation.transcript.messages] == [Role.USER]


class TestFailed:
    @pytest.mark.parametrize(
        ("reply", "outcome", "code", "shape"),
        [
            ([ContextOverflowError("Too long.")], Outcome.OVERFLOWED, "context_overflow", "GO C S"),
            ([*text(), Finish("context_overflow")], Outcome.OVERFLOWED, "context_overflow", "GO P C S"),
            ([ProviderError("No.", code="provider_auth")], Outcome.FAILED, "provider_auth", "GO C S"),
            ([TextDelta(0, "a"), ProviderError("No.")], Outcome.FAILED, "provider_error", "GO P C S"),
            ([TextDelta(0, "a"), ZeroDivisionError("secret")], Outcome.FAILED, "internal_error", "GO P C S"),
            ([*call("good"), ContextOverflowError("No.")], Outcome.OVERFLOWED, "context_overflow", "GO P C R S"),
        ],
    )
    async def test_a_permanent_error_ends_the_step(self, reply: Reply, outcome: Outcome, code: str, shape: str) -> None:
        scene = Scene(Script(reply))
        with capture_logs() as logs:
            result = await scene.run()
        assert (result.outcome, code_of(result)) == (outcome, code)
        assert scene.sink.shape == shape
        [response], [closed] = scene.sink.of(ResponseClosed), scene.sink.of(StepClosed)
        assert response.finish_reason is closed.finish_reason is FinishReason.ERROR
        assert response.error == result.error
        assert "secret" not in str(result.error)
        assert errors(logs) == ["model_call_crashed"] * (code == "internal_error")
        assert scene.script.open == 0

    async def test_a_model_that_was_removed(self) -> None:
        def resolve(_: str) -> tuple[Provider, str]:
            raise MissingApiKeyError("acme needs a key.")

        scene = Scene(Script(), resolve=resolve)
        result = await scene.run()
        assert (result.outcome, code_of(result)) == (Outcome.FAILED, "missing_api_key")
        assert scene.sink.shape == "GO C S"
        assert result.usage == Usage()

    async def test_an_unfinished_part_is_kept_as_interrupted(self) -> None:
        scene = Scene(Script([*text("Whole. "), TextDelta(1, "Half"), ProviderError("No.")]))
        await scene.run()
        parts = [change.part for change in scene.sink.of(PartClosed)]
        assert [(p.text, p.interrupted) for p in parts if isinstance(p, TextPart)] == [
            ("Whole. ", False),
            ("Half", True),
        ]

    async def test_an_endless_answer_closes_its_stream(self) -> None:
        scene = Scene(Script([*text("x" * (MAX_ANSWER_BYTES + 1)), Mark.HANGS]))
        result = await scene.run()
        assert (code_of(result), scene.script.open) == ("provider_bad_response", 0)

    async def test_calls_of_a_failed_answer_get_results_without_running(self) -> None:
        scene = Scene(Script([*call("hangs"), ToolCallStart(2, "good"), ProviderError("No.")]))
        await scene.run()
        results = [change.part for change in scene.sink.of(ResultClosed)]
        assert [(part.name, part.status) for part in results] == [
            ("hangs", ToolStatus.INTERRUPTED),
            ("good", ToolStatus.INTERRUPTED),
        ]
        assert not scene.begun.is_set()
        assert all("error outside of the call" in part.output for part in results)
        assert await scene.conversation.settle() is None, "each call has its result"

    async def test_a_crash_among_the_calls_gives_the_others_results(self) -> None:
        made: list[Output] = []

        async def crash() -> None:
            raise OSError("disk")

        def collector() -> Output:
            made.append(Output(storing=crash if not made else None))
            return made[-1]

        scene = Scene(Script(calls("good", "hangs", "hangs_alone")), collector=collector)
        with capture_logs() as logs:
            result = await scene.run()
        assert (result.outcome, code_of(result)) == (Outcome.FAILED, "internal_error")
        assert scene.sink.of(StepClosed)[0].finish_reason is FinishReason.ERROR
        assert len(scene.sink.of(ResultClosed)) == 3
        assert {change.part.status for change in scene.sink.of(ResultClosed)} == {ToolStatus.INTERRUPTED}
        assert errors(logs) == ["tools_crashed"]
        assert await scene.conversation.settle() is None

    @pytest.mark.parametrize("kind", [StepOpened, AttemptVoided, ResponseClosed, ResultClosed])
    @pytest.mark.parametrize("error", [StaleOwnerError("Another."), StorageError("Full.")])
    async def test_a_storage_error_ends_the_run_itself(self, kind: type[Change], error: PalimpsestError) -> None:
        scene = Scene(Script([passing()], calls("good")))
        scene.sink.refused[kind] = error
        with capture_logs() as logs, pytest.raises(type(error)):
            await scene.run()
        assert errors(logs) == []
        assert not scene.sink.of(StepClosed)


class TestStopped:
    @pytest.mark.parametrize(("reason", "finish", "_status"), STOPS)
    async def test_in_the_stream_the_written_text_stays(
        self, reason: StopReason, finish: FinishReason, _status: ToolStatus
    ) -> None:
        scene = Scene(Script([ReasoningDelta(0, "Hm."), TextDelta(1, "Half an"), Mark.HANGS]))
        result = await scene.run_until(scene.script.reached, lambda: scene.interrupt.fire(reason))
        assert (result.outcome, result.error) == (Outcome.STOPPED, None)
        assert scene.sink.shape == "GO P P C S"
        assert [change.finish_reason for change in scene.sink.of(StepClosed)] == [finish]
        assert [change.finish_reason for change in scene.sink.of(ResponseClosed)] == [finish]
        assert all(not isinstance(c.part, TextPart) or c.part.interrupted for c in scene.sink.of(PartClosed))
        last = scene.conversation.last
        assert last is not None
        assert (last.text, last.error) == ("Half an", None)
        assert scene.script.open == 0

    @pytest.mark.parametrize(("reason", "finish", "status"), STOPS)
    async def test_among_the_calls_each_gets_its_result(
        self, reason: StopReason, finish: FinishReason, status: ToolStatus
    ) -> None:
        scene = Scene(Script(calls("good", "hangs", "hangs_alone")))
        result = await scene.run_until(scene.begun, lambda: scene.interrupt.fire(reason))
        assert (result.outcome, result.error) == (Outcome.STOPPED, None)
        assert scene.sink.shape == "GO P P P C R R R S"
        assert scene.sink.of(ResponseClosed)[0].finish_reason is FinishReason.TOOL_CALLS
        assert scene.sink.of(StepClosed)[0].finish_reason is finish
        assert scene.conversation.last is not None
        done, ended, never = scene.conversation.last.tool_results
        assert [part.status for part in (done, ended, never)] == [ToolStatus.COMPLETED, status, status]
        assert ended.output.startswith("half[")
        assert "before it was started" in never.output

    async def test_an_unfinished_call_gets_a_result(self) -> None:
        scene = Scene(Script([ToolCallStart(0, "good"), ToolArgumentsDelta(0, '{"a'), Mark.HANGS]))
        await scene.run_until(scene.script.reached, lambda: scene.interrupt.fire("cancel"))
        assert scene.sink.shape == "GO P C R S"
        [result] = scene.sink.of(ResultClosed)
        assert result.part.status is ToolStatus.CANCELLED
        assert await scene.conversation.settle() is None

    async def test_before_it_began_the_model_is_not_called(self) -> None:
        scene = Scene(Script())
        scene.interrupt.fire("shutdown")
        result = await scene.run()
        assert (result.outcome, result.usage, scene.script.requests) == (Outcome.STOPPED, Usage(), [])
        assert scene.sink.shape == "GO C S"

    async def test_a_client_that_loses_a_cancellation_is_cancelled_again(self) -> None:
        scene = Scene(Script([Mark.DEAF]))
        result = await scene.run_until(scene.script.reached, lambda: scene.interrupt.fire("cancel"))
        assert (result.outcome, scene.script.open) == (Outcome.STOPPED, 0)

    async def test_before_its_start_is_committed_its_seq_is_awaited(self) -> None:
        scene = Scene(Script([*text(), Mark.HANGS]))
        scene.sink.held = frozenset({StepOpened})
        running = asyncio.create_task(scene.run())
        await scene.sink.until(StepOpened)
        await turns()
        scene.interrupt.fire("cancel")
        await turns()
        assert scene.sink.shape == "GO", "the message has no seq yet"
        scene.sink.commit()
        assert (await running).outcome is Outcome.STOPPED
        assert scene.sink.shape == "GO C S"


class TestUsage:
    async def test_the_step_is_priced_and_its_attempts_add_up(self) -> None:
        scene = Scene(Script([*text(), usage(500, 0), passing()], [usage(400), passing()], says(report=usage(300, 30))))
        result = await scene.run()
        assert [change.usage.cost_usd for change in billed(scene)] == [0.5, 0.42, 0.36]
        assert (result.usage.input_tokens, result.usage.output_tokens) == (1200, 40)
        assert result.usage.cost_usd == pytest.approx(1.28)
        assert scene.sink.of(StepClosed)[0].usage == result.usage

    async def test_a_cost_billed_by_the_provider_is_the_price(self) -> None:
        scene = Scene(Script(says(report=usage(1000, 0, cost_usd=0.25))))
        assert (await scene.run()).usage.cost_usd == 0.25

    async def test_an_unknown_price_is_none(self) -> None:
        scene = Scene(Script(says()), cost_usd=lambda *_: None)
        assert (await scene.run()).usage.cost_usd is None

    @pytest.mark.parametrize(
        ("reply", "stop"),
        [
            ([*text("Whole."), Finish("stop")], False),
            ([*text("Whole."), usage(0, 0), Finish("stop")], False),
            ([*text("Wh"), TextDelta(1, "ole"), Mark.HANGS], True),
            ([*text("Whole."), ContextOverflowError("No.")], False),
            ([*text("Whole."), ProviderError("No.")], False),
        ],
    )
    async def test_without_a_report_an_estimate_is_used(self, reply: Reply, stop: bool) -> None:
        scene = Scene(Script(reply))
        if stop:
            result = await scene.run_until(scene.script.reached, lambda: scene.interrupt.fire("cancel"))
        else:
            result = await scene.run()
        read = scene.sink.of(StepOpened)[0].context.tokens
        wrote = sum(change.part.tokens for change in scene.sink.of(PartClosed))
        assert read > estimate_text("You are an agent.")
        assert wrote > 0
        assert (result.usage.input_tokens, result.usage.output_tokens) == (read, wrote)
        assert result.usage.cost_usd == price(MODEL, result.usage)
        assert scene.sink.of(ResponseClosed)[0].usage == result.usage

    @pytest.mark.parametrize("reply", [[ContextOverflowError("No.")], [ProviderError("No.")]])
    async def test_a_model_that_wrote_nothing_used_nothing(self, reply: Reply) -> None:
        assert (await Scene(Script(reply)).run()).usage == Usage()

    async def test_a_crashed_stream_is_billed_too(self) -> None:
        scene = Scene(Script([*text(), usage(100, 10), ZeroDivisionError()]))
        with capture_logs():
            result = await scene.run()
        assert result.usage.total_tokens == 110

    async def test_the_context_is_estimated_before_the_answer_and_reported_after_it(self) -> None:
        scene = Scene(Script(says(report=usage(2_000, 50, cache_read_tokens=900))))
        await scene.run()
        [opened], [closed] = scene.sink.of(StepOpened), scene.sink.of(StepClosed)
        assert opened.context.source == "estimated"
        assert (closed.context.source, closed.context.tokens) == ("reported", 2_950)
        assert (closed.context.limit, closed.context.usable) == (BUDGET.limit, BUDGET.usable)

    async def test_results_are_added_to_what_was_reported(self) -> None:
        scene = Scene(Script(calls("good", report=usage(500, 20))))
        await scene.run()
        assert scene.conversation.last is not None
        assert scene.sink.of(StepClosed)[0].context.tokens == 520 + scene.conversation.last.tokens

    @settings(max_examples=40)
    @given(
        reports=st.lists(st.one_of(st.none(), st.tuples(st.integers(0, 9_999), st.integers(0, 999))), max_size=4),
        parts=st.integers(0, 3),
        asks=st.integers(0, 3),
    )
    async def test_any_step_is_recorded_in_order_and_billed_once(
        self, reports: list[tuple[int, int] | None], parts: int, asks: int
    ) -> None:
        wrote = [event for block in range(parts) for event in text("Text.", block)]
        failed: list[Reply] = [[*wrote, *([usage(*report)] if report else []), passing()] for report in reports]
        asked = [event for block in range(asks) for event in call("good", parts + block)]
        scene = Scene(Script(*failed, [*wrote, *asked, usage(), Finish("stop")]), max_attempts=9)
        result = await scene.run()

        end = rf"C( R){{{asks}}} S" if asks else "CS"
        attempt = rf"O( P){{{parts}}}"
        assert re.fullmatch(rf"G({attempt} V ){{{len(reports)}}}{attempt}( P){{{asks}}} {end}", scene.sink.shape)
        attempts = billed(scene)
        assert [change.attempt for change in attempts] == list(range(1, len(reports) + 2))
        total = sum((change.usage for change in attempts), Usage())
        assert result.usage == total == scene.sink.of(StepClosed)[0].usage
        for change, report in zip(attempts, reports, strict=False):
            if report is not None and report != (0, 0):
                assert (change.usage.input_tokens, change.usage.output_tokens) == report
            elif not parts:
                assert change.usage == Usage()
        assert len(scene.sink.of(GenerationOpened)) == 1
