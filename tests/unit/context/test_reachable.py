"""What is updated as a history grows equals what a look at all of it would give."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.context.checkpoints import reachable
from app.context.facts import Ledger
from app.context.policies import POLICIES, preset
from app.context.projection import project
from app.context.selection import select
from app.messages import Message

from .builders import MODEL, any_history, compute_facts, long_task, working_histories
from .test_compaction_properties import BUDGET, GENERATION, Operation, Session, operations


@given(working_histories(), operations)
def test_contexts_are_made_of_reachable_messages(work: list[Message], happenings: list[Operation]) -> None:
    session = Session(list(work))
    for operation, number in happenings:
        session.apply(operation, number)
    history, checkpoints, pruned = session.history, session.checkpoints, session.pruned
    rows = reachable(history, checkpoints)
    assert project(rows, GENERATION, checkpoints, pruned) == project(history, GENERATION, checkpoints, pruned)
    for policy in POLICIES if history else ():
        found = [
            select(messages, checkpoints, preset(policy), BUDGET, MODEL, pruned=pruned, urgent=True)
            for messages in (history, rows)
        ]
        assert found[0] == found[1]


def test_summarized_messages_are_not_reachable() -> None:
    session = Session(long_task(20, 100))
    for happening in (("work", 40), ("threshold", 0)):
        session.apply(*happening)
    assert session.checkpoints
    assert len(reachable(session.history, session.checkpoints)) < 10 < len(session.history)


@given(any_history, st.integers(0, 12))
def test_facts_of_a_growing_history_equal_those_of_the_whole(history: list[Message], place: int) -> None:
    ledger = Ledger()
    for more in (history[:place], history[place:]):
        ledger.take(more)
    assert ledger.facts((), 2) == compute_facts(history, (), 2)
