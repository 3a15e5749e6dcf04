"""When the compactor acts, in which order of means, when it starts further up the ladder, and what a cancel leaves."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import pytest

from app.agent.changes import ModelUsed, OutputsPruned, RoundCompleted, RoundEnded, RungFailed
from app.agent.compaction.compactor import Compactor
from app.agent.compaction.ladder import RoundSetup
from app.agent.compaction.rounds import RoomResult
from app.agent.compaction.summarizer import MAX_ATTEMPTS
from app.agent.compaction.triggers import CROWDED_ROUNDS, CROWDED_STEPS, LITTLE, NEAR_SHARE, PREPARE_SHARE
from app.agent.conversation import Conversation
from app.agent.record import StoredConversation
from app.context.budget import trigger
from app.context.checkpoints import InForce
from app.context.shrinking import shrunk
from app.context.tokens import Calibration, estimate_text
from app.errors import ProviderError
from app.llm.base import TextDelta, ToolSchema
from app.messages import Message, Usage
from tests.unit.agent.rounds import CLEARING, PROSE, SUMMARY, UNPRUNED, USABLE, Tight, old_turn, settings_of
from tests.unit.agent.scenes import MODEL, Mark, Reply, passing, says, turns, usage
from tests.unit.context import builders as b
from tests.unit.context.strict import faults

REFUSED = says("No.", finish="refusal")
HANGS: Reply = [TextDelta(0, "Half of it."), Mark.HANGS]
WIDE = b.budget_of(150_000)
"""A budget in which only the tested value decides."""

UNCUT = settings_of(prune_exempt_tools=UNPRUNED)


def ahead(**changes: Any) -> Tight:
    """A conversation near its trigger, whose summary is prepared in the background."""
    settings = settings_of(prune_exempt_tools=UNPRUNED, background=True)
    changes.setdefault("history", b.long_task(9, 1_000))
    return Tight(changes.pop("reply", SUMMARY), SUMMARY, settings=settings, **changes)


async def ended(work: Awaitable[RoomResult]) -> RoomResult:
    async with asyncio.timeout(60):
        return await work


class TestDue:
    @pytest.mark.parametrize(("tokens", "room"), [(USABLE, RoomResult.ENOUGH), (USABLE + 1, RoomResult.MADE)])
    async def test_reactive_acts_above_usable(self, tokens: int, room: RoomResult) -> None:
        tight = Tight(SUMMARY, history=b.long_task(5, 1_000))
        tight.reports(tokens)
        assert await tight.make_room() is room
        assert (tight.begun, len(tight.sink.rounds)) == ((1, 1) if room is RoomResult.MADE else (0, 0))
        assert [opening.reason for opening in tight.sink.rounds] == ["overflow"] * tight.begun

    async def test_the_report_counts_and_not_the_estimate(self) -> None:
        tight = Tight(history=b.long_task(40, 1_000))
        tight.reports(USABLE - 100)
        assert tight.conversation.estimate > USABLE, "also by what the report has taught"
        assert await tight.make_room() is RoomResult.ENOUGH

    async def test_the_report_also_counts_in_an_assumed_window(self) -> None:
        assumed = replace(b.budget_of(USABLE), source="assumed")
        tight = Tight(history=b.long_task(40, 1_000), budget=assumed)
        tight.reports(USABLE - 100)
        assert tight.conversation.estimate > USABLE, "also by what the report has taught"
        assert await tight.make_room() is RoomResult.ENOUGH

    async def test_what_came_after_the_report_counts_too(self) -> None:
        tight = Tight(SUMMARY, history=b.long_task(5, 1_000))
        tight.reports(USABLE - 500)
        tight.grow(1)
        assert await tight.make_room() is RoomResult.MADE

    @pytest.mark.parametrize(("less", "room"), [(0, RoomResult.ENOUGH), (1, RoomResult.MADE)])
    async def test_without_a_report_the_estimate_decides(self, less: int, room: RoomResult) -> None:
        size = Tight().conversation.estimate
        tight = Tight(SUMMARY, budget=b.budget_of(size - less))
        assert await tight.make_room() is room

    @pytest.mark.parametrize(("more", "room"), [(1, RoomResult.ENOUGH), (0, RoomResult.MADE)])
    async def test_threshold_acts_at_its_share_of_the_estimate(self, more: int, room: RoomResult) -> None:
        size = Tight(settings=settings_of("threshold")).conversation.estimate
        budget = replace(b.budget_of(40_000), system_reserve=40_000 - 2 * (size + more))
        settings = settings_of("threshold", threshold_percent=0.5)
        tight = Tight(SUMMARY, settings=settings, budget=budget)
        assert trigger(budget, settings) == size + more
        tight.reports(10)
        assert await tight.make_room() is room, "a report does not lower the estimate"
        assert [opening.reason for opening in tight.sink.rounds] == ["threshold"] * (room is RoomResult.MADE)

    @pytest.mark.parametrize(("tokens", "room"), [(4_999, RoomResult.ENOUGH), (5_000, RoomResult.MADE)])
    async def test_handoff_acts_on_the_tokens_of_the_last_call(self, tokens: int, room: RoomResult) -> None:
        tight = Tight(SUMMARY, settings=settings_of("handoff", handoff_threshold=5_000), budget=WIDE)
        tight.reports(tokens)
        assert await tight.make_room() is room
        assert [opening.reason for opening in tight.sink.rounds] == ["threshold"] * (room is RoomResult.MADE)

    @pytest.mark.parametrize(("tokens", "room"), [(USABLE, RoomResult.ENOUGH), (USABLE + 1, RoomResult.MADE)])
    async def test_zero_disables_only_the_early_trigger(self, tokens: int, room: RoomResult) -> None:
        tight = Tight(SUMMARY, settings=settings_of("handoff", handoff_threshold=0))
        tight.reports(tokens)
        assert await tight.make_room() is room
        assert [opening.reason for opening in tight.sink.rounds] == ["overflow"] * (room is RoomResult.MADE)

    @pytest.mark.parametrize(("steps", "room"), [(3, RoomResult.ENOUGH), (12, RoomResult.MADE)])
    async def test_a_report_of_an_older_generation_does_not_count(self, steps: int, room: RoomResult) -> None:
        tight = Tight(SUMMARY, history=b.long_task(steps, 1_000))
        tight.reports(10 * USABLE if room is RoomResult.ENOUGH else 10)
        tight.system = "You are another agent."
        tight.refresh()
        assert await tight.make_room() is room

    async def test_a_context_at_the_trigger_is_still_too_large(self) -> None:
        trial = Tight(SUMMARY, settings=settings_of("handoff", handoff_threshold=9_000), budget=WIDE)
        await trial.make_room()
        size = trial.conversation.estimate
        for limit, rung in ((size, "summary: not_small_enough"), (size + 1, "summary: completed")):
            tight = Tight(SUMMARY, settings=settings_of("handoff", handoff_threshold=limit), budget=WIDE)
            await tight.make_room()
            assert tight.rungs[:1] == [rung]

    async def test_the_result_of_a_round_does_not_trigger_another(self) -> None:
        for settings in (UNCUT, settings_of("threshold"), settings_of("handoff", handoff_threshold=6_000)):
            tight = Tight(SUMMARY, settings=settings)
            assert await tight.make_room() is RoomResult.MADE
            assert await tight.make_room() is RoomResult.ENOUGH
            assert len(tight.sink.rounds) == 1


class TestClearing:
    async def test_clearing_comes_first_and_may_be_enough(self) -> None:
        tight = Tight(settings=settings_of())
        before = tight.conversation.estimate
        assert await tight.make_room() is RoomResult.MADE
        assert tight.sink.shape == "XG"
        [marked] = tight.sink.of(OutputsPruned)
        assert (marked.reason, marked.tokens_before) == ("trigger", before)
        assert marked.tokens_after == tight.conversation.estimate <= USABLE
        assert (tight.script.requests, tight.sink.rounds) == ([], [])

    async def test_insufficient_clearing_comes_with_the_summary(self) -> None:
        tight = Tight(SUMMARY, history=old_turn(120), settings=CLEARING, budget=b.budget_of(3_500))
        before, batch = tight.conversation.estimate, tight.clearable
        assert batch is not None
        assert await tight.make_room() is RoomResult.MADE
        assert tight.sink.shape == "M DXG"
        [completed], [marked] = tight.sink.of(RoundCompleted), tight.sink.of(OutputsPruned)
        assert completed.tokens_after == tight.conversation.estimate
        shown = {part.call_id for message in tight.conversation.transcript.messages for part in message.tool_results}
        assert set(completed.pruned) == set(marked.call_ids) == set(batch.call_ids) & shown
        assert 0 < len(marked.call_ids) < len(batch.call_ids), "what the summary covers needs no mark"
        assert tight.conversation.in_force.pruned == frozenset(completed.pruned)
        saved = sum(output.tokens for output in batch.outputs if output.call_id in shown)
        assert marked.tokens_before - marked.tokens_after == saved < before - completed.tokens_after

    async def test_what_the_summary_covers_is_not_cleared_too(self) -> None:
        tight = Tight(SUMMARY, history=b.long_task(60, 300), settings=settings_of(), budget=b.budget_of(3_500))
        assert tight.clearable is not None
        assert await tight.make_room() is RoomResult.MADE
        assert tight.sink.shape == "M DG"
        assert tight.conversation.in_force.pruned == frozenset()

    @pytest.mark.parametrize("policy", ["threshold", "handoff"])
    async def test_the_other_policies_clear_nothing(self, policy: Any) -> None:
        tight = Tight(SUMMARY, settings=settings_of(policy))
        assert await tight.make_room() is RoomResult.MADE
        assert tight.conversation.in_force.pruned == frozenset()


class TestNothingToDo:
    async def test_threshold_without_anything_old_enough_does_not_loop(self) -> None:
        tight = Tight(history=b.long_task(1, 9_000), settings=settings_of("threshold"))
        assert trigger(tight.budget, tight.settings) < tight.conversation.estimate < USABLE
        before = tight.snapshot
        for step in range(1, 6):
            assert await tight.make_room(step) is RoomResult.ENOUGH
        assert (tight.sink.changes, tight.sink.rounds, tight.script.requests) == ([], [], [])
        assert tight.snapshot == before

    async def test_an_unreachable_threshold_does_not_loop(self) -> None:
        history = [b.user(1, "x" * 34_000), *b.long_task(8, 100)[1:]]
        tight = Tight(history=history, settings=settings_of("threshold"))
        assert trigger(tight.budget, tight.settings) < tight.conversation.estimate < USABLE
        for step in range(1, 6):
            assert await tight.make_room(step) is RoomResult.ENOUGH
        assert (tight.sink.changes, tight.sink.rounds, tight.script.requests) == ([], [], [])

    async def test_a_failed_early_round_does_not_end_the_run(self) -> None:
        settings = settings_of("threshold", threshold_percent=0.5)
        trial = Tight(settings=settings, budget=WIDE)
        *_, least = shrunk(trial.selection())
        floor = trial.candidate(trial.round(), least, "", "shrink").tokens
        # Without any prose the target would just be reached.
        budget = replace(WIDE, system_reserve=WIDE.usable - 2 * (floor + 1))
        tight = Tight(REFUSED, settings=settings, budget=budget)
        before = tight.snapshot
        assert await tight.make_room() is RoomResult.ENOUGH
        assert tight.rungs == [f"{rung}: not_small_enough" for rung in ("summary", "fold", "shrink")]
        assert tight.script.requests == [], "no model is asked in a hopeless case"
        assert tight.snapshot == before

    @pytest.mark.parametrize("policy", ["reactive", "threshold", "handoff"])
    async def test_a_request_that_is_too_large_is_clipped_without_a_model(self, policy: Any) -> None:
        tight = Tight(history=[b.user(1, "x" * 60_000)], settings=settings_of(policy))
        assert await tight.make_room() is RoomResult.MADE
        [completed] = tight.sink.of(RoundCompleted)
        assert (completed.rung, completed.messages_compacted, completed.first_message_id) == ("fold", 0, None)
        assert completed.tokens_after == tight.conversation.estimate <= USABLE
        shown = "".join(message.text for message in tight.conversation.transcript.messages)
        assert 'characters left out here; recall("m1") returns the whole message' in shown
        assert tight.script.requests == []

    async def test_if_nothing_helps_the_largest_part_is_named_with_its_size(self) -> None:
        tight = Tight(history=[b.user(1, "x" * 60_000)])
        tight.system = "x" * 60_000
        tight.refresh()
        assert await tight.make_room() is RoomResult.NONE
        assert tight.compactor.problem is not None
        problem = tight.compactor.problem
        named = (problem["code"], problem["part"], problem["part_tokens"], problem["limit"])
        assert named == ("context_too_large", "system prompt", 15_000, tight.budget.limit)
        assert problem["tokens"] == tight.conversation.estimate
        assert "15,000" in problem["detail"]
        assert (tight.sink.rounds, tight.script.requests) == ([], [])

    @pytest.mark.parametrize("part", ["system prompt", "tool schemas"])
    async def test_what_the_operator_configured_is_named_too(self, part: str) -> None:
        tight = Tight()
        if part == "system prompt":
            tight.system = "x" * 60_000
        else:
            tight.tools = (ToolSchema("run", "x" * 60_000, {}),)
        tight.refresh()
        assert await tight.make_room() is RoomResult.NONE
        assert tight.compactor.problem is not None
        assert tight.compactor.problem["part"] == part
        assert tight.script.requests == [], "no model is asked if no rung can help"

    async def test_a_task_of_most_of_the_window_leaves_room_to_work(self) -> None:
        tight = Tight(SUMMARY, history=[b.user(1, "x" * 31_000), *b.long_task(4, 600)[1:]])
        assert tight.conversation.estimate > USABLE
        assert await tight.make_room() is RoomResult.MADE

    async def test_unanswered_requests_are_never_dropped(self) -> None:
        history = [b.user(1, "x" * 20_000), b.assistant(2, b.text("Done.")), b.user(3, "y" * 28_000)]
        tight = Tight(SUMMARY, history=history)
        assert await tight.make_room() is RoomResult.MADE
        [completed] = tight.sink.of(RoundCompleted)
        assert [message.id for message in tight.conversation.spilled()] == ["m1", "m3"]
        assert completed.checkpoint.kept == ("m1",)
        last = tight.conversation.transcript.messages[-1]
        assert (last.id, last.text[:100], last.text[-100:]) == ("m3", "y" * 100, "y" * 100)
        assert len(last.text) < 28_000
        assert tight.conversation.history[2].text == "y" * 28_000, "the stored message is unchanged"


class TestNotes:
    """Workspace notes are read again for a round, and measured with it."""

    async def test_the_measured_context_is_the_one_sent(self) -> None:
        tight = Tight(SUMMARY)
        tight.system = "You are an agent who has learnt. " * 40
        assert await tight.make_room() is RoomResult.MADE
        assert tight.conversation.generation.system == tight.system.strip()
        [completed] = tight.sink.of(RoundCompleted)
        assert (completed.tokens_after, tight.taken) == (tight.conversation.estimate, 1)

    async def test_a_round_that_notes_make_too_large_climbs_the_ladder_and_keeps_none(self) -> None:
        tight = Tight(SUMMARY)
        before, system = tight.snapshot, tight.conversation.generation.system
        tight.notes = asyncio.Event()
        making = asyncio.create_task(tight.manual(tight.settings))
        await turns()
        tight.system = "x" * 4 * USABLE
        tight.notes.set()
        assert await ended(making) is RoomResult.ENOUGH
        assert tight.rungs == [f"{rung}: not_small_enough" for rung in ("summary", "fold", "shrink")]
        assert (tight.snapshot, tight.conversation.generation.system, tight.taken) == (before, system, 0)


class TestOverflow:
    async def test_the_target_is_a_share_of_the_refused_requests_own_estimate(self) -> None:
        tight = Tight(SUMMARY, budget=WIDE)
        refused = tight.conversation.estimate
        assert await tight.overflow() is RoomResult.MADE
        [opening], [completed] = tight.sink.rounds, tight.sink.of(RoundCompleted)
        assert (opening.reason, opening.tokens_before) == ("provider_overflow", refused)
        assert completed.tokens_before == refused
        assert tight.conversation.estimate <= int(refused * 0.9)

    async def test_a_summary_that_frees_less_is_not_enough(self) -> None:
        history = [*b.long_task(2, 10), *b.long_step(100, "large", 9_000)]
        tight = Tight(SUMMARY, history=history, budget=WIDE, settings=settings_of("threshold"))
        refused = tight.conversation.estimate
        assert await tight.overflow() is RoomResult.MADE
        assert tight.rungs[-1] == "shrink: completed"
        assert "not_small_enough" in tight.rungs[0]
        assert tight.conversation.estimate <= int(refused * 0.9)

    async def test_clipping_follows_if_too_little_is_freed(self) -> None:
        history = [b.user(1), b.assistant(2, b.text("Ready.")), b.user(3, "x" * 36_800)]
        tight = Tight(SUMMARY, history=history)
        while tight.conversation.estimate < USABLE - 350:
            tight.grow(1, 300)
        *_, least = shrunk(tight.selection(urgent=True))
        floor = tight.candidate(tight.round(), least, "", "shrink").tokens
        assert 0.9 * tight.conversation.estimate < floor < tight.conversation.estimate
        refused = tight.conversation.estimate
        assert await tight.overflow() is RoomResult.MADE
        assert tight.conversation.estimate <= int(refused * 0.9)
        assert [message.id for message in tight.conversation.spilled()] == ["m3"]

    async def test_the_target_is_never_above_usable(self) -> None:
        tight = Tight(SUMMARY, budget=b.budget_of(5_000))
        assert await tight.overflow() is RoomResult.MADE
        assert tight.conversation.estimate <= 5_000

    @pytest.mark.parametrize(
        ("asked", "tokens", "kept"),
        [(None, 100, 10), (None, 1_000, 6), (8, 1_000, 8), (10, 1_000, 10), (12, 1_000, 12)],
    )
    async def test_only_the_usual_messages_of_threshold_have_to_fit_into_a_fifth_of_its_trigger(
        self, asked: int | None, tokens: int, kept: int
    ) -> None:
        settings = settings_of("threshold", **({} if asked is None else {"recent_messages_to_keep": asked}))
        tight = Tight(history=b.long_task(20, tokens), settings=settings, budget=b.budget_of(20_000))
        assert trigger(tight.budget, settings) == 16_000
        assert len(tight.selection().tail) == kept

    async def test_threshold_is_not_due_right_after_it(self) -> None:
        tight = Tight(SUMMARY, settings=settings_of("threshold"))
        assert await tight.overflow() is RoomResult.MADE
        assert tight.conversation.estimate < trigger(tight.budget, tight.settings)

    async def test_a_provider_that_refuses_everything_is_not_retried_forever(self) -> None:
        tight = Tight(*[SUMMARY] * 50, budget=WIDE)
        sizes = [tight.conversation.estimate]
        while (room := await tight.overflow()) is RoomResult.MADE:
            sizes.append(tight.conversation.estimate)
            assert sizes[-1] <= int(sizes[-2] * 0.9)
        assert room is RoomResult.NONE
        assert len(sizes) > 2
        assert tight.compactor.problem is not None
        assert len(tight.script.requests) <= len(sizes)


class TestCrowded:
    async def fill(self, tight: Tight, step: int) -> str:
        """Fills the window and compacts it; returns the rung."""
        while tight.conversation.estimate <= tight.budget.usable:
            tight.grow(1, 300)
        assert await tight.make_room(step) is RoomResult.MADE
        return tight.sink.of(RoundCompleted)[-1].rung

    async def test_rounds_in_quick_succession_start_without_a_model_once(self) -> None:
        tight = Tight(*[SUMMARY] * 8)
        rungs = [await self.fill(tight, step) for step in range(1, 8)]
        assert rungs == ["summary", "summary", "summary", "fold", "summary", "summary", "summary"]
        assert CROWDED_ROUNDS == 3
        assert len(tight.script.requests) == rungs.count("summary")

    @pytest.mark.parametrize(
        ("fourth", "rung"), [(CROWDED_STEPS, "fold"), (1 + CROWDED_STEPS, "summary"), (900, "summary")]
    )
    async def test_rounds_far_apart_start_with_a_model(self, fourth: int, rung: str) -> None:
        tight = Tight(*[SUMMARY] * 4)
        for step in (1, 2, 3):
            await self.fill(tight, step)
        assert await self.fill(tight, fourth) == rung

    async def test_two_rounds_that_freed_little_are_enough(self) -> None:
        # The latest request takes most of the window, and stays.
        history = [b.user(1), b.assistant(2, b.text("Ready.")), b.user(3, "x" * 36_800)]
        tight = Tight(*[SUMMARY] * 6, history=history)
        rungs = [await self.fill(tight, 100 * step) for step in range(1, 7)]
        for completed in tight.sink.of(RoundCompleted):
            assert completed.tokens_after > (1 - LITTLE) * completed.tokens_before
        assert rungs[2:] == ["fold", "summary", "summary", "fold"]
        assert len(tight.script.requests) == rungs.count("summary"), "no summary is requested that would free nothing"

    async def test_manual_rounds_do_not_count(self) -> None:
        tight = Tight(*[SUMMARY] * 8)
        for _ in range(4):
            tight.grow(6)
            assert await tight.manual(tight.settings) is RoomResult.MADE
        assert await self.fill(tight, 1) == "summary"


class TestCancel:
    @pytest.mark.parametrize("reason", ["cancel", "shutdown", "limit"])
    async def test_a_cancel_leaves_everything_unchanged(self, reason: Any) -> None:
        tight = Tight(HANGS, history=b.long_task(60, 300), settings=settings_of(), budget=b.budget_of(3_500))
        before = tight.snapshot
        making = asyncio.create_task(tight.make_room())
        await tight.script.reached.wait()
        tight.interrupt.fire(reason)
        assert await ended(making) is RoomResult.STOPPED
        assert tight.snapshot == before
        [used], [cancelled] = tight.sink.of(ModelUsed), tight.sink.of(RoundEnded)
        assert (cancelled.round, cancelled.status, used.round) == (1, "cancelled", 1)
        assert used.usage.output_tokens == estimate_text("Half of it.")
        assert tight.compactor.take_usage() == used.usage, "used tokens stay billed"
        assert tight.script.open == 0

    async def test_a_client_that_loses_a_cancellation_is_cancelled_again(self) -> None:
        tight = Tight([TextDelta(0, "Half of it."), Mark.DEAF])
        before = tight.snapshot
        making = asyncio.create_task(tight.make_room())
        await tight.script.reached.wait()
        tight.interrupt.fire("cancel")
        assert await ended(making) is RoomResult.STOPPED
        assert (tight.snapshot, tight.rungs, tight.script.open) == (before, ["cancelled"], 0)

    @pytest.mark.parametrize("prepared", [False, True])
    async def test_a_cancel_does_not_wait_for_slow_notes(self, prepared: bool) -> None:
        tight = ahead() if prepared else Tight(SUMMARY)
        if prepared:
            await tight.make_room()
            await turns()
            tight.grow(2)
        tight.notes = asyncio.Event()
        before = tight.snapshot
        making = asyncio.create_task(tight.make_room())
        await turns()
        tight.interrupt.fire("cancel")
        assert await ended(making) is RoomResult.STOPPED
        assert (tight.snapshot, tight.rungs) == (before, ["discarded" if prepared else "cancelled"])
        assert tight.taken == 0, "unused notes are not kept"

    async def test_an_interrupting_message_waits_for_it(self) -> None:
        tight = Tight()
        tight.script.replies = [[lambda: tight.interrupt.fire("interrupt"), *SUMMARY]]
        assert await tight.make_room() is RoomResult.MADE
        assert tight.interrupt.reason == "interrupt"

    async def test_the_next_round_has_the_next_number(self) -> None:
        tight = Tight(HANGS, SUMMARY)
        making = asyncio.create_task(tight.make_room())
        await tight.script.reached.wait()
        tight.interrupt.fire("cancel")
        await ended(making)
        tight.interrupt.begin_run()
        assert await tight.make_room() is RoomResult.MADE
        assert [completed.checkpoint.round for completed in tight.sink.of(RoundCompleted)] == [2]


class TestRequests:
    """A summarizer's request is valid whatever state the conversation is in."""

    @pytest.mark.parametrize("policy", ["reactive", "handoff"])
    async def test_a_broken_history_is_repaired_for_it(self, policy: Any) -> None:
        history = b.long_task(12, 1_000)
        del history[4]
        tight = Tight(SUMMARY, history=history, settings=settings_of(policy, prune_exempt_tools=UNPRUNED))
        assert faults(tight.conversation.transcript.messages, MODEL)
        assert await tight.make_room() is RoomResult.MADE
        assert faults(tight.script.sent[0], MODEL) == []
        assert tight.rungs == ["summary: completed"]

    async def test_a_concurrent_step_is_not_in_it(self) -> None:
        tight = ahead()
        messages = list(tight.conversation.transcript.messages)
        await tight.make_room()
        asking = b.long_step(100, "under-way", 10)[0]
        tight.conversation.append(asking)
        await turns()
        assert tight.script.sent[0][:-1] == messages
        assert faults(tight.script.sent[0], MODEL) == []
        await tight.compactor.discard()


