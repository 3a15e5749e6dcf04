"""The seqs of the changes of a run: 1, 2, 3 … for any sequence of them, whoever else writes in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from app.agent.changes import (
    CallsAwaited,
    CallsHeld,
    CallsReleased,
    Change,
    ControlAdded,
    GenerationOpened,
    ModelUsed,
    OutputsPruned,
    PlanChanged,
    RoundCompleted,
    RoundEnded,
    RoundOpening,
    RungFailed,
    SummaryDelayed,
)
from app.agent.conversation import control_message
from app.context.checkpoints import Checkpoint
from app.context.prompts import Generation
from app.eventlog.log import StreamItem
from app.messages import ReasoningPart, ToolCallPart, Usage, new_id
from app.runtime.transactions import compactions
from app.runtime.transactions.changes import commit_changes
from app.sessions import PlanItem
from tests.unit.db.rows import add_session, new_database
from tests.unit.runtime.stage import Attempt, Stage, call_part, logged, result_of, summary_of, text_part

ROUND = 1


class Story:
    """Makes changes that may follow each other in any order: each one that needs a step or a call uses a new one,
    and those of a round use the same one."""

    def __init__(self) -> None:
        self._steps = 0
        self._generations = 0

    def generation(self) -> list[Change]:
        self._generations += 1
        return [GenerationOpened(Generation(new_id(), self._generations, "scripted/demo", "system", (), 1))]

    def _attempt(self) -> Attempt:
        self._steps += 1
        return Attempt(step=self._steps)

    def answer(self) -> list[Change]:
        return self._attempt().whole()

    def reasoning(self) -> list[Change]:
        attempt = self._attempt()
        part = ReasoningPart(id=new_id(), index=0, text="Hm.")
        return [attempt.opened, *attempt.wrote(part), attempt.voided()]

    def _called(self, count: int) -> tuple[Attempt, list[ToolCallPart], list[Change]]:
        attempt = self._attempt()
        calls = [call_part(index) for index in range(count)]
        return attempt, calls, [attempt.opened, *attempt.wrote(text_part("a"), *calls), attempt.answered()]

    def calls(self) -> list[Change]:
        attempt, calls, changes = self._called(2)
        message_id = new_id()
        results = [result_of(call, message_id, index) for index, call in enumerate(calls)]
        return [*changes, *results, attempt.closed()]

    def held(self) -> list[Change]:
        attempt, calls, changes = self._called(3)
        held = CallsHeld(attempt.message_id, tuple(calls[1:]), None)
        return [*changes, held, CallsReleased(attempt.message_id)]

    def awaited(self) -> list[Change]:
        attempt, calls, changes = self._called(3)
        return [*changes, CallsAwaited(attempt.message_id, tuple((call, 60.0) for call in calls[:2]))]

    def control(self) -> list[Change]:
        return [ControlAdded(control_message("limit"))]

    def plan(self) -> list[Change]:
        return [PlanChanged((PlanItem(text="Test.", status="pending"),))]

    def pruned(self) -> list[Change]:
        return [OutputsPruned("run_end", (new_id(),), ("run",), 20, 10)]

    def spent(self) -> list[Change]:
        return [ModelUsed("scripted/demo", Usage(output_tokens=1), ROUND)]

    def failed(self) -> list[Change]:
        return [RungFailed(ROUND, "summary", "not_small_enough", "It is too large.", Usage(), None)]

    def delayed(self) -> list[Change]:
        return [SummaryDelayed(ROUND, 1, 500, "provider_unreachable", "The connection failed.")]

    def ended(self) -> list[Change]:
        return [RoundEnded(ROUND, "discarded")]

    def completed(self) -> list[Change]:
        summary = summary_of(ROUND)
        checkpoint = Checkpoint(ROUND, summary.id, 1, 1, (), ())
        return [RoundCompleted(checkpoint, (), summary, "summary", None, None, 1, (), 20, 10, "It went well.", 5)]


MAKERS: list[Callable[[Story], list[Change]]] = [
    Story.generation,
    Story.answer,
    Story.reasoning,
    Story.calls,
    Story.held,
    Story.awaited,
    Story.control,
    Story.plan,
    Story.pruned,
    Story.spent,
    Story.failed,
    Story.delayed,
    Story.ended,
    Story.completed,
]


def test_all_changes_are_made() -> None:
    story = Story()
    assert {type(change) for make in MAKERS for change in make(story)} == set(get_args(Change))


class Refused(Exception):
    """The failure of a write after its events."""


async def refuse(stage: Stage, changes: list[Change]) -> None:
    """A write that fails, and so takes no seq."""

    def work(connection: Connection) -> None:
        commit_changes(connection, stage.session_id, 0, changes)
        raise Refused

    with pytest.raises(Refused):
        await stage.database.writer.write(work)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.lists(st.sampled_from(MAKERS), max_size=4), st.booleans(), st.booleans()), max_size=6))
@pytest.mark.slow
async def test_any_sequence_of_changes_leaves_no_gap(
    tmp_path_factory: pytest.TempPathFactory,
    commits: list[tuple[list[Callable[[Story], list[Change]]], bool, bool]],
) -> None:
    """In commits of any size, with others that fail and with messages that users post in between."""
    path = tmp_path_factory.mktemp("changes")
    async with new_database(path) as database:
        session_id = await database.writer.write(add_session)
        stage, story = Stage(database, session_id, path / "test.db"), Story()
        published: list[StreamItem] = []
        stage.observers.append(published.extend)
        opening = RoundOpening("overflow", "reactive", 9_000, 12_000)
        await stage.act(lambda c: compactions.open_round(c, session_id, 0, opening))
        for makers, is_refused, is_posted in commits:
            if is_posted:
                await stage.post("Go on.")
            changes = [change for make in makers for change in make(story)]
            if is_refused:
                await refuse(stage, changes)
            before = (await stage.row()).last_seq
            first = await stage.commit(*changes)
            assert first == (before + 1 if (await stage.row()).last_seq > before else 0)
        row = await stage.row()
        stored = await stage.log()
        assert [event.seq for event in stored] == list(range(1, row.last_seq + 1))
        assert logged(published) == stored
        added = {event.data["message"]["id"]: event for event in stored if event.type == "message.created"}
        for message in await stage.history():
            if (event := added.get(message.id)) is not None:
                assert message.seq == event.seq == event.data["message"]["seq"]
        shown = [event for event in stored if "session" in event.data]
        assert all(event.data["session"]["last_seq"] == event.seq for event in shown)
