"""A node's tenures: what keeps one that was frozen from doing what is another one's by then, what an owner does before
it leaves, and how soon it is told."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from app.agent.loop import RunResult
from app.cluster import worker
from app.cluster.dispatch import ClusterDispatch
from app.cluster.engine import Engine, EngineAddress
from app.cluster.membership import Membership
from app.cluster.tenure import Tenure
from app.cluster.tenures import WATCH_S, Tenures
from app.db.repositories import ownership, sessions
from app.errors import StorageError, UnavailableError
from app.runtime.background import in_background
from app.runtime.incoming import IncomingArchives
from app.runtime.owner.session import SessionOwner
from app.runtime.run_starts import RunStarts
from app.runtime.services.sessions import SessionService
from app.runtime.setup import RuntimeSetup
from app.runtime.transactions import commands, runs
from app.runtime.workspaces.cache import TreeCache
from app.runtime.workspaces.held import Place
from app.runtime.workspaces.keeper import Workspaces
from app.sessions import Outcome, SandboxSpec
from scripts.servers.temporal import Temporal
from tests.requirements import need
from tests.unit.agent.test_tool_executor import Kept
from tests.unit.runtime.conftest import stage
from tests.unit.runtime.stage import Stage, make_sandboxes, make_setup
from tests.unit.runtime.test_commands import statuses
from tests.unit.runtime.test_deletions import NoOutputs, SlowFactory
from tests.unit.runtime.test_lifecycle import RULES
from tests.unit.runtime.test_registry import Model
from tests.unit.runtime.test_subagents import delegated
from tests.unit.workspaces.rig import MemoryStore

__all__ = ["stage"]

SPEC = SandboxSpec(kind="local-unsafe")


@pytest.fixture
async def boxes(tmp_path: Path) -> SlowFactory:
    return SlowFactory(tmp_path)


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
async def setup(stage: Stage, boxes: SlowFactory, model: Model) -> AsyncIterator[RuntimeSetup]:
    """A node's, for a session that should run."""
    await stage.post("begin")
    await stage.change(status="running", sandbox=SPEC.model_dump())
    async with asyncio.timeout(60):
        yield replace(make_setup(stage, make_sandboxes(boxes), model), node="this")


async def test_an_outdated_offer_is_not_claimed(setup: RuntimeSetup, stage: Stage) -> None:
    async def no() -> bool:
        return False

    assert not await Tenures(setup).hold(stage.session_id, is_wanted=no)
    assert ((await stage.row()).epoch, (await stage.row()).owner) == (0, None)


async def test_a_node_that_is_frozen_before_it_claims_takes_nothing_over(setup: RuntimeSetup, stage: Stage) -> None:
    """The engine has given the session to another node meanwhile."""

    async def frozen() -> bool:
        await stage.write(lambda c: sessions.claim(c, stage.session_id, "other"))
        return True

    assert not await Tenures(setup).hold(stage.session_id, is_wanted=frozen)
    assert ((await stage.row()).epoch, (await stage.row()).owner) == (1, "other")


async def test_the_error_of_a_cancelled_tenure_is_taken(setup: RuntimeSetup, stage: Stage) -> None:
    asked, lost = asyncio.Event(), asyncio.Event()
    untaken: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: untaken.append(context))

    async def fails() -> bool:
        asked.set()
        await lost.wait()
        raise StorageError("The database is away.")

    held = asyncio.create_task(Tenures(setup).hold(stage.session_id, is_wanted=fails))
    await asked.wait()
    held.cancel()
    await asyncio.sleep(0)
    lost.set()
    with pytest.raises(asyncio.CancelledError):
        await held
    gc.collect()
    await asyncio.sleep(0)
    assert untaken == []


async def test_a_deletion_that_was_replaced_while_it_was_frozen_deletes_nothing(
    setup: RuntimeSetup, stage: Stage, boxes: SlowFactory
) -> None:
    engine = cast(Engine, Silent())
    dispatch = ClusterDispatch(setup, engine, Tenures(setup), 10, cast(Membership, None))
    starts, incoming = RunStarts(dispatch, None), IncomingArchives(1000)
    service = SessionService(setup, dispatch, RULES, NoOutputs(), starts, incoming)
    await stage.change(status="idle")
    deletion = asyncio.create_task(service.delete(stage.session_id))
    await boxes.removing.wait()
    await stage.write(lambda c: sessions.claim(c, stage.session_id, "other"))
    boxes.go.set()
    with pytest.raises(UnavailableError):
        await deletion
    assert (await stage.row()).owner == "other"


class Silent:
    """An engine that is not rung."""

    def ring(self, session_id: str, key: str | None = None) -> None: ...