class TestCost:
    async def test_cost_is_reported_once(self) -> None:
        tight = Tight(says(PROSE, usage(700, 20)))
        await tight.make_room()
        used = tight.compactor.take_usage()
        assert (used.input_tokens, used.output_tokens) == (700, 20)
        [billed] = tight.sink.of(ModelUsed)
        assert (billed.round, billed.usage) == (tight.sink.of(RoundCompleted)[0].checkpoint.round, used)
        assert tight.compactor.take_usage() == Usage()

    async def test_a_model_that_cannot_help_is_asked_a_limited_number_of_times(self) -> None:
        tight = Tight(*[[passing()]] * 20)
        assert await tight.make_room() is RoomResult.MADE
        assert len(tight.script.requests) == MAX_ATTEMPTS
        assert tight.rungs == ["summary: provider_overloaded", "fold: completed"]


class TestEndOfRun:
    @pytest.mark.parametrize(("steps", "cleared"), [(8, False), (9, True)])
    async def test_outputs_are_cleared_if_the_trigger_is_near(self, steps: int, cleared: bool) -> None:
        tight = Tight(history=b.long_task(steps, 1_000), settings=settings_of())
        before = tight.conversation.estimate
        assert (before >= NEAR_SHARE * USABLE) is cleared
        assert tight.clearable is not None
        await tight.compactor.end_of_run(tight.config)
        assert tight.sink.shape == ("XG" if cleared else "")
        assert [(marked.reason, marked.tokens_before) for marked in tight.sink.of(OutputsPruned)] == [
            ("run_end", before)
        ] * cleared

    @pytest.mark.parametrize("policy", ["threshold", "handoff"])
    async def test_the_other_policies_clear_nothing(self, policy: Any) -> None:
        tight = Tight(settings=settings_of(policy))
        await tight.compactor.end_of_run(tight.config)
        assert tight.sink.changes == []

    @pytest.mark.parametrize("off", [{"prune_at_end": False}, {"auto": False}])
    async def test_clearing_can_be_disabled(self, off: Any) -> None:
        tight = Tight(history=b.long_task(9, 1_000), settings=settings_of(**off))
        assert tight.clearable is not None
        await tight.compactor.end_of_run(tight.config)
        assert tight.sink.changes == []

    async def test_nothing_is_cleared_if_nothing_is_old_enough(self) -> None:
        tight = Tight()
        await tight.compactor.end_of_run(tight.config)
        assert tight.sink.changes == []

    async def test_a_run_without_a_step_has_nothing_to_clean_up(self) -> None:
        tight = Tight(settings=settings_of())
        never = Conversation(StoredConversation(b.long_task(12, 1_000)), (), Calibration(1.0))
        compactor = Compactor(RoundSetup(tight.sink, never, tight.ladder, tight.interrupt, tight._refreshed))
        await compactor.end_of_run(tight.config)
        assert tight.sink.changes == []


