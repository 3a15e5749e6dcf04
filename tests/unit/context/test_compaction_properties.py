"""Random whole sessions: work, rounds of compaction under every policy, clearing, shrinking, reverting. In any order,
each context is sound, has the same bytes every time, and is as before once a round is reverted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from app.context.checkpoints import Checkpoint
from app.context.policies import POLICIES, CompactionSettings, resolve
from app.context.projection import Transcript, project
from app.context.selection import Selection, select
from app.context.shrinking import select_prunable, shrunk
from app.messages import Message, Role

from .builders import (
    MODEL,
    any_history,
    budget_of,
    generation,
    message,
    summary_of,
    working_histories,
)
from .strict import faults

GENERATION = generation()
BUDGET = budget_of(9_000, limit=12_000)

Operation = tuple[str, int]
"""An operation, a policy's name for a round of compaction, and a number that determines the details."""

operations = st.lists(
    st.tuples(st.sampled_from([*POLICIES, *POLICIES, "work", "work", "ask", "prune", "revert"]), st.integers(0, 40)),
    max_size=8,
)


@dataclass
class Session:
    """A growing history with its rounds and marks, as a server keeps them."""

    work: list[Message]
    history: list[Message] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    pruned: frozenset[str] = frozenset()
    rounds: int = 0
    asked: int = 0
    """The number of a manual round that is not made yet, 0 without one."""

    def apply(self, operation: str, number: int) -> None:
        match operation:
            case "work":
                self.advance(number)
            case "prune":
                self.prune(number)
            case "ask" if not self.asked:
                self.rounds += 1
                self.asked = self.rounds
            case "ask":
                pass
            case "revert":
                self.checkpoints = self.checkpoints[:-1]
            case policy:
                self.compact(policy, number)

    def advance(self, count: int) -> None:
        """The next messages of the work; a batch is never left open between steps."""
        while self.work and (count > 0 or self.work[0].role is Role.TOOL):
            self.history.append(renumbered(self.work.pop(0), len(self.history) + 1))
            count -= 1

    def prune(self, number: int) -> None:
        wanted = CompactionSettings(
            policy="reactive", prune_protect=number * 50, prune_minimum=0, min_turns_to_keep=number % 3, tail_tokens=300
        )
        batch = select_prunable(self.transcript().messages, wanted, BUDGET, self.pruned)
        if batch is not None:
            self.pruned |= set(batch.call_ids)

    def compact(self, policy: str, number: int) -> None:
        wanted = resolve({"policy": policy, "recent_messages_to_keep": 1 + number % 5, "tail_tokens": number * 50})
        urgent = number % 4 == 0
        found = select(self.history, self.checkpoints, wanted, BUDGET, MODEL, pruned=self.pruned, urgent=urgent)
        if found is None:
            return
        candidates = [found, *shrunk(found)]
        self.add_round(candidates[number % len(candidates)], policy, self._number(is_asked=number % 3 == 0))

    def _number(self, *, is_asked: bool) -> int:
        """A new round's number, or that of the manual round accepted before others were made."""
        if self.asked and is_asked:
            number, self.asked = self.asked, 0
            return number
        self.rounds += 1
        return self.rounds

    def add_round(self, selection: Selection, policy: str, round: int) -> None:
        role = Role.ASSISTANT if policy == "threshold" else Role.USER
        summary = summary_of(round, len(self.history) + 1, role, f"round {round}")
        assert selection.last_seq < summary.seq
        self.history.append(summary)
        self.checkpoints = [
            *self.checkpoints,
            Checkpoint(round, summary.id, selection.first_seq, selection.last_seq, selection.kept, selection.clips),
        ]

    def transcript(self) -> Transcript:
        return Transcript(GENERATION, self.history, self.checkpoints, self.pruned)


def renumbered(stored: Message, seq: int) -> Message:
    """The message with another seq, with the ids that belong to it."""
    fields = {name: getattr(stored, name) for name in ("model", "error", "voided_at")}
    return message(stored.role, seq, *stored.parts, **fields)


def sent(messages: Sequence[Message]) -> list[str]:
    return [message.model_dump_json() for message in messages]


def repairs(transcript: Transcript) -> Counter[str]:
    return Counter(repair.kind for repair in transcript.settle())