async def test_an_owner_that_hands_over_leaves_when_its_files_are_stored(
    setup: RuntimeSetup, stage: Stage, boxes: SlowFactory, model: Model, tmp_path: Path
) -> None:
    store = MemoryStore()
    place = Place(store, "instance", "folder", TreeCache(tmp_path / "snapshots"), 2**30, "this")
    workspaces = Workspaces(setup.database, setup.sandboxes, place)
    tenures = Tenures(replace(setup, workspaces=workspaces))
    model.hold()
    held = asyncio.create_task(tenures.hold(stage.session_id))
    await model.reached()
    lease = setup.sandboxes.lease(stage.session_id, SPEC)
    await workspaces.bring(stage.session_id, SPEC, (await stage.row()).epoch)
    await workspaces.fenced(stage.session_id, await lease.start()).write("file", b"content")
    lease.release()
    owners: list[str | None] = []

    async def slowly() -> None:
        # An owner that did not wait would be gone after a few writes.
        for _ in range(10):
            await stage.write(lambda _: None)
        owners.append((await stage.row()).owner)

    store.before_next = slowly
    tenures.drain()
    model.go()
    await held
    assert (owners, (await stage.row()).owner) == (["this"], None)
    await workspaces.aclose(5)


class Watched(Tenures):
    """Says when it has looked for changes."""

    def __init__(self, setup: RuntimeSetup) -> None:
        super().__init__(setup)
        self.looked = asyncio.Event()

    async def look(self) -> None:
        await super().look()
        self.looked.set()


async def test_a_nudged_owner_looks_at_once(setup: RuntimeSetup, stage: Stage, model: Model) -> None:
    tenures, nudges = Watched(setup), 10
    model.hold()
    async with in_background(tenures.watch(), "watch"):
        held = asyncio.create_task(tenures.hold(stage.session_id))
        await model.reached()
        begun = asyncio.get_running_loop().time()
        for _ in range(nudges):
            tenures.looked.clear()
            setup.bus.nudge(stage.session_id)
            await tenures.looked.wait()
        # Without nudges, each look comes at the end of its period.
        assert asyncio.get_running_loop().time() - begun < nudges * WATCH_S / 2
    held.cancel()
    await asyncio.wait({held})


class Slow(Tenures):
    """Has its owners act on a change once `go` is set, or fails to read the change."""

    def __init__(self, setup: RuntimeSetup) -> None:
        super().__init__(setup)
        self.answering, self.go, self.catching_up = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.go.set()
        self.fails = False
        self._acting = asyncio.Lock()

    async def _answer(self, tenure: Tenure, owner: SessionOwner) -> bool:
        assert not self._acting.locked(), "one look at a time"
        async with self._acting:
            self.answering.set()
            await self.go.wait()
            if self.fails:
                raise StorageError("The database is away.")
            return await super()._answer(tenure, owner)

    async def _catch_up(self, tenure: Tenure, nudges: int | None) -> None:
        self.catching_up.set()
        await super()._catch_up(tenure, nudges)


async def _steered(stage: Stage, tenures: Tenures, model: Model) -> asyncio.Task[bool]:
    """A tenure whose run is in a step, and gets a message that the node has not noticed."""
    model.hold()
    held = asyncio.create_task(tenures.hold(stage.session_id))
    await model.reached()
    await stage.post("and this")
    await stage.write(lambda c: ownership.nudge(c, stage.session_id))
    return held


@pytest.mark.parametrize("changes", [False, True])
async def test_a_step_that_nobody_has_changed_is_followed_without_a_look(
    setup: RuntimeSetup, stage: Stage, model: Model, changes: bool
) -> None:
    looks = 0

    class Counted(Tenures):
        async def _look_at(self, tenures: Sequence[Tenure]) -> None:
            nonlocal looks
            looks += 1
            await super()._look_at(tenures)

    model.hold()
    held = asyncio.create_task(Counted(setup).hold(stage.session_id))
    await model.reached()
    assert looks == 1
    if changes:
        await stage.write(lambda c: ownership.nudge(c, stage.session_id))
    model.go()
    await held
    assert looks == 1 + changes


async def test_a_run_does_not_end_while_a_look_acts_on_a_steer(setup: RuntimeSetup, stage: Stage, model: Model) -> None:
    tenures = Slow(setup)
    held = await _steered(stage, tenures, model)
    tenures.go.clear()
    tenures.answering.clear()
    tenures.catching_up.clear()
    looking = asyncio.create_task(tenures.look())
    await tenures.answering.wait()
    model.go()
    await tenures.catching_up.wait()
    # A run that did not wait would end after a few writes.
    for _ in range(20):
        await stage.write(lambda _: None)
    tenures.go.set()
    await asyncio.wait({held, looking})
    assert model.asked == [["begin"], ["begin", "and this"]]
    assert (await stage.types()).count("session.idle") == 1


