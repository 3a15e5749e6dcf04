"""After an error inside a run, the state in memory matches the stored one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Row

from app.agent.changes import RoundOpening
from app.agent.protocols import AgentConfig
from app.context.checkpoints import InForce
from app.context.policies import preset
from app.context.prompts import Notes
from app.db.repositories import sessions, steps
from app.errors import NotFoundError
from app.runtime.agents import AgentSetup
from app.runtime.history import sent_context
from app.runtime.mcp.offer import NOTHING, Offer
from app.runtime.owner import session
from app.runtime.owner.owning import own
from app.runtime.registry import MAX_CRASHES
from app.runtime.transactions import compactions, lifecycle, queue
from app.runtime.values.queue import QueueAdd
from app.sandbox.host.local import LocalFactory
from app.sessions import Outcome
from tests.databases import accept_rows, refuse_rows
from tests.unit.runtime.stage import Stage, make_sandboxes, make_setup
from tests.unit.runtime.test_registry import Model, Server, of_type


@dataclass(frozen=True, slots=True)
class Faulty(AgentSetup):
    """Returns a broken configuration, once for each of its `faults`, which are called then."""

    faults: list[Callable[[], object]] = field(default_factory=list)

    def config(
        self, row: Row[Any], notes: Notes | None = None, offer: Callable[[int], Offer] = lambda _: NOTHING
    ) -> AgentConfig:
        config = AgentSetup.config(self, row, notes, offer)
        if not self.faults:
            return config
        self.faults.pop()()
        # A generation is started with it anyway, before its budget is used.
        return replace(config, budget="no budget")  # type: ignore[arg-type]


@pytest.fixture
async def server(stage: Stage, tmp_path: Path) -> AsyncIterator[Server]:
    model = Model()
    setup = make_setup(stage, make_sandboxes(LocalFactory(tmp_path)), model)
    given = {one.name: getattr(setup.agents, one.name) for one in fields(AgentSetup)}
    server = Server(stage, replace(setup, agents=Faulty(**given, faults=[lambda: say(stage, "second")])), model)
    yield server
    await server.close(10)


def say(stage: Stage, content: str) -> None:
    """Queues a message that is stored before any later write of its owner."""
    body = QueueAdd(content=content)
    stage.database.writer.submit(
        lambda c: queue.enqueue(c, stage.session_id, body, limit=100),
        lambda result: stage.bus.publish(stage.session_id, result[1]),
        session_id=stage.session_id,
    )


async def refuse(server: Server, table: str) -> None:
    """Makes the database refuse new rows of a table."""
    await server.stage.database.writer.write(lambda c: refuse_rows(c, table))


async def accept(server: Server, table: str) -> None:
    """Makes the database accept them again."""
    await server.stage.database.writer.write(lambda c: accept_rows(c, table))


async def request_round(server: Server) -> None:
    """Requests a compaction without notifying the session's owner."""
    opening = RoundOpening("manual", "handoff", 30_000, 128_000)
    await server.stage.act(lambda c: compactions.request(c, server.id, opening, preset("handoff"), None))


async def test_a_context_that_was_not_stored_is_built_again(server: Server) -> None:
    await server.post("first")
    events = await server.idle()

    outcomes = [data["outcome"] for data in of_type(events, "session.idle")]
    assert outcomes == [Outcome.FAILED, Outcome.COMPLETED], "the second run is of the same owner"
    [step] = await server.stage.database.read(lambda c: steps.page(c, server.id, after_seq=0, limit=10))
    shown = await server.stage.database.read(lambda c: sent_context(c, server.id, step.step))
    assert shown.generation == step.generation == 1
    assert [item.message.text for item in shown.messages] == ["first", "second"]
    assert server.model.asked == [["first", "second"]]


async def test_a_context_refused_by_the_database_is_built_by_the_next_owner(server: Server) -> None:
    server.setup.agents.faults.clear()  # type: ignore[attr-defined]
    await refuse(server, "generations")
    await server.stage.post("first")
    await server.fail()
    assert await server.stage.database.read(lambda c: steps.generation(c, server.id)) is None
    await accept(server, "generations")
    await server.go_on()
    events = await server.idle()
    assert [data["outcome"] for data in of_type(events, "session.idle")] == [Outcome.COMPLETED]
    shown = await server.stage.database.read(lambda c: sent_context(c, server.id, 1))
    assert (shown.generation, [item.message.text for item in shown.messages]) == (1, ["first"])


async def test_a_round_refused_by_the_database_is_made_by_the_next_owner(server: Server) -> None:
    server.setup.agents.faults.clear()  # type: ignore[attr-defined]
    for number in range(3):
        await server.post(f"{number} " + "word " * 8_000)
        await server.idle()
        await server.gone()
    await refuse(server, "generations")
    await request_round(server)
    await server.fail()
    assert await server.stage.database.read(lambda c: compactions.in_force(c, server.id)) == InForce()
    assert not any(message.is_summary for message in await server.stage.history())
    await accept(server, "generations")
    await server.go_on()
    await server.gone()
    [made] = (await server.stage.database.read(lambda c: compactions.in_force(c, server.id))).checkpoints
    generation = await server.stage.database.read(lambda c: steps.generation(c, server.id))
    assert generation is not None
    assert (made.round, generation.rounds) == (1, [1])


@pytest.mark.parametrize("has_run", [True, False])
async def test_a_cancel_that_no_owner_has_acted_on_also_cancels_the_round(server: Server, has_run: bool) -> None:
    if has_run:
        await server.stage.post("first")
    await request_round(server)
    await server.stage.act(lambda c: lifecycle.cancel(c, server.id, clear_queue=True))
    server.wake()
    events = await server.idle()

    assert [data["outcome"] for data in of_type(events, "session.idle")] == [Outcome.CANCELLED] * has_run
    assert len(of_type(events, "compaction.cancelled")) == 1
    assert not (await server.stage.row()).cancel_requested


async def test_the_round_of_a_session_that_crashes_every_owner_is_cancelled(server: Server) -> None:
    await server.break_session()
    await server.stage.post("first")
    await request_round(server)
    await server.fail(MAX_CRASHES)

    assert of_type(await server.stage.log(), "compaction.cancelled")
    row = await server.stage.row()
    assert (row.outcome, row.compaction_in_progress) == (Outcome.INTERRUPTED, False)


async def test_a_run_whose_session_is_deleted_as_it_ends_is_left(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by another node, while the owner stores a last checkpoint. That is neither a crash nor a take-over."""
    setup = make_setup(stage, make_sandboxes(LocalFactory(tmp_path)), Model())
    finish = session.finish

    async def delete_and_finish(*arguments: Any) -> bool:
        await stage.database.writer.write(lambda c: sessions.remove(c, stage.session_id))
        return await finish(*arguments)

    monkeypatch.setattr(session, "finish", delete_and_finish)
    say(stage, "first")
    await own(setup, stage.session_id, lambda _: None, lambda _: None)
    assert setup.counts.refused == 0


async def test_something_else_that_is_not_found_is_an_error(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = make_setup(stage, make_sandboxes(LocalFactory(tmp_path)), Model())

    async def find_nothing(*_: Any) -> bool:
        raise NotFoundError("There is no such message.")

    monkeypatch.setattr(session, "finish", find_nothing)
    say(stage, "first")
    with pytest.raises(NotFoundError):
        await own(setup, stage.session_id, lambda _: None, lambda _: None)
