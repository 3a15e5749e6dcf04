"""What a call gets, what its result says, and what it says if the call was stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from app.agent.approvals import Batch
from app.agent.changes import ResultClosed
from app.agent.interrupt import Interrupt, Stopped
from app.agent.tool_executor import MAX_PARALLEL
from app.context.tokens import estimate_part
from app.errors import ForbiddenError, SandboxError, SandboxUnavailableError, StorageError
from app.messages import ToolCallPart, ToolResultPart, ToolStatus
from app.sandbox.base import Sandbox
from app.sessions import PlanItem
from app.tools.base import ToolContext, ToolOutcome
from tests.unit.agent.scenes import Acting, Output, executor, turns
from tests.unit.agent.scenes import call_part as call
from tests.unit.agent.sinks import KeptSink


async def run_one(act: Any, sink: KeptSink | None = None, **changes: Any) -> ToolResultPart:
    """The result of one call of a tool that does `act`."""
    batch = Batch([call()])
    await executor([Acting("act", act)], sink or KeptSink(), Interrupt(), **changes).run(batch)
    [part] = batch.ordered
    return part


def gives(outcome: ToolOutcome, output: str = "") -> Any:
    async def act(context: ToolContext) -> ToolOutcome:
        context.output.write("stdout", output.encode())
        return outcome

    return act


def raises(error: Exception) -> Any:
    async def act(_: ToolContext) -> None:
        raise error

    return act


class TestContext:
    async def test_a_call_gets_its_id_and_the_timeouts(self) -> None:
        seen: list[ToolContext] = []

        async def act(context: ToolContext) -> None:
            seen.append(context)

        part = await run_one(act)
        assert [(c.call_id, c.command_timeout_s, c.max_command_timeout_s) for c in seen] == [(part.call_id, 60, 600)]

    async def test_a_plan_is_passed_on(self) -> None:
        plans: list[tuple[PlanItem, ...]] = []
        plan = (PlanItem(text="Look."),)

        async def set_plan(items: tuple[PlanItem, ...]) -> None:
            plans.append(items)

        async def act(context: ToolContext) -> None:
            await context.set_plan(plan)

        await run_one(act, set_plan=set_plan)
        assert plans == [plan]

    async def test_the_sandbox_is_started_only_for_tools_that_need_it(self) -> None:
        started: list[Sandbox] = []
        sandbox = cast(Sandbox, object())

        async def source() -> Sandbox:
            started.append(sandbox)
            return sandbox

        async def needs(context: ToolContext) -> None:
            assert await context.sandbox() is sandbox

        assert (await run_one(gives(ToolOutcome()), sandbox=source)).status is ToolStatus.COMPLETED
        assert started == []
        assert (await run_one(needs, sandbox=source)).status is ToolStatus.COMPLETED
        assert started == [sandbox]

    @pytest.mark.parametrize(
        ("error", "said"),
        [
            (SandboxUnavailableError("No engine answers."), "The sandbox is not available now: No engine answers."),
            (SandboxError("It did not start."), "It did not start."),
        ],
    )
    async def test_without_a_sandbox_the_model_gets_an_error(self, error: Exception, said: str) -> None:
        async def source() -> Sandbox:
            raise error

        async def needs(context: ToolContext) -> None:
            await context.sandbox()

        part = await run_one(needs, sandbox=source)
        assert (part.status, part.output) == (ToolStatus.ERROR, f"Error: {said}")

    async def test_a_tool_that_is_not_allowed_is_unknown(self) -> None:
        allowed: list[Sequence[str] | None] = [("other",)]
        ran: list[str] = []

        async def act(context: ToolContext) -> None:
            ran.append(context.call_id)

        tools = [Acting("act", act), Acting("other", act)]
        runner = executor(tools, KeptSink(), Interrupt(), allowed=lambda: allowed[-1])
        refused, taken = Batch([call()]), Batch([call()])
        await runner.run(refused)
        allowed.append(None)
        await runner.run(taken)
        assert ran == [taken.calls[0].call_id]
        [part] = refused.ordered
        assert part.status is ToolStatus.ERROR
        assert part.output.endswith("The tools are: other.")


class TestResult:
    @pytest.mark.parametrize("status", [ToolStatus.COMPLETED, ToolStatus.ERROR])
    @pytest.mark.parametrize("exit_code", [None, 0, 2])
    async def test_it_has_the_tools_outcome(self, status: ToolStatus, exit_code: int | None) -> None:
        part = await run_one(gives(ToolOutcome(status, exit_code, "[note]"), "out\n"))
        assert (part.status, part.exit_code, part.output) == (status, exit_code, "out\n[note]")
        assert (part.name, part.index) == ("act", 0)

    async def test_it_has_what_the_collector_kept(self) -> None:
        sink = KeptSink()
        part = await run_one(gives(ToolOutcome(), "é" * 5), sink, collector=lambda: Output(truncated=True, ref="ab/cd"))
        assert (part.truncated, part.bytes) == (True, 10)
        [change] = sink.of(ResultClosed)
        assert (change.part, change.output_ref) == (part, "ab/cd")

    async def test_it_is_counted_as_it_is_sent(self) -> None:
        part = await run_one(gives(ToolOutcome(), 'a "quoted" word ' * 50))
        assert part.tokens == estimate_part(part) > 200

    @pytest.mark.parametrize(
        "error", [ForbiddenError("Outside the workspace."), StorageError("Full."), SandboxError("Gone.")]
    )
    async def test_a_palimpsest_error_is_shown_to_the_model(self, error: Any) -> None:
        part = await run_one(raises(error))
        assert (part.status, part.output) == (ToolStatus.ERROR, f"Error: {error.detail}")

    async def test_output_written_before_an_error_stays(self) -> None:
        async def act(context: ToolContext) -> None:
            context.output.write("stdout", b"half ")
            raise ForbiddenError("No.")

        assert (await run_one(act)).output == "half Error: No."

    async def test_live_output_names_its_stream(self) -> None:
        async def act(context: ToolContext) -> None:
            context.output.write("stdout", b"out")
            context.output.write("stderr", b"err")

        sink = KeptSink()
        part = await run_one(act, sink)
        assert [(live.part_id, text, stream) for live, text, stream in sink.lives] == [
            (part.id, "out", "stdout"),
            (part.id, "err", "stderr"),
        ]
        assert {(live.call_id, live.name, live.type) for live, _, _ in sink.lives} == {
            (part.call_id, "act", "tool_result")
        }

    async def test_results_are_recorded_as_they_arrive_and_returned_in_the_models_order(self) -> None:
        first_may_end = asyncio.Event()

        async def slow(_: ToolContext) -> None:
            await first_may_end.wait()

        async def quick(_: ToolContext) -> None:
            asyncio.get_running_loop().call_soon(first_may_end.set)

        sink, batch = KeptSink(), Batch([call("slow"), call("quick")])
        await executor([Acting("slow", slow), Acting("quick", quick)], sink, Interrupt()).run(batch)
        assert [change.part.name for change in sink.of(ResultClosed)] == ["quick", "slow"]
        assert [(part.name, part.index) for part in batch.ordered] == [("slow", 0), ("quick", 1)]
        assert [await seq for seq in batch.recorded] == [1, 2]


class TestEnded:
    async def test_abandoned_without_a_reason_the_result_is_an_error(self) -> None:
        sink, batch = KeptSink(), Batch([call("one"), call("two")])
        executor([], sink, Interrupt()).abandon(batch)
        assert [(part.name, part.index, part.status) for part in batch.ordered] == [
            ("one", 0, ToolStatus.INTERRUPTED),
            ("two", 1, ToolStatus.INTERRUPTED),
        ]
        assert {part.output for part in batch.ordered} == {
            "[interrupted by an error outside of the call before it was started]"
        }
        assert all(part.tokens == estimate_part(part) > 0 for part in batch.ordered)
        assert [change.message_id for change in sink.of(ResultClosed)] == [batch.message_id] * 2

    async def test_a_crash_of_one_stops_the_others_with_their_partial_output(self) -> None:
        begun = asyncio.Event()
        outputs = iter([Output(), Output(storing=lambda: crash())])

        async def crash() -> None:
            raise OSError("disk")

        async def hangs(context: ToolContext) -> None:
            context.output.write("stdout", b"half")
            begun.set()
            await asyncio.Event().wait()

        async def ends(_: ToolContext) -> None:
            await begun.wait()

        batch = Batch([call("hangs"), call("ends")])
        runner = executor(
            [Acting("hangs", hangs), Acting("ends", ends)], KeptSink(), Interrupt(), lambda: next(outputs)
        )
        with pytest.raises(ExceptionGroup):
            await runner.run(batch)
        [part] = batch.ordered
        assert (part.name, part.status) == ("hangs", ToolStatus.INTERRUPTED)
        assert part.output.startswith("half[interrupted by an error outside of the call")
        runner.abandon(batch)
        assert [part.name for part in batch.ordered] == ["hangs", "ends"]

    async def stopped(
        self,
        calls: list[ToolCallPart],
        act: Any,
        reached: asyncio.Event,
        then: Callable[[], None] = lambda: None,
        **changes: Any,
    ) -> Batch:
        """A batch that the user cancels once a point is reached; `then` runs after that."""
        interrupt, batch = Interrupt(), Batch(calls)
        runner = executor([Acting("act", act)], KeptSink(), interrupt, **changes)
        guarded = asyncio.create_task(interrupt.guard(runner.run(batch)))
        await reached.wait()
        await turns()
        interrupt.fire("cancel")
        await turns()
        then()
        with pytest.raises(Stopped):
            await guarded
        runner.abandon(batch)
        return batch

    async def test_output_is_stored_before_a_stopped_call_has_its_result(self) -> None:
        begun, stored = asyncio.Event(), []

        async def storing() -> None:
            await asyncio.sleep(0)
            stored.append(True)

        async def act(context: ToolContext) -> None:
            context.output.write("stdout", b"half")
            begun.set()
            await asyncio.Event().wait()

        batch = await self.stopped([call()], act, begun, collector=lambda: Output(storing=storing))
        [part] = batch.ordered
        assert (part.status, stored) == (ToolStatus.CANCELLED, [True])
        assert part.output == "half[cancelled by the user; what it had done until then stays]"

    async def test_a_finished_call_is_not_reported_as_not_started(self) -> None:
        storing_begun, storage = asyncio.Event(), asyncio.Event()

        async def storing() -> None:
            storing_begun.set()
            await storage.wait()

        act = gives(ToolOutcome(exit_code=0), "All files are deleted.")
        batch = await self.stopped([call()], act, storing_begun, storage.set, collector=lambda: Output(storing=storing))
        [part] = batch.ordered
        assert "before it was started" not in part.output

    async def test_a_call_that_waited_for_a_slot_was_not_started(self) -> None:
        begun = asyncio.Event()

        async def act(_: ToolContext) -> None:
            begun.set()
            await asyncio.Event().wait()

        batch = await self.stopped([call() for _ in range(MAX_PARALLEL + 1)], act, begun)
        *ran, waited = batch.ordered
        assert all("what it had done until then stays" in part.output for part in ran)
        assert "before it was started" in waited.output
