"""Two machines with one database and one store: which of them has a workspace, and whose files are kept."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Connection

from app.db.engine import Database
from app.db.repositories import sessions, workspaces
from app.db.repositories.workspaces import StoredWorkspace
from app.errors import ConflictError, StaleOwnerError, WorkspaceStoreError
from app.runtime.workspaces.cache import TreeCache
from app.runtime.workspaces.claims import Helper
from app.runtime.workspaces.held import Place
from app.runtime.workspaces.keeper import Workspaces
from app.sandbox.host.local import LocalFactory
from app.sessions import SandboxSpec
from tests.unit.db.rows import add_session, new_database
from tests.unit.runtime.stage import make_sandboxes
from tests.unit.workspaces.rig import MemoryStore

SPEC = SandboxSpec(kind="local-unsafe")
LATER = datetime(2100, 1, 1, tzinfo=UTC)


class Machine:
    """A server's part that keeps workspaces, with a data directory of its own."""

    def __init__(self, folder: Path, database: Database, store: MemoryStore) -> None:
        folder.mkdir()
        self.folder = folder
        self.place = Place(store, "instance", folder.name, TreeCache(folder / "snapshots"), 2**30)
        self.sandboxes = make_sandboxes(LocalFactory(folder))
        self.database = database
        self.restart()

    def restart(self) -> None:
        """As a new process: with the files, but without what the earlier one knew."""
        self.kept = Workspaces(self.database, self.sandboxes, self.place)

    async def write(self, session_id: str, name: str, data: str) -> None:
        lease = self.sandboxes.lease(session_id, SPEC)
        try:
            await self.kept.fenced(session_id, await lease.start()).write(name, data.encode())
        finally:
            lease.release()

    async def own(self, session_id: str) -> int:
        """Claims the session and brings its workspace here, as an owner does; the epoch."""
        epoch = await claim(self.database, session_id)
        await self.kept.bring(session_id, SPEC, epoch)
        return epoch

    async def finish(self, session_id: str) -> None:
        """As an owner whose session is idle."""
        await self.kept.settle(session_id, asyncio.Event())
        self.kept.leave(session_id)
        await change(self.database, session_id, status="idle", owner=None)

    async def snapshot(self, session_id: str) -> None:
        """Waits for the snapshot that is being taken."""
        held = self.kept._held.get(session_id)
        if held is not None and held.task is not None:
            await asyncio.wait({held.task})

    def files(self, session_id: str) -> dict[str, str]:
        root = self.folder / "workspaces" / session_id
        return {path.name: path.read_text() for path in root.iterdir() if path.is_file()} if root.exists() else {}


def add(connection: Connection) -> str:
    return add_session(connection, sandbox=SPEC.model_dump())


async def claim(database: Database, session_id: str) -> int:
    def work(connection: Connection) -> int:
        row = sessions.claim(connection, session_id, "node")
        assert row is not None
        sessions.change(connection, session_id, status="running")
        return int(row.epoch)

    return await database.writer.write(work, session_id=session_id)


async def change(database: Database, session_id: str, **fields: object) -> None:
    await database.writer.write(lambda c: sessions.change(c, session_id, **fields), session_id=session_id)


async def row_of(database: Database, session_id: str) -> StoredWorkspace:
    row = await database.read(lambda c: workspaces.find(c, session_id))
    assert row is not None
    return row


async def taken(database: Database, session_id: str) -> datetime | None:
    return await database.writer.write(lambda c: workspaces.take_restored(c, session_id), session_id=session_id)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with new_database(tmp_path) as opened:
        yield opened


@pytest.fixture
async def session_id(database: Database) -> str:
    return await database.writer.write(add)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def machines(tmp_path: Path, database: Database, store: MemoryStore) -> AsyncIterator[tuple[Machine, Machine]]:
    found = Machine(tmp_path / "one", database, store), Machine(tmp_path / "two", database, store)
    yield found
    for machine in found:
        await machine.kept.aclose(5)
        await machine.sandboxes.aclose()


