"""A conversation: when a generation begins, what stays constant within one, and the size of the context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent.changes import GenerationOpened
from app.agent.conversation import Conversation
from app.agent.protocols import AgentConfig
from app.agent.record import StoredConversation
from app.context.budget import Budget
from app.context.prompts import GenerationReason
from app.context.tokens import Calibration
from app.llm.base import ToolSchema
from app.messages import Message, Role, TextPart, Usage
from app.sessions import PlanItem
from tests.unit.agent.changes import now
from tests.unit.agent.rounds import counted
from tests.unit.agent.scenes import BUDGET, MODEL, config
from tests.unit.context import builders as b

OTHER = "other/two"
TOOL = ToolSchema("look", "Looks.", {"type": "object"})
FACTOR = 2.0


def user(seq: int, value: str = "Please.") -> Message:
    return counted(b.user(seq, value))


def answer(seq: int, *parts: Any, model: str = MODEL) -> Message:
    return counted(b.message(Role.ASSISTANT, seq, *(parts or (b.text("Well."),)), model=model))


def results(seq: int, *call_ids: str) -> Message:
    return counted(b.message(Role.TOOL, seq, *(b.result(call_id) for call_id in call_ids)))


def make(*history: Message, plan: Sequence[PlanItem] = (), factor: float = FACTOR) -> Conversation:
    return Conversation(StoredConversation(history), plan, Calibration(factor))


def started(*history: Message, factor: float = FACTOR) -> Conversation:
    conversation = make(*(history or (user(1),)), factor=factor)
    now(conversation.refresh(config()))
    return conversation


def reported(tokens: int = 500, wrote: int = 50) -> Usage:
    return Usage(input_tokens=tokens - 20, cache_read_tokens=20, output_tokens=wrote)


def answered(conversation: Conversation, message: Message, usage: Usage | None) -> None:
    """What a step does with an answer."""
    if usage is not None:
        conversation.observe(usage)
    conversation.append(message)
    conversation.answered()


OTHER_SYSTEM = "You are another agent."


class TestGenerations:
    @pytest.mark.parametrize(("history", "first_seq"), [((), 1), ((user(4),), 5), ((user(4), answer(9)), 10)])
    def test_the_first_begins_after_the_history(self, history: tuple[Message, ...], first_seq: int) -> None:
        conversation = make(*history)
        assert not conversation.has_generation
        opened = now(conversation.refresh(config(tools=(TOOL,))))
        assert opened == GenerationOpened(conversation.generation)
        generation = conversation.generation
        assert (generation.number, generation.reason, generation.first_seq) == (1, "created", first_seq)
        assert (generation.model, generation.system, generation.tools) == (MODEL, "You are an agent.", (TOOL,))
        assert conversation.has_generation
        assert conversation.transcript.messages == list(history)

    @pytest.mark.parametrize(
        ("changed", "reason"),
        [
            (config(OTHER), "model"),
            (config(tools=(TOOL,)), "tools"),
            (config(system=OTHER_SYSTEM), "system_prompt"),
            (config(OTHER, tools=(TOOL,)), "model"),
            (config(tools=(TOOL,), system=OTHER_SYSTEM), "tools"),
        ],
    )
    def test_a_change_begins_another(self, changed: AgentConfig, reason: GenerationReason) -> None:
        conversation = started()
        before, cache = conversation.generation, conversation.request(config()).wire_cache
        opened = now(conversation.refresh(changed))
        assert opened is not None
        generation = opened.generation
        assert (generation.number, generation.reason) == (2, reason)
        assert generation.id != before.id
        assert (generation.model, generation.tools) == (changed.model, changed.tools)
        assert generation.system == changed.system
        request = conversation.request(changed)
        assert (request.model, request.system, request.tools) == (changed.model, generation.system, changed.tools)
        assert request.wire_cache is not cache
        assert now(conversation.refresh(changed)) is None

    def test_a_changed_plan_begins_none_and_is_in_the_next(self) -> None:
        conversation = make(user(1), plan=[PlanItem(text="Look first.")])
        now(conversation.refresh(config()))
        first = conversation.request(config()).system
        assert first.startswith("You are an agent.\n\n## Your plan\n")
        assert first.endswith("\n- [ ] Look first.")

        conversation.plan = (PlanItem(text="Then leap."),)
        assert now(conversation.refresh(config())) is None
        assert conversation.request(config()).system == first
        opened = now(conversation.refresh(config(tools=(TOOL,))))
        assert opened is not None
        assert opened.generation.system == first.replace("Look first.", "Then leap.")

    @pytest.mark.parametrize("plan", [(), (PlanItem(text="Look first."),)])
    def test_a_stored_generation_continues_with_the_plan_that_it_shows(self, plan: tuple[PlanItem, ...]) -> None:
        before = make(user(1), plan=plan)
        now(before.refresh(config()))
        again = Conversation(
            StoredConversation((user(1),), before.generation), (PlanItem(text="Then leap."),), Calibration()
        )
        assert now(again.refresh(config())) is None
        assert again.request(config()).system == before.generation.system
        opened = now(again.refresh(config(system="You are an agent. Be quick.")))
        assert opened is not None
        assert opened.generation.reason == "system_prompt"
        assert opened.generation.system.endswith("\n- [ ] Then leap.")

    @pytest.mark.parametrize("changed", [config(temperature=0.9), config(budget=Budget(10, 5, 1, 4, "learned"))])
    def test_settings_outside_the_prompt_begin_none_and_are_sent(self, changed: AgentConfig) -> None:
        conversation = started()
        assert now(conversation.refresh(changed)) is None
        request = conversation.request(changed)
        assert (request.temperature, request.max_output_tokens) == (changed.temperature, changed.budget.output_reserve)

    def test_a_stored_generation_continues(self) -> None:
        stored = started(user(1)).generation
        conversation = Conversation(StoredConversation((user(1),), stored), (), Calibration())
        assert conversation.has_generation
        assert now(conversation.refresh(config())) is None
        assert conversation.generation is stored

    def test_another_model_does_not_see_foreign_reasoning(self) -> None:
        conversation = started(user(1), answer(2, b.signed("Hm."), b.text("Well.")), user(3))
        assert len(conversation.transcript.messages[1].parts) == 2
        now(conversation.refresh(config(OTHER)))
        assert [type(part) for part in conversation.transcript.messages[1].parts] == [TextPart]
        now(conversation.refresh(config()))
        assert len(conversation.transcript.messages[1].parts) == 2, "the history still has it"

    @given(later=st.lists(st.sampled_from(["user", "answer", "calls", "nothing"]), max_size=6))
    def test_each_request_adds_to_the_one_before(self, later: list[str]) -> None:
        conversation = started()
        first = conversation.request(config())
        sent = list(first.messages)
        for seq, kind in enumerate(later, 2):
            if kind == "user":
                conversation.append(user(10 * seq))
            elif kind == "answer":
                answered(conversation, answer(10 * seq), reported())
                conversation.append(user(10 * seq + 1))
            elif kind == "calls":
                answered(conversation, answer(10 * seq, b.call(f"c{seq}")), None)
                conversation.append(results(10 * seq + 1, f"c{seq}"))
            assert now(conversation.refresh(config())) is None
            assert now(conversation.settle()) is None
            request = conversation.request(config())
            assert request.messages is first.messages
            assert request.wire_cache is first.wire_cache
            assert list(request.messages[: len(sent)]) == sent
            sent = list(request.messages)
        assert conversation.generation.number == 1


class TestLast:
    def test_an_empty_conversation_has_none(self) -> None:
        assert make().last is None

    def test_before_a_generation_it_is_the_last_of_the_history(self) -> None:
        assert make(user(1), answer(2)).last == answer(2)

    def test_later_it_is_the_last_one_that_the_model_sees(self) -> None:
        conversation = started(user(1))
        conversation.append(answer(2, b.reasoning("Hm.")))
        assert conversation.last == user(1), "reasoning alone says nothing"
        conversation.append(answer(3))
        assert conversation.last == answer(3)

    def test_messages_appended_before_a_generation_are_in_it(self) -> None:
        conversation = make(user(1))
        conversation.append(user(2))
        now(conversation.refresh(config()))
        assert conversation.transcript.messages == [user(1), user(2)]
        assert conversation.generation.first_seq == 3


class TestSetAside:
    @pytest.mark.parametrize("images", [0, 1])
    def test_encoded_messages_stay_unless_they_contain_images(self, images: int) -> None:
        conversation = started(b.message(Role.USER, 1, b.text("look"), *[b.image(8, 8)] * images))
        conversation.request(config()).wire_cache["m1"] = "encoded"
        conversation.set_aside()
        assert conversation.request(config()).wire_cache == ({} if images else {"m1": "encoded"})

    def test_the_size_follows_the_messages(self) -> None:
        conversation = started(user(1))
        before = conversation.set_aside()
        conversation.append(user(2, "word " * 10_000))
        # Its characters, and those of its encoded form.
        assert conversation.set_aside() - before > 100_000 * 0.8
        before = conversation.set_aside()
        conversation.append(b.message(Role.ASSISTANT, 3, b.reasoning(data={"signature": "c2ln" * 5_000})))
        assert conversation.set_aside() - before > 40_000

    def test_what_others_have_learned_of_its_model_counts_when_it_continues(self) -> None:
        conversation = started(user(1))
        conversation.recalibrate({MODEL: Calibration(2.0)}.__getitem__)
        assert conversation.take_calibrations() == {MODEL: Calibration(2.0)}


class TestSettle:
    def broken(self) -> Conversation:
        """A conversation whose last call was never answered."""
        conversation = started(user(1))
        conversation.request(config()).wire_cache["m1"] = "encoded"
        answered(conversation, answer(2, b.call("c1")), reported())
        conversation.append(user(3, "Go on."))
        return conversation

    def test_a_sound_conversation_is_unchanged(self) -> None:
        conversation = started()
        assert now(conversation.settle()) is None
        assert conversation.generation.number == 1

    def test_a_broken_conversation_is_repaired_in_a_new_generation(self) -> None:
        conversation = self.broken()
        before = conversation.generation
        opened = now(conversation.settle())
        assert opened is not None
        after = conversation.generation
        assert opened.generation is after
        assert [(repair.kind, repair.message_id, repair.call_id) for repair in opened.repairs] == [
            ("missing_result", "m2", "c1")
        ]
        assert (after.number, after.reason, after.first_seq) == (2, "repair", 4)
        assert conversation.transcript.generation is after
        assert (after.model, after.system, after.tools) == (before.model, before.system, before.tools)
        roles = [message.role for message in conversation.request(config()).messages]
        assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.USER]
        assert conversation.request(config()).wire_cache == {}
        assert now(conversation.settle()) is None
        assert now(conversation.refresh(config())) is None

    def test_the_repaired_conversation_grows(self) -> None:
        conversation = self.broken()
        now(conversation.settle())
        messages = conversation.request(config()).messages
        conversation.append(user(4, "More."))
        assert conversation.last == user(4, "More.")
        assert conversation.request(config()).messages is messages
        assert (len(messages), now(conversation.settle())) == (5, None)

    def test_earlier_reports_do_not_apply_to_it(self) -> None:
        conversation = self.broken()
        assert conversation.state(BUDGET).source == "reported"
        now(conversation.settle())
        state = conversation.state(BUDGET)
        assert state.source == "estimated"
        assert state.tokens == conversation.calibration.apply(conversation.transcript.request_tokens)

    def test_another_generation_is_made_from_the_history_and_repaired_in_the_same_way(self) -> None:
        conversation = self.broken()
        now(conversation.settle())
        repaired = list(conversation.request(config()).messages)
        now(conversation.refresh(config(OTHER)))
        conversation.request(config(OTHER)).wire_cache["m1"] = "encoded"
        assert now(conversation.settle()) is None
        assert conversation.generation.number == 3
        request = conversation.request(config(OTHER))
        # The previous model's answer is shown to this one too; only the repair is checked here.
        assert [message.id for message in request.messages] == [message.id for message in repaired]
        assert request.wire_cache == {}

    def test_earlier_repairs_are_repeated_silently_after_a_restart(self) -> None:
        before = self.broken()
        opened = now(before.settle())
        assert opened is not None
        repaired = list(before.request(config()).messages)
        history = before.history
        again = Conversation(
            StoredConversation(history, opened.generation, repairs=opened.repairs), (), Calibration(FACTOR)
        )
        assert now(again.refresh(config())) is None
        assert now(again.settle()) is None
        assert (again.generation, again.request(config()).messages) == (opened.generation, repaired)

    def test_later_faults_are_repaired_in_another_generation(self) -> None:
        conversation = self.broken()
        first = now(conversation.settle())
        assert first is not None
        for message in (answer(4, b.call("c2")), user(5)):
            conversation.append(message)
        second = now(conversation.settle())
        assert second is not None
        assert (second.generation.number, second.generation.reason) == (3, "repair")
        assert [repair.call_id for repair in second.repairs] == ["c2"]
        known = (*first.repairs, *second.repairs)
        again = Conversation(
            StoredConversation(conversation.history, second.generation, repairs=known), (), Calibration(FACTOR)
        )
        assert now(again.settle()) is None
        assert again.request(config()).messages == conversation.request(config()).messages


class TestState:
    def test_before_a_report_everything_is_estimated(self) -> None:
        conversation = started(user(1, "Some words."), user(2))
        fixed = conversation.generation.fixed_tokens
        expected = FACTOR * (fixed + user(1, "Some words.").tokens + user(2).tokens)
        state = conversation.state(BUDGET)
        assert (state.tokens, state.source) == (expected, "estimated")
        assert (state.limit, state.usable) == (BUDGET.limit, BUDGET.usable)

    def test_a_report_covers_its_answer(self) -> None:
        conversation = started()
        answered(conversation, answer(2), reported(500, 50))
        state = conversation.state(BUDGET)
        assert (state.tokens, state.source) == (550, "reported")

    def test_a_report_counts_before_its_answer_is_added(self) -> None:
        conversation = started()
        answered(conversation, answer(2), reported(500, 50))
        conversation.append(user(3))
        conversation.observe(reported(700, 10))
        assert conversation.state(BUDGET).tokens == 710

    def test_what_comes_after_a_report_is_estimated_on_top(self) -> None:
        conversation = started()
        answered(conversation, answer(2, b.call("c1")), reported(500, 50))
        conversation.append(results(3, "c1"))
        conversation.append(user(4))
        later = results(3, "c1").tokens + user(4).tokens
        assert conversation.state(BUDGET).tokens == 550 + FACTOR * later

    def test_a_newer_report_replaces_the_older(self) -> None:
        conversation = started()
        answered(conversation, answer(2), reported(500, 50))
        conversation.append(user(3))
        answered(conversation, answer(4), reported(700, 10))
        assert conversation.state(BUDGET).tokens == 710

    def test_an_interrupted_answer_is_estimated(self) -> None:
        conversation = started()
        answered(conversation, answer(2), reported(500, 50))
        conversation.append(user(3))
        conversation.append(answer(4))
        assert conversation.state(BUDGET).tokens == 550 + FACTOR * (user(3).tokens + answer(4).tokens)

    def test_what_the_model_does_not_see_costs_nothing(self) -> None:
        conversation = started()
        answered(conversation, answer(2), reported(500, 50))
        conversation.append(answer(3, b.reasoning("Hm.")))
        conversation.append(answer(4, b.reasoning("Hm."), b.text("Well."), model=OTHER))
        assert conversation.state(BUDGET).tokens == 550 + FACTOR * answer(4).tokens

    def test_without_any_report_an_answer_is_estimated(self) -> None:
        conversation = started()
        before = conversation.state(BUDGET).tokens
        answered(conversation, answer(2), None)
        state = conversation.state(BUDGET)
        assert (state.tokens, state.source) == (before + FACTOR * answer(2).tokens, "estimated")

    def test_an_answer_without_a_report_after_one_with_is_estimated(self) -> None:
        conversation = started()
        answered(conversation, answer(2), reported(500, 50))
        conversation.append(user(3))
        answered(conversation, answer(4), None)
        assert conversation.state(BUDGET).tokens == 550 + FACTOR * (user(3).tokens + answer(4).tokens)

    @pytest.mark.parametrize("changed", [config(OTHER), config(tools=(TOOL,)), config(system=OTHER_SYSTEM)])
    def test_another_generation_begins_with_an_estimate(self, changed: AgentConfig) -> None:
        conversation = started()
        answered(conversation, answer(2), reported(500, 50))
        now(conversation.refresh(changed))
        conversation.append(user(3))
        state = conversation.state(BUDGET)
        assert state.source == "estimated"
        assert state.tokens == conversation.calibration.apply(conversation.transcript.request_tokens)

    def test_an_assumed_window_makes_the_state_assumed(self) -> None:
        conversation = started()
        budget = Budget(128_000, 8_000, 2_000, 118_000, "assumed")
        assert conversation.state(budget).source == "assumed"
        answered(conversation, answer(2), reported(500, 50))
        state = conversation.state(budget)
        assert (state.source, state.tokens, state.limit) == ("assumed", 550, 128_000)

    @pytest.mark.parametrize(("until", "later"), [(0, (1, 2, 3)), (2, (3,)), (3, ())])
    def test_a_stored_report_covers_the_messages_before_it(self, until: int, later: tuple[int, ...]) -> None:
        history = {1: user(1), 2: answer(2), 3: user(3, "More, and longer.")}
        stored = started().generation
        conversation = Conversation(
            StoredConversation(list(history.values()), stored, Usage(input_tokens=900), reported_until=until),
            (),
            Calibration(FACTOR),
        )
        now(conversation.refresh(config()))
        state = conversation.state(BUDGET)
        assert state.source == "reported"
        assert state.tokens == 900 + FACTOR * sum(history[seq].tokens for seq in later)
        conversation.append(user(4))
        assert conversation.state(BUDGET).tokens == state.tokens + FACTOR * user(4).tokens

    def test_a_stored_generation_without_a_report_is_estimated(self) -> None:
        stored = started().generation
        conversation = Conversation(StoredConversation((user(1),), stored, reported_until=1), (), Calibration(FACTOR))
        state = conversation.state(BUDGET)
        assert (state.source, state.tokens) == ("estimated", FACTOR * (stored.fixed_tokens + user(1).tokens))

    @given(asks=st.lists(st.tuples(st.booleans(), st.integers(1, 40)), max_size=8))
    def test_the_size_is_always_the_last_report_plus_what_came_since(self, asks: list[tuple[bool, int]]) -> None:
        conversation = started(factor=1.0)
        expected = conversation.state(BUDGET).tokens
        for seq, (reports, size) in enumerate(asks, 1):
            if reports:
                answered(conversation, answer(10 * seq), reported(size + 20, size))
                expected = 2 * size + 20
            said = user(10 * seq + 1, "word " * size)
            conversation.append(said)
            expected += said.tokens
        assert conversation.state(BUDGET).tokens == expected


class TestCalibration:
    def test_a_report_corrects_the_estimate(self) -> None:
        conversation = started(user(1, "x" * 4_000))
        estimated = conversation.transcript.request_tokens
        conversation.observe(Usage(input_tokens=1_000, cache_read_tokens=300, cache_write_tokens=200, output_tokens=9))
        assert conversation.calibration == Calibration(1_500 / estimated)

    def test_a_small_prompt_teaches_little(self) -> None:
        conversation = started(user(1))
        conversation.observe(reported(999))
        assert conversation.calibration == Calibration(FACTOR)

    def test_what_was_learned_applies_at_once(self) -> None:
        conversation = started(user(1, "x" * 4_000))
        estimated = conversation.transcript.request_tokens
        answered(conversation, answer(2), Usage(input_tokens=3 * estimated))
        conversation.append(user(3))
        assert conversation.state(BUDGET).tokens == 3 * estimated + 3 * user(3).tokens

    def test_each_model_has_its_own(self) -> None:
        conversation = started(user(1, "x" * 4_000))
        conversation.observe(Usage(input_tokens=3_000))
        learnt = conversation.calibration
        now(conversation.refresh(config(OTHER)))
        assert conversation.calibration != learnt


class TestCuts:
    """Prompts that the server silently truncated: see `test_truncation` for the criteria."""

    def long(self, *more: Message) -> Conversation:
        """A conversation whose first prompt of about 4,000 tokens was read whole."""
        conversation = started(user(1, "word " * 3_200), factor=1.0)
        answered(conversation, answer(2, b.signed(), b.call("c1")), reported(4_000))
        conversation.append(results(3, "c1"))
        for message in more:
            conversation.append(message)
        return conversation

    def test_a_smaller_count_is_a_cut(self) -> None:
        conversation = self.long()
        assert conversation.was_truncated(reported(3_000))
        assert not conversation.was_truncated(reported(4_100))
        assert conversation.known_to_fit(reported(3_000, wrote=10)) == 4_050

    def test_in_another_generation_it_is_not(self) -> None:
        conversation = self.long()
        now(conversation.refresh(config(system=OTHER_SYSTEM)))
        assert not conversation.was_truncated(reported(3_000))
        assert conversation.known_to_fit(reported(3_000, wrote=10)) == 3_010

    @pytest.mark.parametrize("message", [user(4), counted(b.control(4))])
    def test_after_a_user_message_reasoning_may_be_gone(self, message: Message) -> None:
        assert not self.long(message).was_truncated(reported(3_000))

    def test_without_reasoning_nothing_may_be_gone(self) -> None:
        conversation = started(user(1, "word " * 3_200), factor=1.0)
        answered(conversation, answer(2), reported(4_000))
        conversation.append(user(3))
        assert conversation.was_truncated(reported(3_000))

    @pytest.mark.parametrize(
        ("text", "counted", "cut"),
        [("word " * 8_000, 4_000, True), ("слово " * 8_000, 9_000, False), ("total" + " " * 40_000, 700, False)],
    )
    def test_the_first_count_is_judged_by_the_texts_minimum(self, text: str, counted: int, cut: bool) -> None:
        conversation = started(user(1, text), factor=1.0)
        assert counted < 0.45 * conversation.transcript.request_tokens
        assert conversation.was_truncated(reported(counted)) == cut