class TestPrepared:
    async def test_a_background_summary_is_used_at_the_trigger(self) -> None:
        tight = ahead(reply=says(PROSE, usage(600, 20)))
        assert await tight.make_room() is RoomResult.ENOUGH
        [opening] = tight.sink.rounds
        assert (opening.background, opening.reason, opening.tokens_before) == (
            True,
            "threshold",
            tight.conversation.estimate,
        )
        await turns()
        tight.grow(2)
        before, late = tight.conversation.estimate, tight.conversation.history[-4:]
        assert await tight.make_room() is RoomResult.MADE
        assert (len(tight.script.requests), len(tight.sink.rounds)) == (1, 1)
        [completed] = tight.sink.of(RoundCompleted)
        assert (completed.checkpoint.round, completed.rung, completed.prose) == (1, "summary", PROSE)
        assert (completed.tokens_before, completed.tokens_after) == (before, tight.conversation.estimate)
        assert [used.round for used in tight.sink.of(ModelUsed)] == [1], "billed to its round"
        assert tight.conversation.transcript.messages[-4:] == late, "newer messages stay"
        assert tight.begun == 1

    async def test_an_unfinished_summary_is_awaited(self) -> None:
        gate = asyncio.Event()
        tight = ahead()
        tight.script.replies[0] = [gate.set, *SUMMARY]
        await tight.make_room()
        tight.grow(2)
        assert not gate.is_set()
        assert await ended(tight.make_room()) is RoomResult.MADE
        assert len(tight.script.requests) == 1

    @pytest.mark.parametrize(("steps", "background", "begun"), [(9, True, 1), (9, False, 0), (7, True, 0)])
    async def test_when_a_summary_begins(self, steps: int, background: bool, begun: int) -> None:
        settings = settings_of(prune_exempt_tools=UNPRUNED, background=background)
        tight = Tight(HANGS, history=b.long_task(steps, 1_000), settings=settings)
        assert (tight.conversation.estimate >= PREPARE_SHARE * USABLE) is (steps == 9)
        for step in (1, 2, 3):
            assert await tight.make_room(step) is RoomResult.ENOUGH
            await turns()
        assert (len(tight.sink.rounds), len(tight.script.requests)) == (begun, begun)
        await tight.compactor.discard()

    async def test_nothing_is_prepared_if_clearing_comes_first(self) -> None:
        tight = Tight(history=b.long_task(9, 1_000), settings=settings_of(background=True))
        assert tight.clearable is not None
        assert await tight.make_room() is RoomResult.ENOUGH
        assert tight.sink.rounds == []

    @pytest.mark.parametrize(("exempt", "begun"), [(2, 0), (3, 1)])
    async def test_nothing_is_prepared_if_clearing_may_be_enough_at_the_trigger(self, exempt: int, begun: int) -> None:
        """Of the six outputs before the tail, those of an exempt tool are never cleared. Beyond the protected 3,000
        tokens, minus those that come until then, two of the other four are worth clearing; one of three is not."""
        steps = [b.long_step(2 * n, f"c{n}", 980, name="recall" if n <= exempt else "other") for n in range(1, 10)]
        tight = Tight(HANGS, history=[b.user(1), *itertools.chain(*steps)], settings=settings_of(background=True))
        assert tight.clearable is None
        assert await tight.make_room() is RoomResult.ENOUGH
        assert len(tight.sink.rounds) == begun
        await tight.compactor.discard()

    @pytest.mark.parametrize(("task", "covered", "begun"), [(7_000, 1_500, 0), (5_000, 3_500, 1)])
    async def test_nothing_is_prepared_if_a_summary_would_leave_little_room(
        self, task: int, covered: int, begun: int
    ) -> None:
        settings = settings_of(prune_exempt_tools=UNPRUNED, background=True, tail_tokens=500)
        history = [b.user(1, "x" * 4 * task), *b.long_step(2, "c0", covered), *b.long_task(12, 50)[3:]]
        tight = Tight(HANGS, history=history, settings=settings)
        assert tight.conversation.estimate >= PREPARE_SHARE * USABLE
        assert len(tight.selection().covered) > 2
        assert await tight.make_room() is RoomResult.ENOUGH
        assert len(tight.sink.rounds) == begun
        await tight.compactor.discard()

    async def test_nothing_is_prepared_before_the_agent_calls_tools(self) -> None:
        """The answer to a message may be the run's last."""
        tight = ahead(reply=HANGS, history=[*b.long_task(8, 1_000), b.user(100, "And?")])
        assert await tight.make_room() is RoomResult.ENOUGH
        assert tight.sink.rounds == []
        tight.grow(1, 10)
        assert await tight.make_room() is RoomResult.ENOUGH
        assert len(tight.sink.rounds) == 1
        await tight.compactor.discard()

    async def test_if_all_slots_are_taken_it_begins_when_one_is_free(self) -> None:
        tight = ahead(reply=HANGS)
        tight.background_slots.most = 0
        for step in (1, 2):
            assert await tight.make_room(step) is RoomResult.ENOUGH
        assert (tight.sink.rounds, tight.background_slots.refused) == ([], 2)
        tight.background_slots.most = 1
        assert await tight.make_room(3) is RoomResult.ENOUGH
        assert (len(tight.sink.rounds), tight.background_slots.refused, tight.background_slots.taken) == (1, 2, 1)
        await tight.compactor.discard()
        await turns()
        assert tight.background_slots.taken == 0

    @pytest.mark.parametrize(
        "history", [b.long_task(9, 1_000), b.long_task(7, 1_000)], ids=["may be cleared", "is not near"]
    )
    async def test_a_summary_that_would_not_begin_is_not_refused(self, history: list[Message]) -> None:
        tight = Tight(history=history, settings=settings_of(background=True))
        tight.background_slots.most = 0
        for step in (1, 2, 3):
            assert await tight.make_room(step) is RoomResult.ENOUGH
        assert tight.background_slots.refused == 0

    @pytest.mark.parametrize("restarted", [False, True])
    async def test_after_an_unneeded_summary_half_of_the_remaining_way_must_be_gone(self, restarted: bool) -> None:
        tight = ahead(reply=HANGS, history=b.long_task(8, 1_000))
        await tight.make_room()
        [opening] = tight.sink.rounds
        await tight.compactor.end_of_run(tight.config)
        assert tight.compactor.unused == opening.tokens_before
        if restarted:
            tight.compactor = tight.another_compactor(unused=opening.tokens_before)
        half = (opening.tokens_before + USABLE) // 2
        while tight.conversation.estimate + 100 < half:
            assert await tight.make_room() is RoomResult.ENOUGH
            assert len(tight.sink.rounds) == 1
            tight.grow(1, 50)
        tight.grow(2, 50)
        assert await tight.make_room() is RoomResult.ENOUGH
        assert [opening.background for opening in tight.sink.rounds] == [True, True]
        await tight.compactor.discard()

    async def test_an_unneeded_summary_before_a_round_does_not_delay_the_next(self) -> None:
        tight = ahead(reply=HANGS, history=b.long_task(8, 1_000))
        await tight.make_room()
        await tight.script.reached.wait()
        await tight.compactor.end_of_run(tight.config)
        assert await tight.manual(tight.settings) is RoomResult.MADE
        while tight.conversation.estimate < PREPARE_SHARE * USABLE:
            tight.grow(1, 100)
        tight.script.replies.append(HANGS)
        assert await tight.make_room() is RoomResult.ENOUGH
        assert len(tight.sink.rounds) == 2
        await tight.compactor.discard()

    async def test_its_cost_counts_before_it_is_needed(self) -> None:
        tight = ahead(reply=says(PROSE, usage(600, 20)))
        await tight.make_room()
        await turns()
        assert tight.compactor.take_usage().input_tokens == 600
        tight.grow(2)
        await tight.make_room()
        assert tight.compactor.take_usage() == Usage(), "counted once"

    @pytest.mark.parametrize("change", ["model", "settings", "size"])
    async def test_an_unfit_summary_is_discarded_and_made_again(self, change: str) -> None:
        tight = ahead()
        await tight.make_room()
        await turns()
        match change:
            case "model":
                tight.model = "acme/two"
            case "settings":
                tight.settings = tight.settings.model_copy(update={"profile": "content"})
            case "size":
                tight.grow(10)
        tight.refresh()
        tight.grow(2)
        assert await tight.make_room() is RoomResult.MADE
        assert tight.rungs == ["discarded", "summary: completed"]
        discarded, used = tight.sink.of(RoundEnded)[0], tight.sink.of(ModelUsed)
        completed = tight.sink.of(RoundCompleted)[0].checkpoint.round
        assert (discarded.round, [bill.round for bill in used]) == (1, [1, completed]), "each round is billed"
        assert tight.compactor.take_usage() == used[0].usage + used[1].usage

    async def test_a_revert_discards_it(self) -> None:
        tight = Tight(*[SUMMARY] * 3, settings=settings_of(prune_exempt_tools=UNPRUNED, background=True))
        assert await tight.make_room() is RoomResult.MADE
        tight.grow(1)
        while tight.conversation.estimate < PREPARE_SHARE * USABLE:
            tight.grow(1)
        assert await tight.make_room(2) is RoomResult.ENOUGH
        await turns()
        tight.conversation.revert(InForce())
        tight.refresh()
        assert await tight.make_room(3) is RoomResult.MADE
        assert tight.rungs == ["summary: completed", "discarded", "summary: completed"]
        assert [completed.checkpoint.round for completed in tight.sink.of(RoundCompleted)] == [1, 3]

    async def test_a_revert_during_the_swap_makes_the_context_be_checked_again(self) -> None:
        tight = Tight(*[SUMMARY] * 3, settings=settings_of(prune_exempt_tools=UNPRUNED, background=True))
        assert await tight.make_room() is RoomResult.MADE
        while tight.conversation.estimate < PREPARE_SHARE * USABLE:
            tight.grow(1)
        assert await tight.make_room(2) is RoomResult.ENOUGH
        await turns()
        tight.grow(3)
        tight.compactor.take_usage()
        tight.sink.reverted = InForce()
        assert await tight.make_room(3) is RoomResult.REVERTED
        tight.refresh()
        assert await tight.make_room(3) is RoomResult.MADE
        assert tight.rungs == ["summary: completed", "discarded", "summary: completed"]
        first, last = tight.sink.of(RoundCompleted)
        assert (first.checkpoint.round, last.checkpoint.round, last.base) == (1, 3, ())
        assert first.prose not in tight.script.sent[-1][-1].text
        assert tight.compactor.take_usage() == tight.sink.of(ModelUsed)[-1].usage, "discarded usage was reported before"

    async def test_after_a_failed_summary_the_model_is_asked_when_it_is_due(self) -> None:
        tight = ahead(reply=REFUSED)
        await tight.make_room()
        await turns()
        [failed] = tight.sink.of(RungFailed)
        assert (failed.round, failed.next) == (1, None)
        tight.grow(2)
        assert await tight.make_room() is RoomResult.MADE
        assert tight.rungs == ["summary: summary_refused", "summary: completed"]
        assert tight.compactor.take_usage() == sum((used.usage for used in tight.sink.of(ModelUsed)), Usage())

    async def test_a_failed_summary_is_not_retried_before_it_is_due(self) -> None:
        tight = ahead(reply=REFUSED, history=b.long_task(8, 1_000))
        for step in range(1, 12):
            assert await tight.make_room(step) is RoomResult.ENOUGH
            await turns()
            tight.grow(1, 100)
        assert tight.rungs == ["summary: summary_refused"]
        assert len(tight.script.requests) == 1

    async def test_it_ends_with_the_run(self) -> None:
        tight = ahead(reply=HANGS)
        await tight.make_room()
        await tight.script.reached.wait()
        await tight.compactor.end_of_run(tight.config)
        [discarded], [used] = tight.sink.of(RoundEnded), tight.sink.of(ModelUsed)
        assert (discarded.round, discarded.status, used.round) == (1, "discarded", 1)
        assert tight.script.open == 0
        assert tight.compactor.take_usage() == used.usage

    async def test_a_summary_that_loses_a_cancellation_ends_with_the_run_too(self) -> None:
        tight = ahead(reply=[TextDelta(0, "Half of it."), Mark.DEAF])
        await tight.make_room()
        await tight.script.reached.wait()
        async with asyncio.timeout(60):
            await tight.compactor.end_of_run(tight.config)
        assert (tight.rungs, tight.script.open) == (["discarded"], 0)

    async def test_a_summary_that_has_just_begun_ends_with_the_run_too(self) -> None:
        tight = ahead(reply=HANGS)
        await tight.make_room()
        await tight.compactor.end_of_run(tight.config)
        assert [(round.round, round.status) for round in tight.sink.of(RoundEnded)] == [(1, "discarded")]
        assert tight.script.requests == []

    async def test_a_cancel_while_it_is_awaited(self) -> None:
        tight = ahead(reply=HANGS)
        await tight.make_room()
        await tight.script.reached.wait()
        tight.grow(2)
        before = tight.snapshot
        making = asyncio.create_task(tight.make_room())
        await turns()
        tight.interrupt.fire("cancel")
        assert await ended(making) is RoomResult.STOPPED
        assert (tight.rungs, len(tight.sink.rounds)) == (["discarded"], 1)
        assert (tight.snapshot, tight.script.open) == (before, 0)