async def test_a_steer_belongs_to_its_run_even_if_the_look_at_the_end_fails(
    setup: RuntimeSetup, stage: Stage, model: Model
) -> None:
    tenures = Slow(setup)
    held = await _steered(stage, tenures, model)
    tenures.fails = True
    model.go()
    async with asyncio.timeout(60):
        await held
    assert model.asked == [["begin"], ["begin", "and this"]]
    assert (await stage.types()).count("session.idle") == 1


async def test_a_change_that_could_not_be_read_is_acted_on_later(
    setup: RuntimeSetup, stage: Stage, model: Model
) -> None:
    tenures = Slow(setup)
    held = await _steered(stage, tenures, model)
    await stage.change(cancel_requested=True, queue_held=True)
    tenures.fails = True
    with pytest.raises(StorageError):
        await tenures.look()
    tenures.fails = False
    await tenures.look()
    async with asyncio.timeout(60):
        await held
    assert (await stage.row()).outcome == Outcome.CANCELLED


async def test_commands_have_ended_with_the_node_that_ran_them(setup: RuntimeSetup, stage: Stage) -> None:
    """Also where no step follows: the session is idle, or its run was cancelled."""
    await stage.act(lambda c: commands.started(c, stage.session_id, 0, "first", "make"))
    await stage.change(status="idle", owner="dead")
    assert not await Tenures(setup).hold(stage.session_id)
    assert await statuses(stage) == ["interrupted"]
    row = await stage.row()
    assert row.owner is None
    await stage.act(lambda c: commands.started(c, stage.session_id, row.epoch, "second", "make"))
    await stage.change(status="running", owner="dead", cancel_requested=True, queue_held=True)
    assert not await Tenures(setup).hold(stage.session_id)
    assert await statuses(stage) == ["interrupted", "interrupted"]
    assert (await stage.row()).outcome == Outcome.CANCELLED


async def test_sub_agents_share_the_slots_of_their_node(setup: RuntimeSetup, stage: Stage, model: Model) -> None:
    children = await delegated(stage, 2)
    for child in children:
        await child.change(status="running", sandbox=SPEC.model_dump())
    tenures = Tenures(replace(setup, collector=lambda _, __, live, limit: Kept(live, limit)), 1)
    model.hold()
    held = asyncio.create_task(tenures.hold(stage.session_id))
    await model.reached()
    # The session waits for them, and one of them for the other one's slot.
    assert (len(tenures), tenures.busy, tenures.resting) == (2, 1, 0)
    assert [(await child.row()).owner for child in children] == ["this", None]
    model.go()
    assert not await held
    assert [(await each.row()).outcome for each in (*children, stage)] == [Outcome.COMPLETED] * 3
    assert [(await each.row()).owner for each in (*children, stage)] == [None] * 3


async def test_only_a_sub_agent_without_a_session_is_taken_from_the_engine(setup: RuntimeSetup, stage: Stage) -> None:
    (child,) = await delegated(stage)
    await child.change(status="running", sandbox=SPEC.model_dump())
    await child.write(lambda c: sessions.claim(c, child.session_id, "other"))
    assert await setup.database.read(lambda c: ownership.with_work(c, None, 9)) == [stage.session_id]
    assert not await Tenures(setup).hold(child.session_id)
    assert ((await child.row()).owner, (await child.row()).epoch) == ("other", 1)

    # A node has died between the end of the run and the cancel of the sub-agent.
    await stage.act(lambda c: runs.finish(c, stage.session_id, 0, RunResult(Outcome.CANCELLED)))
    await stage.change(status="idle")
    assert await setup.database.read(lambda c: ownership.with_work(c, None, 9)) == [child.session_id]
    before = (await stage.row()).nudges
    assert not await Tenures(setup).hold(child.session_id)
    assert ((await child.row()).owner, (await child.row()).outcome) == (None, Outcome.CANCELLED)
    assert (await stage.row()).nudges == before + 1, "an owner of the session would look at it"


async def test_a_worker_ends_although_its_engine_does_not_answer(
    setup: RuntimeSetup, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker owns no session, but its client keeps retrying. Without a limit, the node would be killed while it
    waits."""
    need("temporal")
    monkeypatch.setattr(worker, "ENDING_S", 0.1)
    server = Temporal(in_memory=True)
    try:
        engine = await Engine.at(EngineAddress(server.address, "default", False, None, "palimpsest"))
        tenures = Tenures(setup)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(worker.EngineWorker(engine, tenures, 1).working(60))
            engine.ring(stage.session_id)
            while tenures or (await stage.row()).status == "running":  # noqa: ASYNC110 - nobody publishes it here
                await asyncio.sleep(0.02)
            os.kill(server.pid, signal.SIGSTOP)
            with capture_logs() as logs:
                await stack.aclose()
        assert "engine_worker_cut_off" in [line["event"] for line in logs]
        assert "engine-worker" not in [task.get_name() for task in asyncio.all_tasks()]
    finally:
        server.remove()