async def test_a_session_that_comes_back_has_the_files_of_the_other_machine(
    machines: tuple[Machine, Machine], session_id: str
) -> None:
    one, two = machines
    await one.own(session_id)
    await one.write(session_id, "file", "one")
    await one.kept.settle(session_id, asyncio.Event())
    await one.write(session_id, "file", "one, never stored")  # then it is frozen
    await two.own(session_id)
    await two.write(session_id, "file", "two")
    await two.finish(session_id)
    epoch = await one.own(session_id)
    assert one.files(session_id) == {"file": "two"}
    assert await taken(one.database, session_id) is not None
    await one.write(session_id, "new", "one again")
    await one.finish(session_id)
    await one.kept.bring(session_id, SPEC)
    assert await taken(one.database, session_id) is None
    assert one.files(session_id) == {"file": "two", "new": "one again"}
    assert epoch == 3


async def test_the_end_of_a_run_stores_what_changed_while_a_snapshot_was_being_stored(
    machines: tuple[Machine, Machine], session_id: str, store: MemoryStore
) -> None:
    one, two = machines
    await one.own(session_id)
    await one.kept.upkeep.check()
    await one.write(session_id, "file", "one")
    ends: list[asyncio.Task[bool]] = []
    waits: list[bool] = []

    async def look() -> None:
        store.before_next = look
        waits.append(not ends[0].done())

    async def change_and_end() -> None:
        await one.write(session_id, "late", "two")
        ends.append(asyncio.create_task(one.kept.settle(session_id, asyncio.Event())))
        await look()

    store.before_next = change_and_end
    one.kept.between_steps(session_id)
    await one.snapshot(session_id)
    await ends[0]
    await one.finish(session_id)
    assert all(waits), "until all is stored"
    await two.own(session_id)
    assert two.files(session_id) == {"file": "one", "late": "two"}


async def test_a_session_whose_files_could_not_be_stored_is_kept_until_they_are(
    machines: tuple[Machine, Machine], session_id: str, store: MemoryStore
) -> None:
    one, two = machines
    await one.own(session_id)
    await one.write(session_id, "file", "one")
    store.away = True
    assert not await one.kept.settle(session_id, asyncio.Event())
    late = asyncio.create_task(one.kept.settle_late(session_id, asyncio.Event()))
    with_work = asyncio.Event()
    with_work.set()
    await one.kept.settle_late(session_id, with_work)
    assert not late.done()
    store.away = False
    one.kept.store_later(session_id)
    await late
    assert await one.kept.settle(session_id, asyncio.Event())
    await two.own(session_id)
    assert two.files(session_id) == {"file": "one"}


async def test_a_superseded_owner_leaves_nothing_behind(machines: tuple[Machine, Machine], session_id: str) -> None:
    one, two = machines
    await one.own(session_id)
    await one.write(session_id, "file", "one")
    await two.own(session_id)
    one.kept.leave(session_id)
    await one.snapshot(session_id)
    assert session_id not in one.kept._held
    assert (await row_of(one.database, session_id)).machine == "two"


async def test_a_stale_owner_does_not_use_what_is_here(machines: tuple[Machine, Machine], session_id: str) -> None:
    one, _ = machines
    await one.kept.bring(session_id, SPEC)
    epoch = await claim(one.database, session_id)
    await claim(one.database, session_id)
    with pytest.raises(StaleOwnerError):
        await one.kept.bring(session_id, SPEC, epoch)


async def test_a_late_sub_agent_takes_no_workspace_and_stores_nothing(
    machines: tuple[Machine, Machine], session_id: str
) -> None:
    """Its server was frozen until its session had ended elsewhere: in a command, or between the check of its epoch and
    the use of the workspace."""
    one, two = machines
    child_id = await one.database.writer.write(add)
    late = Helper(child_id, await claim(one.database, child_id))
    await one.own(session_id)
    await one.write(session_id, "file", "one")
    await two.own(session_id)
    await claim(one.database, child_id)
    await two.write(session_id, "file", "two")
    await two.finish(session_id)
    stored = await row_of(one.database, session_id)
    await one.write(session_id, "file", "late")
    one.kept.leave(session_id)
    await one.kept.settle(session_id, asyncio.Event())
    assert await row_of(one.database, session_id) == stored
    with pytest.raises(StaleOwnerError):
        await one.kept.bring(session_id, SPEC, helper=late)
    assert await row_of(one.database, session_id) == stored
    await one.own(session_id)
    assert one.files(session_id) == {"file": "two"}