class TestAsked:
    async def test_a_manual_round_is_made_whatever_the_size(self) -> None:
        tight = Tight(SUMMARY, history=b.long_task(20, 500), budget=WIDE)
        before = tight.conversation.estimate
        settings = settings_of("threshold")
        assert await tight.manual(settings, "Keep the API decisions.") is RoomResult.MADE
        [completed] = tight.sink.of(RoundCompleted)
        assert (completed.checkpoint.round, completed.tokens_before) == (7, before)
        assert completed.tokens_after == tight.conversation.estimate < before
        assert "Keep the API decisions." in tight.script.sent[0][-1].text
        assert completed.summary.role == "assistant", "by the requested policy"
        assert tight.sink.rounds == [], "its number was assigned before"

    @pytest.mark.parametrize("clears", [True, False])
    async def test_outputs_are_cleared_by_its_own_settings(self, clears: bool) -> None:
        unpruned = settings_of(prune_exempt_tools=UNPRUNED)
        tight = Tight(SUMMARY, history=old_turn(), budget=b.budget_of(3_500))
        tight.settings, asked = (unpruned, CLEARING) if clears else (CLEARING, unpruned)
        assert await tight.manual(asked) is RoomResult.MADE
        [completed] = tight.sink.of(RoundCompleted)
        assert bool(completed.pruned) is clears

    async def test_nothing_to_compact_is_reported(self) -> None:
        tight = Tight(history=[b.user(1)])
        before = tight.snapshot
        assert await tight.manual(tight.settings) is RoomResult.ENOUGH
        [failed] = tight.sink.of(RungFailed)
        assert (failed.round, failed.code, failed.next, failed.usage) == (7, "nothing_to_compact", None, Usage())
        assert tight.snapshot == before

    async def test_a_round_that_frees_nothing_does_not_end_the_run(self) -> None:
        history = [b.user(1, "task"), *[b.assistant(2 + n, b.text("Yes.")) for n in range(14)]]
        tight = Tight(SUMMARY, history=history)
        before = tight.snapshot
        assert await tight.manual(settings_of("threshold")) is RoomResult.ENOUGH
        assert tight.sink.of(RungFailed)[-1].next is None
        assert tight.snapshot == before

    async def test_it_discards_the_background_summary(self) -> None:
        tight = ahead(reply=HANGS)
        await tight.make_room()
        await tight.script.reached.wait()
        assert await tight.manual(tight.settings) is RoomResult.MADE
        assert tight.rungs == ["discarded", "summary: completed"]

    async def test_a_cancel_leaves_the_context_unchanged(self) -> None:
        tight = Tight(HANGS)
        before = tight.snapshot
        making = asyncio.create_task(tight.manual(tight.settings))
        await tight.script.reached.wait()
        tight.interrupt.fire("cancel")
        assert await ended(making) is RoomResult.STOPPED
        assert (tight.snapshot, tight.rungs) == (before, ["cancelled"])


