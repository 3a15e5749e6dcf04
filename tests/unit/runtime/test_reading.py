"""The part of a stored history that is read for a run gives the same results as the whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection

from app.agent.record import Record
from app.context.checkpoints import Checkpoint, gaps
from app.context.policies import POLICIES, preset
from app.context.projection import project
from app.context.selection import select
from app.db.repositories import compactions, messages
from app.db.repositories.messages import add_all
from app.messages import Message, Role, new_id
from app.runtime.agents import PAGE, RECENT, in_force_of, read_outline, read_past, read_shown
from tests.databases import make_database, opened
from tests.unit.context.builders import (
    AT,
    MODEL,
    any_history,
    compute_facts,
    long_task,
    reasoning,
    summary_of,
    working_histories,
)
from tests.unit.context.builders import assistant as answer
from tests.unit.context.test_compaction_properties import BUDGET, GENERATION, Operation, Session, operations, renumbered
from tests.unit.db.rows import add_session


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    path = make_database(tmp_path_factory.mktemp("reading") / "test.db", keep=True)
    with opened(path) as connection:
        yield connection


def stored(connection: Connection, history: Sequence[Message], pruned: frozenset[str] = frozenset()) -> str:
    """Stores a session's history with the marks on cleared outputs; returns its id."""
    session_id = add_session(connection, new_id())
    add_all(connection, session_id, history)
    compactions.mark_pruned(connection, session_id, pruned, AT)
    return session_id


def same_rounds(
    rows: Sequence[Message], whole: Sequence[Message], checkpoints: Sequence[Checkpoint], task_id: str | None
) -> None:
    """Checks that contexts and further rounds come out the same."""
    in_force, of_whole = in_force_of(rows, checkpoints), in_force_of(whole, checkpoints)
    shown, wanted = (
        project(history, GENERATION, checkpoints, known.pruned)
        for history, known in ((rows, in_force), (whole, of_whole))
    )
    assert shown == wanted
    for policy in POLICIES if whole else ():
        for more in ({"urgent": True}, {"spill": True}, {}):
            found, expected = (
                select(
                    history, checkpoints, preset(policy), BUDGET, MODEL, pruned=known.pruned, task_id=task_id, **more
                )
                for history, known in ((rows, in_force), (whole, of_whole))
            )
            assert found == expected


@given(working_histories(), operations, st.booleans(), st.sampled_from([1, 5, RECENT]))
def test_contexts_and_rounds_are_the_same_as_from_the_whole_history(
    connection: Connection, work: list[Message], happenings: list[Operation], has_task: bool, recent: int
) -> None:
    session = Session(list(work))
    for operation, number in happenings:
        session.apply(operation, number)
    session_id = stored(connection, session.history, session.pruned)
    users = [m.id for m in session.history if m.role is Role.USER and not m.is_summary]
    task_id = users[len(users) // 2] if users and has_task else None
    whole = messages.history(connection, session_id)
    rows = read_shown(connection, session_id, session.checkpoints, task_id, recent=recent)
    assert rows[-recent:] == whole[-recent:]
    same_rounds(rows, whole, session.checkpoints, task_id)

    record = Record(rows, session.checkpoints, read_outline(connection, session_id))
    assert (record.first_id, record.writers) == (Record(whole, ()).first_id, Record(whole, ()).writers)
    fewer = session.checkpoints[:-1]
    record.restore(read_shown(connection, session_id, fewer, task_id, recent=recent))
    same_rounds(record.rows(fewer), whole, fewer, task_id)


@given(any_history, st.integers(0, 12))
def test_facts_are_the_same_as_from_the_whole_history(connection: Connection, drawn: list[Message], place: int) -> None:
    history = [renumbered(message, seq) for seq, message in enumerate(drawn, 1)]
    session_id = stored(connection, history[:place])
    read = messages.history(connection, session_id)
    record = Record(read[-2:], (), read_outline(connection, session_id))
    assert record.lacks_past
    record.know(read_past(connection, session_id, read[-1].seq if read else 0))
    for message in history[place:]:
        record.append(message)
    whole = Record(history, ())
    assert record.facts((), 2, None) == whole.facts((), 2, None) == compute_facts(history, (), 2)
    assert record.has_reasoning == whole.has_reasoning


def test_the_past_is_read_page_by_page(connection: Connection) -> None:
    history = long_task(PAGE, 1)
    session_id = stored(connection, [*history, answer(2 * PAGE + 2, reasoning())])
    past = read_past(connection, session_id, history[-1].seq)
    assert past.ledger.facts((), 0) == compute_facts(history, (), 0)
    assert not past.has_reasoning, "that came later"


def test_only_the_ends_of_covered_ranges_are_read(connection: Connection) -> None:
    """The task, the newest messages, and the summary; the work of 2,000 steps is not read."""
    history = long_task(2_000, 1)
    summary = summary_of(1, history[-1].seq + 1)
    session_id = stored(connection, [*history, summary])
    checkpoint = Checkpoint(1, summary.id, 1, history[-1].seq)
    found = read_shown(connection, session_id, [checkpoint], None)
    assert [message.id for message in found] == ["m1", *(m.id for m in [*history, summary][-RECENT:])]


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([], [(0, None)]),
        ([(1, 5)], [(5, None)]),
        ([(3, 5)], [(0, 3), (5, None)]),
        ([(8, 9), (1, 2), (3, 4)], [(4, 8), (9, None)]),
        ([(1, 9), (2, 3)], [(9, None)]),
    ],
)
def test_gaps_between_ranges_are_found(ranges: list[tuple[int, int]], expected: list[tuple[int, int | None]]) -> None:
    assert gaps(ranges) == expected
