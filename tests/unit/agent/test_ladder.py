"""The ladder: each rung is accepted or refused by measure, reported in order, and committed as the context at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent.changes import GenerationOpened, ModelUsed, OutputsPruned, RoundCompleted, RungFailed
from app.agent.compaction.rounds import ROOMY, SUMMARY_CAP, Candidate, Round, Target, folded, is_hopeless, shortest
from app.agent.compaction.summary_jobs import (
    INSTRUCTION_ROOM,
    LEAST_CAP,
    LEAST_INPUT,
    LEAST_INPUT_SHARE,
    REASONING_ROOM,
)
from app.context.checkpoints import InForce
from app.context.policies import Policy
from app.context.prompts import with_plan
from app.context.selection import Selection
from app.context.shrinking import shrunk
from app.context.summary import prose_of
from app.context.tokens import estimate_text
from app.errors import ProviderError
from app.messages import CompactionMarkerPart, Role, TextPart, Usage
from app.sessions import PlanItem, Rung
from tests.unit.agent.rounds import CLEARING, PROSE, SUMMARY, UNPRUNED, Tight, old_turn, settings_of
from tests.unit.agent.scenes import MODEL, calls, price, says, usage
from tests.unit.agent.sinks import EVENTS_BETWEEN
from tests.unit.context import builders as b

WORDY = says("\n".join(f"- file {number} was written" for number in range(200)))
REFUSED = says("No.", finish="refusal")
OTHER = "other/one"


class Climb(Tight):
    """One round, driven by the test."""

    def measure(self, rung: Rung, prose: str = PROSE, number: int = 1) -> int:
        """Tokens of the context that this prose would make."""
        return self.candidate(self.round(number=number), self.selection(), prose, rung).tokens

    @property
    def folded(self) -> str:
        return folded(self.conversation, self.round(), self.selection()).prose

    async def climb(self, target: int, start: Rung = "summary") -> tuple[Candidate | None, Usage]:
        round = self.round(target)
        summarizer = self.ladder.summarizer(round)
        made = await self.ladder.climb(round, self.selection(), summarizer, start=start)
        return made, summarizer.usage

    async def commit(self, round: Round | None = None, prose: str = PROSE) -> Candidate:
        """Makes a summary the context."""
        round = round or self.round()
        candidate = self.candidate(round, self.selection(), prose, "summary")
        assert await self.ladder.commit(round, candidate)
        return candidate


class TestTarget:
    @given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
    def test_small_enough_and_smaller_than_before(self, tokens: int, before: int, measured: int) -> None:
        assert Target(tokens, before).accepts(measured) is (measured <= tokens and measured < before)

    def test_the_bounds(self) -> None:
        assert Target(10, 20).accepts(10)
        assert not Target(10, 20).accepts(11)
        assert not Target(10, 10).accepts(10)


class TestRungs:
    async def test_a_models_summary_is_used_if_it_fits(self) -> None:
        tight = Climb(says(PROSE, usage(900, 30)))
        candidate, used = await tight.climb(tight.measure("summary"))
        assert candidate is not None
        assert (candidate.rung, candidate.prose, candidate.tokens) == ("summary", PROSE, tight.measure("summary"))
        assert tight.rungs == []
        assert used == Usage(
            input_tokens=900, output_tokens=30, cost_usd=price(MODEL, Usage(input_tokens=900, output_tokens=30))
        )

    async def test_one_token_too_many_and_it_is_folded(self) -> None:
        tight = Climb(WORDY)
        wordy = WORDY[0].text  # type: ignore[union-attr]
        most, folded = tight.measure("summary", wordy), tight.measure("fold", tight.folded)
        assert folded < most
        candidate, used = await tight.climb(most - 1)
        assert candidate is not None
        assert (candidate.rung, candidate.prose, candidate.tokens) == ("fold", tight.folded, folded)
        [failed] = tight.sink.of(RungFailed)
        assert (failed.round, failed.rung, failed.code, failed.next) == (1, "summary", "not_small_enough", "fold")
        assert f"{most:,}" in failed.detail
        assert f"{most - 1:,}" in failed.detail
        assert failed.usage == used

    @pytest.mark.parametrize(
        ("reply", "code"),
        [
            (REFUSED, "summary_refused"),
            (calls("run"), "summary_called_tool"),
            (says(" "), "summary_empty"),
            ([ProviderError("Gone.", code="provider_auth")], "provider_auth"),
        ],
    )
    async def test_without_a_usable_answer_it_is_folded(self, reply: Any, code: str) -> None:
        tight = Climb(reply)
        candidate, used = await tight.climb(8_000)
        assert candidate is not None
        assert (candidate.rung, candidate.prose) == ("fold", tight.folded)
        [failed] = tight.sink.of(RungFailed)
        assert (failed.rung, failed.code, failed.next, failed.usage) == ("summary", code, "fold", used)
        assert used == sum((change.usage for change in tight.sink.of(ModelUsed)), Usage())

    async def test_a_tail_that_is_too_large_is_shrunk(self) -> None:
        tight = Climb(REFUSED)
        folded = tight.measure("fold", tight.folded)
        candidate, _ = await tight.climb(folded - 1)
        assert candidate is not None
        assert (candidate.rung, candidate.prose) == ("shrink", tight.folded)
        assert candidate.tokens < folded
        assert tight.rungs == ["summary: not_small_enough", "fold: not_small_enough"]
        assert tight.script.requests == [], "no model's summary would be shorter"
        assert [failed.next for failed in tight.sink.of(RungFailed)] == ["fold", "shrink"]
        assert tight.sink.of(RungFailed)[1].usage == Usage(), "folding costs nothing"

    async def test_the_first_tail_that_leaves_room_is_used(self) -> None:
        tight = Climb()
        sizes = [
            tight.candidate(tight.round(), smaller, tight.folded, "shrink").tokens
            for smaller in shrunk(tight.selection())
        ]
        assert len(set(sizes)) > 2
        for target in sizes:
            candidate, _ = await tight.climb(target, "shrink")
            assert candidate is not None
            roomy = [size for size in sizes if size <= ROOMY * target]
            assert candidate.tokens == (roomy or sizes[-1:])[0]

    async def test_if_no_rung_helps_the_round_fails(self) -> None:
        tight = Climb(SUMMARY)
        before = tight.snapshot
        candidate, used = await tight.climb(50)
        assert tight.script.requests == []
        assert candidate is None
        assert tight.rungs == [f"{rung}: not_small_enough" for rung in ("summary", "fold", "shrink")]
        assert [failed.next for failed in tight.sink.of(RungFailed)] == ["fold", "shrink", None]
        assert used == Usage()
        assert tight.snapshot == before

    @pytest.mark.parametrize(("start", "rung"), [("fold", "fold"), ("shrink", "shrink")])
    async def test_a_round_that_starts_further_up_asks_no_model(self, start: Rung, rung: Rung) -> None:
        tight = Climb()
        candidate, used = await tight.climb(9_000, start)
        assert candidate is not None
        assert (candidate.rung, used, tight.script.requests, tight.rungs) == (rung, Usage(), [], [])

    @pytest.mark.parametrize(("less", "asked"), [(0, 1), (1, 0)])
    async def test_a_model_is_asked_if_the_shortest_summary_would_be_enough(self, less: int, asked: int) -> None:
        tight = Climb(SUMMARY)
        least = shortest(tight.conversation, tight.round(), tight.selection()).tokens
        assert least < tight.measure("summary")
        await tight.climb(least - less)
        assert len(tight.script.requests) == asked
        failed = tight.sink.of(RungFailed)[0]
        assert (failed.rung, failed.code, failed.next) == ("summary", "not_small_enough", "fold")

    async def test_a_result_that_is_not_smaller_is_reported(self) -> None:
        tight = Climb(SUMMARY)
        size = tight.measure("summary")
        round = replace(tight.round(), target=Target(100_000, size))
        candidate = await tight.ladder.climb(round, tight.selection(), tight.ladder.summarizer(round))
        assert candidate is not None
        [failed, *_] = tight.sink.of(RungFailed)
        assert "not less than before" in failed.detail
        assert candidate.tokens < size


class TestCandidates:
    @pytest.mark.parametrize("policy", ["reactive", "threshold", "handoff"])
    @pytest.mark.parametrize("calibration", [1.0, 1.7])
    async def test_the_measure_is_what_the_context_then_has(self, policy: Policy, calibration: float) -> None:
        tight = Climb(settings=settings_of(policy, prune_exempt_tools=UNPRUNED), calibration=calibration)
        candidate = await tight.commit()
        assert candidate.tokens == tight.conversation.estimate == tight.conversation.state(tight.budget).tokens
        assert await tight.conversation.settle() is None, "the context is valid"

    @pytest.mark.parametrize(
        ("policy", "role"), [("reactive", Role.USER), ("threshold", Role.ASSISTANT), ("handoff", Role.USER)]
    )
    async def test_the_summarys_message(self, policy: Policy, role: Role) -> None:
        tight = Climb(settings=settings_of(policy))
        candidate = tight.candidate(tight.round(number=3), tight.selection(), PROSE, "summary")
        summary = candidate.summary
        assert (summary.role, summary.is_summary, summary.model) == (role, True, MODEL)
        text, marker = summary.parts
        assert isinstance(text, TextPart)
        assert isinstance(marker, CompactionMarkerPart)
        assert (marker.round, candidate.checkpoint.round, candidate.checkpoint.summary_message_id) == (3, 3, summary.id)
        assert prose_of(text.text) == PROSE
        assert ("The user's latest request: the task" in text.text) is (policy == "handoff")

    async def test_measuring_changes_nothing(self) -> None:
        tight = Climb()
        before = tight.snapshot
        tight.measure("summary")
        assert tight.snapshot == before
        assert tight.sink.changes == []

    async def test_hopeless_means_that_the_last_rung_is_not_enough(self) -> None:
        tight = Climb()
        selection = tight.selection()
        *_, least = shrunk(selection)
        floor = tight.candidate(tight.round(), least, "", "shrink").tokens
        assert not is_hopeless(tight.conversation, tight.round(floor), selection)
        assert is_hopeless(tight.conversation, tight.round(floor - 1), selection)


class TestCommit:
    async def test_a_round_is_one_record(self) -> None:
        tight = Climb(history=old_turn(), settings=CLEARING, budget=b.budget_of(3_500), calibration=1.5)
        found = tight.clearable
        round = tight.round(number=4, batch=found)
        selection = tight.selection(round)
        batch = round.batch_beside(selection.covered)
        assert found is not None
        assert batch is not None
        assert set(batch.outputs) < set(found.outputs)
        candidate = tight.candidate(round, selection, PROSE, "summary")
        assert await tight.ladder.commit(round, candidate)
        [(completed, marked, opened)] = tight.sink.records
        assert isinstance(completed, RoundCompleted)
        assert isinstance(marked, OutputsPruned)
        assert isinstance(opened, GenerationOpened)
        assert (completed.checkpoint, completed.summary, completed.rung) == (
            candidate.checkpoint,
            candidate.summary,
            "summary",
        )
        covered = selection.covered
        assert (completed.first_message_id, completed.last_message_id) == (covered[0].id, covered[-1].id)
        assert (completed.messages_compacted, completed.pruned) == (len(covered), batch.call_ids)
        assert (completed.tokens_before, completed.tokens_after) == (round.target.before, candidate.tokens)
        assert completed.prose == PROSE
        assert completed.duration_ms >= 0
        assert (marked.reason, marked.call_ids, marked.tools) == ("trigger", batch.call_ids, batch.tools)
        saved = tight.conversation.calibration.apply(batch.tokens_saved)
        assert (marked.tokens_before, marked.tokens_after) == (round.target.before, round.target.before - saved)
        assert (opened.generation.reason, opened.generation.rounds) == ("checkpoint", (4,))
        assert set(opened.pruned) == set(batch.call_ids)

    async def test_without_marks_none_are_recorded(self) -> None:
        tight = Climb()
        await tight.commit()
        assert tight.sink.shape == "DG"

    async def test_a_shrunk_round_covers_what_it_reports(self) -> None:
        tight = Climb()
        *_, least = shrunk(tight.selection())
        assert len(least.covered) > len(tight.selection().covered)
        round = tight.round()
        candidate = tight.candidate(round, least, PROSE, "shrink")
        await tight.ladder.commit(round, candidate)
        [completed] = tight.sink.of(RoundCompleted)
        assert completed.messages_compacted == len(least.covered)
        assert completed.last_message_id == least.covered[-1].id == tight.conversation.history[-2].id

    async def test_the_context_is_then_the_summary_and_the_tail(self) -> None:
        tight = Climb()
        selection = tight.selection()
        candidate = await tight.commit()
        shown = [message.id for message in tight.conversation.transcript.messages]
        assert shown == ["m1", candidate.summary.id, *(message.id for message in selection.tail)]
        assert len(tight.conversation.history) == 26, "nothing is lost"
        assert (tight.conversation.round, tight.conversation.in_force.checkpoints) == (1, (candidate.checkpoint,))

    async def test_the_summary_has_the_seq_that_it_was_stored_with(self) -> None:
        tight = Climb()
        candidate = await tight.commit()
        last = tight.conversation.history[-1]
        assert (last.id, last.seq) == (candidate.summary.id, candidate.summary.seq + EVENTS_BETWEEN)

    async def test_a_round_with_a_reverted_base_is_discarded_for_what_is_in_force(self) -> None:
        tight = Climb()
        await tight.commit()
        tight.grow(8)
        before = [message.id for message in tight.conversation.history]
        round = tight.round(number=2)
        candidate = tight.candidate(round, tight.selection(round), PROSE, "summary")
        tight.sink.reverted = InForce((), frozenset({"c9"}))
        assert not await tight.ladder.commit(round, candidate)
        assert [message.id for message in tight.conversation.history] == before
        assert tight.conversation.in_force == InForce((), frozenset({"c9"}))
        opened = await tight.conversation.refresh(tight.config)
        assert opened is not None
        assert (opened.generation.reason, opened.generation.number) == ("revert", 3)

    @pytest.mark.parametrize("earlier", [(), (2,)])
    async def test_it_names_the_rounds_that_it_builds_on(self, earlier: tuple[int, ...]) -> None:
        tight = Climb()
        for number in earlier:
            await tight.commit(tight.round(number=number))
            tight.grow(8)
        await tight.commit(tight.round(number=5))
        assert tight.sink.of(RoundCompleted)[-1].base == earlier

    async def test_the_measured_context_is_the_one_sent(self) -> None:
        tight = Climb()
        tight.system = "You are an agent who has learnt. " * 40
        tight.conversation.plan = (PlanItem(text="Look first."),)
        candidate = await tight.commit()
        [opened] = tight.sink.of(GenerationOpened)
        assert opened.generation.system == with_plan(tight.system, tight.conversation.plan)
        assert tight.conversation.request(tight.config).system == opened.generation.system
        assert tight.conversation.estimate == candidate.tokens

    async def test_model_and_tools_change_only_with_the_next_step(self) -> None:
        tight = Climb()
        tight.model = OTHER
        await tight.commit()
        [opened] = tight.sink.of(GenerationOpened)
        assert opened.generation.model == MODEL

    async def test_a_later_round_incorporates_the_earlier_one(self) -> None:
        tight = Climb()
        first = await tight.commit(prose="First.")
        tight.grow(8)
        selection = tight.selection()
        assert selection.previous is not None
        assert selection.previous.id == first.summary.id
        second = await tight.commit(tight.round(number=2), "Second.")
        shown = [message.id for message in tight.conversation.transcript.messages]
        assert second.summary.id in shown
        assert first.summary.id not in shown
        assert "incorporates 1 earlier round" in second.summary.text
        assert "First." not in second.summary.text, "merged by the model, not repeated"

    async def test_clearing_alone_is_one_record(self) -> None:
        tight = Climb(settings=settings_of())
        batch = tight.clearable
        assert batch is not None
        await tight.ladder.prune(tight.config, batch, "run_end", 900, 700)
        assert tight.sink.shape == "XG"
        [marked], [opened] = tight.sink.of(OutputsPruned), tight.sink.of(GenerationOpened)
        assert marked == OutputsPruned("run_end", batch.call_ids, batch.tools, 900, 700)
        assert (opened.generation.reason, set(opened.pruned)) == ("prune", set(batch.call_ids))
        assert tight.conversation.in_force.pruned == frozenset(batch.call_ids)
        assert tight.clearable is None, "what is cleared is not cleared again"


class TestJobs:
    def job(self, tight: Climb, selection: Selection | None = None) -> Any:
        return tight.ladder.job(tight.round(instructions="Keep names."), selection or tight.selection())

    @pytest.mark.parametrize(
        ("policy", "model", "inside"),
        [
            ("reactive", None, True),
            ("handoff", None, True),
            ("threshold", None, True),
            ("threshold", "acme/cheap", False),
            ("reactive", "acme/cheap", False),
        ],
    )
    async def test_where_a_summary_is_requested(self, policy: Policy, model: str | None, inside: bool) -> None:
        tight = Climb(settings=settings_of(policy, model=model))
        job = self.job(tight)
        assert (job.prefix is not None, job.model) == (inside, model or MODEL)
        if job.prefix is not None:
            assert job.prefix == tight.conversation.request(tight.config)
        assert (job.covered, job.task, job.instructions) == (tight.selection().covered, "the task", "Keep names.")

    async def test_the_conversation_must_have_room_for_it(self) -> None:
        least = 2_000 // 3
        needed = Climb().conversation.estimate + INSTRUCTION_ROOM + estimate_text("Keep names.") + least
        assert self.job(Climb(window=needed - 1)).prefix is None
        job = self.job(Climb(window=needed))
        assert job.prefix is not None
        assert job.max_tokens == least, "a shorter summary, since there is no room for a longer one"

    async def test_a_small_window_is_asked_in_small_pieces(self) -> None:
        for window in (4_000, 8_000, 13_000):
            job = self.job(Climb(window=window))
            assert job.prefix is None
            assert job.max_tokens == min(2_000, window // 4)
            assert LEAST_INPUT <= job.input_tokens < window - job.max_tokens - INSTRUCTION_ROOM
        tiny = self.job(Climb(window=1_000))
        assert (tiny.max_tokens, tiny.input_tokens) == (LEAST_CAP, int(1_000 * LEAST_INPUT_SHARE))

    @pytest.mark.parametrize(("cap", "wanted"), [(None, SUMMARY_CAP), (700, 700)])
    async def test_the_cap(self, cap: int | None, wanted: int) -> None:
        assert self.job(Climb(settings=settings_of(summary_max_tokens=cap))).max_tokens == wanted

    async def test_a_model_that_reasons_gets_more_output_tokens(self) -> None:
        history = b.long_task(12, 1_000)
        history[1] = b.assistant(2, b.signed(), b.call("c1"))
        assert self.job(Climb(history=history)).reasoning_tokens == REASONING_ROOM
        assert self.job(Climb()).reasoning_tokens == 0

    async def test_only_the_earlier_prose_is_merged_without_its_facts(self) -> None:
        tight = Climb()
        await tight.commit(tight.round(number=2), "First.")
        tight.grow(8)
        job = self.job(tight)
        assert (job.previous, job.previous_round) == ("First.", 2)