async def test_a_restarted_server_takes_nothing_from_a_machine_that_works(
    machines: tuple[Machine, Machine], session_id: str, store: MemoryStore
) -> None:
    one, two = machines
    both = {session_id, await one.database.writer.write(add)}
    for each in both:
        await one.own(each)
        await one.write(each, "file", "one")
        await one.finish(each)
        (one.folder / "workspaces" / each / "late").write_text("never stored")
        await change(one.database, each, updated_at=LATER)  # as by an event after the snapshot
    one.restart()
    moved: list[str] = []

    async def move() -> None:
        """Happens while the first one is stored."""
        moved.extend(both - one.kept._held.keys())
        await two.own(moved[0])
        await two.write(moved[0], "file", "two")

    store.before_next = move
    await one.kept.upkeep._store_left()
    assert {each: (await row_of(one.database, each)).machine for each in both} == {
        each: "two" if [each] == moved else "one" for each in both
    }
    await two.finish(moved[0])
    assert two.files(moved[0]) == {"file": "two"}
    assert (await row_of(one.database, moved[0])).machine == "two"


async def test_an_upload_takes_no_workspace_from_a_run_that_began_meanwhile(
    machines: tuple[Machine, Machine], session_id: str, store: MemoryStore
) -> None:
    one, two = machines
    await one.own(session_id)
    await one.write(session_id, "file", "one")
    await one.finish(session_id)
    await two.kept.bring(session_id, SPEC)
    await two.write(session_id, "file", "two")
    await two.finish(session_id)
    # While the upload restores what the other machine has, a run begins there.
    store.before_next = lambda: two.own(session_id)
    with pytest.raises(ConflictError) as refused:
        await one.kept.bring(session_id, SPEC)
    assert refused.value.code == "workspace_elsewhere"
    await two.write(session_id, "file", "of the run")
    await two.finish(session_id)
    assert (await row_of(one.database, session_id)).machine == "two"
    assert two.files(session_id) == {"file": "of the run"}


async def test_a_deletion_that_fails_keeps_the_snapshot(
    machines: tuple[Machine, Machine], session_id: str, store: MemoryStore
) -> None:
    one, _ = machines
    await one.own(session_id)
    await one.write(session_id, "file", "one")
    await one.finish(session_id)
    stored = {key for key in store.objects if session_id in key}
    with pytest.raises(ZeroDivisionError):
        async with one.sandboxes.removed(session_id, SPEC):
            raise ZeroDivisionError  # the write that deletes the rows
    assert {key for key in store.objects if session_id in key} == stored != set()
    async with one.sandboxes.removed(session_id, SPEC):
        pass
    assert [key for key in store.objects if session_id in key] == []


async def test_a_snapshot_that_crashes_is_known_and_taken_later(
    machines: tuple[Machine, Machine], session_id: str, store: MemoryStore
) -> None:
    one, two = machines
    await one.own(session_id)
    await one.write(session_id, "file", "one")

    async def crash() -> None:
        raise ZeroDivisionError

    store.before_next = crash
    await one.finish(session_id)
    assert (one.kept.storing.failing, (await one.kept.component()).ok) == (1, False)
    one.kept.store_later(session_id)
    await one.snapshot(session_id)
    assert (one.kept.storing.failing, (await one.kept.component()).ok) == (0, True)
    await two.own(session_id)
    assert two.files(session_id) == {"file": "one"}


