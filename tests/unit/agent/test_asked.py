"""What a manual round covers, which budget measures it, and when no model is asked for it."""

from __future__ import annotations

from typing import Any

import pytest

from app.agent.changes import RoundCompleted, RungFailed
from app.agent.compaction.rounds import RoomResult, Round
from app.agent.compaction.triggers import NEWEST_SHARE, ManualRound, Refusal, manual_round, manual_selection, most
from app.context.selection import Selection
from app.context.tokens import counted_tokens
from app.messages import Message, Role, Usage
from tests.unit.agent.rounds import SUMMARY, Tight, settings_of
from tests.unit.context import builders as b

WIDE = b.budget_of(150_000)
"""With it every context here is small: all of it would be a tail."""

REACTIVE, THRESHOLD, HANDOFF = settings_of("reactive"), settings_of("threshold"), settings_of("handoff")


def talk(turns: int, tokens: int = 600) -> list[Message]:
    """A conversation of `turns` turns, each with a call whose output has `tokens` tokens."""
    history: list[Message] = []
    for turn in range(turns):
        seq = 10 * turn + 1
        history += [b.user(seq, f"Request {turn}."), *b.long_step(seq + 1, f"c{turn}", tokens)]
        history.append(b.message(Role.ASSISTANT, seq + 3, b.text(f"Answer {turn}.")))
    return history


def asked(tight: Tight, settings: Any = REACTIVE) -> Round:
    return manual_round(tight.conversation, tight.config, ManualRound(7, settings), tight.budget)


def covered(tight: Tight, settings: Any = REACTIVE) -> Selection:
    found = manual_selection(tight.conversation, asked(tight, settings))
    assert isinstance(found, Selection)
    return found


def refusal(tight: Tight, settings: Any = REACTIVE) -> Refusal:
    found = manual_selection(tight.conversation, asked(tight, settings))
    assert isinstance(found, Refusal)
    return found


class TestTail:
    """How much of a context much smaller than usable stays."""

    @pytest.mark.parametrize(("turns", "kept"), [(9, 2), (3, 2), (2, 1)])
    async def test_the_newest_turns_stay_if_anything_is_older(self, turns: int, kept: int) -> None:
        tight = Tight(history=talk(turns), budget=WIDE)
        tail = covered(tight).tail
        assert [message.text for message in tail if message.role is Role.USER] == [
            f"Request {turn}." for turn in range(turns - kept, turns)
        ]
        assert tail[0].text == f"Request {turns - kept}.", "in full"

    async def test_in_a_single_turn_the_newest_steps_stay(self) -> None:
        tight = Tight(history=b.long_task(20, 600), budget=WIDE)
        tail = covered(tight).tail
        shown = sum(map(counted_tokens, tight.conversation.transcript.messages))
        assert NEWEST_SHARE * shown <= sum(map(counted_tokens, tail)) < (NEWEST_SHARE + 0.1) * shown
        assert [message.id for message in tail] == [m.id for m in tight.conversation.history[-len(tail) :]]

    async def test_turns_too_short_to_free_anything_are_covered_with_newer_ones(self) -> None:
        history = [*talk(2, 10), *[m.model_copy(update={"seq": m.seq + 20, "id": f"n{m.seq}"}) for m in talk(2, 2_000)]]
        tight = Tight(history=history, budget=WIDE)
        assert [message.text for message in covered(tight).tail if message.role is Role.USER] == ["Request 1."]

    async def test_everything_is_covered_only_if_less_would_free_nothing(self) -> None:
        tight = Tight(history=[b.user(1), b.assistant(2, b.text("word " * 2_000))], budget=WIDE)
        assert covered(tight).tail == ()

    async def test_more_turns_than_there_are_is_halved_until_it_frees_something(self) -> None:
        tight = Tight(history=talk(9), budget=WIDE)
        many = settings_of("reactive", min_turns_to_keep=10_000)
        assert sum(message.role is Role.USER for message in covered(tight, many).tail) == 4

    async def test_so_is_the_number_of_messages_of_threshold(self) -> None:
        tight = Tight(history=b.long_task(4, 600), budget=WIDE)
        assert len(tight.conversation.history) == 9
        assert len(covered(tight, THRESHOLD).tail) == 4

    async def test_the_tail_of_the_policy_stays_in_a_large_enough_context(self) -> None:
        tight = Tight(history=b.long_task(60, 1_000), budget=WIDE)
        assert sum(map(counted_tokens, covered(tight).tail)) >= 15_000


class TestBudget:
    async def test_a_round_has_its_own_budget_and_fits_the_sessions(self) -> None:
        tight = Tight(SUMMARY, history=b.long_task(30, 1_000), budget=WIDE)
        for own, wanted in ((b.budget_of(6_000), 6_000), (b.budget_of(900_000), WIDE.usable)):
            round = manual_round(tight.conversation, tight.config, ManualRound(7, HANDOFF), own)
            assert round.budget is own
            assert round.target.tokens == min(most(own, HANDOFF), wanted)

    @pytest.mark.parametrize(("budget", "must"), [(WIDE, False), (b.budget_of(6_000), True)])
    async def test_it_must_be_made_if_the_context_does_not_fit(self, budget: Any, must: bool) -> None:
        assert asked(Tight(history=b.long_task(30, 1_000), budget=budget)).must is must

    async def test_the_compactor_uses_it(self) -> None:
        tight = Tight(SUMMARY, history=b.long_task(30, 1_000), budget=WIDE)
        tight.budgets["threshold"] = b.budget_of(4_000)
        assert await tight.manual(THRESHOLD) is RoomResult.MADE
        [completed] = tight.sink.of(RoundCompleted)
        assert completed.tokens_after <= most(b.budget_of(4_000), THRESHOLD)


class TestNothingSaved:
    @pytest.mark.parametrize("settings", [REACTIVE, THRESHOLD, HANDOFF])
    async def test_no_model_is_asked_if_nothing_would_be_freed(self, settings: Any) -> None:
        tight = Tight(SUMMARY, history=talk(3, 1), budget=WIDE)
        before = tight.snapshot
        assert await tight.manual(settings) is RoomResult.ENOUGH
        [failed] = tight.sink.of(RungFailed)
        assert (failed.code, failed.next, failed.usage) == ("not_small_enough", None, Usage())
        assert "not less than" in failed.detail
        assert f"{tight.conversation.size:,}" in failed.detail
        assert (tight.snapshot, tight.script.requests) == (before, [])

    async def test_nothing_old_enough_is_reported(self) -> None:
        assert refusal(Tight(history=[b.user(1)], budget=WIDE)).code == "nothing_to_compact"

    async def test_a_context_that_is_too_large_is_clipped_anyway(self) -> None:
        """Its last step alone does not fit, and the model has not seen it."""
        history = [b.user(1), *b.long_step(2, "c1", 10), *b.long_step(4, "c2", 12_000)]
        tight = Tight(SUMMARY, history=history)
        assert await tight.manual(REACTIVE) is RoomResult.MADE
        assert tight.sink.of(RoundCompleted)[0].rung == "shrink"