@given(working_histories(), operations)
def test_every_context_of_a_sound_session_is_sound_without_repairs(work: list[Message], steps: list[Operation]) -> None:
    session = Session(work)
    session.advance(12)
    for operation in steps:
        session.apply(*operation)
        transcript = session.transcript()
        if transcript.messages and transcript.messages[-1].role is not Role.ASSISTANT:
            assert transcript.settle() == []
            assert faults(transcript.messages, MODEL) == []


@given(any_history, operations)
def test_a_round_needs_no_repair_that_the_history_did_not_need(work: list[Message], steps: list[Operation]) -> None:
    session = Session(list(work))
    session.advance(len(work))
    for operation in steps:
        session.apply(*operation)
        needed = repairs(Transcript(GENERATION, session.history))
        transcript = session.transcript()
        assert repairs(transcript) <= needed
        assert faults(transcript.messages, MODEL) == []


@given(working_histories(), operations)
def test_the_same_values_give_the_same_bytes(work: list[Message], steps: list[Operation]) -> None:
    session = Session(work)
    session.advance(12)
    for operation in steps:
        session.apply(*operation)
    first, second = session.transcript(), session.transcript()
    assert sent(first.messages) == sent(second.messages)
    assert first.tokens == second.tokens == sum(item.tokens for item in first.items)
    again = project([m.model_copy(deep=True) for m in session.history], GENERATION, session.checkpoints, session.pruned)
    assert sent(again.messages) == sent(first.messages)


@given(working_histories(), operations)
def test_no_more_than_one_summary_is_in_force(work: list[Message], steps: list[Operation]) -> None:
    session = Session(work)
    session.advance(12)
    for operation in steps:
        session.apply(*operation)
        messages = session.transcript().messages
        assert [m.id for m in messages if m.is_summary] == [c.summary_message_id for c in session.checkpoints[-1:]]
        assert max(Counter(m.id for m in messages).values(), default=0) <= 1


@given(working_histories(), operations, st.sampled_from(POLICIES), st.integers(0, 40))
def test_a_reverted_round_leaves_no_trace(
    work: list[Message], steps: list[Operation], policy: str, number: int
) -> None:
    session = Session(work)
    session.advance(20)
    for operation in steps:
        session.apply(*operation)
    rounds = len(session.checkpoints)
    before = sent(session.transcript().messages)
    session.compact(policy, number)
    if len(session.checkpoints) > rounds:
        assert sent(session.transcript().messages) != before
        session.apply("revert", 0)
    assert sent(session.transcript().messages) == before


@given(working_histories(), operations, st.integers(0, 40))
def test_within_a_generation_a_context_only_grows(work: list[Message], steps: list[Operation], later: int) -> None:
    session = Session(work)
    session.advance(12)
    for operation in steps:
        session.apply(*operation)
    transcript = session.transcript()
    before, known = sent(transcript.messages), len(session.history)
    session.advance(later)
    for added in session.history[known:]:
        transcript.append(added)
        assert sent(transcript.messages)[: len(before)] == before
    assert sent(transcript.messages) == sent(session.transcript().messages)
    assert [(i.message_id, i.tokens, i.reason) for i in transcript.items] == [
        (i.message_id, i.tokens, i.reason) for i in session.transcript().items
    ]


@given(working_histories(), operations, st.sampled_from(POLICIES), st.integers(0, 40))
def test_a_selection_accounts_for_every_message(
    work: list[Message], steps: list[Operation], policy: str, number: int
) -> None:
    session = Session(work)
    session.advance(12)
    for operation in steps:
        session.apply(*operation)
    wanted = resolve({"policy": policy, "recent_messages_to_keep": 1 + number % 5, "tail_tokens": number * 50})
    found = select(session.history, session.checkpoints, wanted, BUDGET, MODEL, pruned=session.pruned)
    if found is None:
        return
    stored = {m.id for m in session.history}
    shown = [m.id for m in session.transcript().messages if m.id in stored]
    previous = [found.previous.id] if found.previous is not None else []
    told = [m.id for m in found.covered]
    assert set(told) | set(found.kept) | set(previous) | {m.id for m in found.tail} >= set(shown)
    assert shown[len(shown) - len(found.tail) :] == [m.id for m in found.tail]
    assert set(told).isdisjoint([*found.kept, *previous])
    calls = {c.call_id for m in found.tail for c in m.tool_calls}
    assert calls == {r.call_id for m in found.tail for r in m.tool_results}
    assert all(found.first_seq <= old.first_seq and old.last_seq <= found.last_seq for old in session.checkpoints)