async def test_a_change_outside_of_a_run_is_stored_or_says_why_not(
    machines: tuple[Machine, Machine], session_id: str, store: MemoryStore
) -> None:
    one, two = machines
    await one.kept.bring(session_id, SPEC)
    await one.write(session_id, "file", "one")
    await one.kept.store_now(session_id)
    await two.kept.bring(session_id, SPEC)
    assert two.files(session_id) == {"file": "one"}
    await two.kept.check_before_change(session_id)
    await two.write(session_id, "file", "two")
    store.away = True
    with pytest.raises(WorkspaceStoreError, match="The change was made, but it is not stored"):
        await two.kept.store_now(session_id)
    with pytest.raises(WorkspaceStoreError):
        await two.kept.check_before_change(session_id)
    store.away = False
    await two.kept.store_now(session_id)
    await one.kept.bring(session_id, SPEC)
    assert one.files(session_id) == {"file": "two"}


async def test_a_change_that_another_machine_has_overtaken_is_not_called_stored(
    machines: tuple[Machine, Machine], session_id: str, store: MemoryStore
) -> None:
    one, two = machines
    await one.kept.bring(session_id, SPEC)
    await one.write(session_id, "file", "one")
    store.before_next = lambda: two.kept.bring(session_id, SPEC)
    with pytest.raises(ConflictError) as refused:
        await one.kept.store_now(session_id)
    assert refused.value.code == "workspace_elsewhere"


async def test_an_upload_to_a_run_is_in_a_snapshot_and_its_owner_learns_what_was_restored(
    machines: tuple[Machine, Machine], session_id: str
) -> None:
    one, two = machines
    await one.own(session_id)
    await one.write(session_id, "file", "one")
    await one.finish(session_id)
    epoch = await claim(two.database, session_id)
    as_of = (await row_of(two.database, session_id)).as_of
    await two.kept.bring(session_id, SPEC, epoch)
    await two.write(session_id, "sent", "two")
    await two.kept.store_now(session_id)
    await two.kept.bring(session_id, SPEC, epoch)
    assert await taken(two.database, session_id) == as_of
    assert await taken(two.database, session_id) is None
    await one.own(session_id)
    assert one.files(session_id) == {"file": "one", "sent": "two"}


async def test_that_a_workspace_was_restored_is_not_forgotten_in_a_crash(
    machines: tuple[Machine, Machine], session_id: str
) -> None:
    one, two = machines
    await one.own(session_id)
    await one.write(session_id, "file", "one")
    await one.finish(session_id)
    as_of = (await row_of(two.database, session_id)).as_of
    await two.own(session_id)
    two.restart()
    await two.own(session_id)
    await two.write(session_id, "file", "two")
    await two.finish(session_id)
    await one.own(session_id)
    assert one.files(session_id) == {"file": "two"}
    assert await taken(one.database, session_id) == as_of, "the first one that the log has not"


async def test_a_workspace_that_was_removed_is_not_stored_again_but_restored(
    machines: tuple[Machine, Machine], session_id: str
) -> None:
    """While its server was away; the next one looks after what is left here before the session's owner asks."""
    one, _ = machines
    await one.own(session_id)
    await one.write(session_id, "file", "one")
    await one.finish(session_id)
    await change(one.database, session_id, updated_at=LATER)
    shutil.rmtree(one.folder / "workspaces" / session_id)
    one.restart()
    await one.kept.upkeep._store_left()
    await one.own(session_id)
    assert one.files(session_id) == {"file": "one"}
    assert await taken(one.database, session_id) is not None


async def test_a_command_that_is_cancelled_as_the_snapshot_has_read_does_not_begin(
    machines: tuple[Machine, Machine], session_id: str
) -> None:
    one, _ = machines
    await one.own(session_id)
    held = one.kept._held[session_id]
    for turns in range(6):
        held.has_read.clear()
        command = asyncio.create_task(held.enter())
        await asyncio.sleep(0)
        held.has_read.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        if command.cancel():
            with pytest.raises(asyncio.CancelledError):
                await command
        else:
            held.users -= 1
        assert held.users == 0