class TestRecount:
    """Under `handoff` the provider can be asked for its own count of the new context."""

    @staticmethod
    def tight(*replies: Any, **changes: Any) -> Tight:
        return Tight(SUMMARY, *replies, settings=settings_of("handoff", **changes))

    async def test_the_count_becomes_the_contexts_size(self) -> None:
        tight = self.tight(says("1", report=usage(1_234, 1)), recount_probe=True)
        assert await tight.make_room() is RoomResult.MADE
        assert tight.script.requests[-1].max_output_tokens == 16
        state = tight.conversation.state(tight.budget)
        assert (state.tokens, state.source) == (1_234, "reported")

    async def test_a_background_summary_is_recounted_too(self) -> None:
        settings = settings_of("handoff", background=True, recount_probe=True)
        probe = says("1", report=usage(1_234, 1))
        tight = Tight(SUMMARY, probe, settings=settings, history=b.long_task(9, 1_000))
        await tight.make_room()
        await turns()
        tight.grow(2)
        assert await tight.make_room() is RoomResult.MADE
        assert [opening.background for opening in tight.sink.rounds] == [True]
        state = tight.conversation.state(tight.budget)
        assert (state.tokens, state.source) == (1_234, "reported")

    async def test_it_is_off_by_default(self) -> None:
        tight = self.tight()
        assert await tight.make_room() is RoomResult.MADE
        assert len(tight.script.requests) == 1
        assert tight.conversation.state(tight.budget).source == "estimated"

    async def test_a_provider_without_a_count_changes_nothing(self) -> None:
        tight = self.tight([ProviderError("No.", code="provider_bad_request")], recount_probe=True)
        assert await tight.make_room() is RoomResult.MADE
        assert tight.conversation.state(tight.budget).source == "estimated"
