"""Restorations that are interrupted, and comparisons while checkpoints are dropped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

import orjson
import pytest
from sqlalchemy import Connection

from app.db.repositories import checkpoints as stored
from app.db.repositories import sessions
from app.errors import NotFoundError
from app.messages import now
from app.runtime.checkpoints import keeper, turns
from app.runtime.checkpoints.keeper import Checkpoints
from app.runtime.checkpoints.repository import EMPTY_TREE, CheckpointError, Repository
from app.runtime.checkpoints.restoring import PENDING, Target
from app.runtime.checkpoints.shared import Taken
from app.runtime.checkpoints.taking import TakingRules
from app.runtime.incoming import IncomingArchives
from app.runtime.services.checkpoints import CheckpointService
from app.runtime.services.files import FileService
from app.runtime.transactions import checkpoints as transactions
from app.sandbox.host import moving
from app.sandbox.host.local import LocalFactory
from app.sessions import SandboxSpec
from tests.unit.db.rows import add_session, new_database
from tests.unit.runtime.stage import Stage, make_sandboxes, make_setup

T = TypeVar("T")
SPEC = SandboxSpec(kind="local-unsafe")


class Watched(Checkpoints):
    """Notes whether a comparison asks for the repository, and whether it has it for itself."""

    was_held = False

    def held(self, session_id: str) -> asyncio.Lock:
        self.is_asked.set()
        return super().held(session_id)

    @cached_property
    def is_asked(self) -> asyncio.Event:
        return asyncio.Event()

    async def changes(self, session_id: str, before: str, after: str) -> bytes:
        self.was_held = self._turns.lock(session_id).locked()
        return await super().changes(session_id, before, after)


class Server:
    """The checkpoints of one session, whose workspace has one file."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        sandboxes = make_sandboxes(LocalFactory(folder))
        self.session_id = stage.session_id
        self.kept = Watched(sandboxes, folder / "checkpoints", TakingRules(), most=10, repository_bytes=2**30)
        self.repository = folder / "checkpoints" / f"{stage.session_id}.git"
        self.file = folder / "workspaces" / stage.session_id / "file"
        setup = replace(make_setup(stage, sandboxes), checkpoints=self.kept)
        files = FileService(setup, IncomingArchives(2**30))
        self.service = CheckpointService(setup, files)
        self._stage = stage
        self._sandboxes = sandboxes

    async def checkpoint(self, content: str) -> str:
        """A checkpoint with this content of the file."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(content)
        self._sandboxes.on_use(self.session_id)
        taken = await self.kept.take(self.session_id, SPEC)
        add = partial(transactions.add, session_id=self.session_id, reason="run_ended", taken=taken)
        return (await self.write(add)).id

    async def write(self, work: Callable[[Connection], T]) -> T:
        return await self._stage.database.writer.write(work)

    async def target(self, checkpoint_id: str) -> Target:
        row = await self._stage.database.read(lambda c: stored.get(c, self.session_id, checkpoint_id))
        return Target(row.id, row.commit_id, row.tree_id)

    async def leave(self, checkpoint_id: str) -> None:
        """Asks for a restoration and goes away."""
        asked = asyncio.create_task(self.service.restore(self.session_id, checkpoint_id))
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.wait({asked})


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with new_database(tmp_path) as database:
        session_id = await database.writer.write(partial(add_session, sandbox=SPEC.model_dump()))
        yield Server(Stage(database, session_id, tmp_path / "test.db"), tmp_path)


async def test_a_shutdown_waits_for_a_restoration_but_not_without_end(server: Server) -> None:
    first = await server.checkpoint("one")
    server.file.write_text("two")
    async with server.kept.held(server.session_id):
        await server.leave(first)
        await server.service.aclose(0)
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("restoration")]
        assert server.file.read_text() == "two"
    await server.leave(first)
    await server.service.aclose(60)
    assert server.file.read_text() == "one"


@pytest.mark.parametrize("note", [b"", b"{", b"[1,2]", b'[null,"--output=x"]', b'["a"]'])
async def test_a_damaged_note_of_a_restoration_costs_the_restoration_alone(server: Server, note: bytes) -> None:
    await server.checkpoint("one")
    (server.repository / PENDING).write_bytes(note)
    await server.kept.recover({server.session_id})
    assert server.kept.interrupted == {server.session_id}
    assert await server.kept.settled(server.session_id, SPEC)
    assert server.kept.interrupted == set()
    assert not (server.repository / PENDING).exists()
    assert server.file.read_text() == "one"


async def test_completing_a_restoration_has_a_time_limit(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    await server.checkpoint("one")
    (server.repository / PENDING).write_bytes(orjson.dumps([None, EMPTY_TREE]))
    await server.kept.recover({server.session_id})
    monkeypatch.setattr(keeper, "RESTORE_S", 0.01)
    async with server.kept.held(server.session_id):
        with pytest.raises(CheckpointError, match="too long"):
            await server.kept.settled(server.session_id, SPEC)


async def test_a_workspace_that_takes_too_long_to_read_is_read_in_several_attempts(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "SETTLED_NS", 0)
    await server.checkpoint("small")
    for name in ("one", "two", "three"):
        (server.file.parent / name).write_bytes(bytes(moving.PIECE))
    await server.kept.use(server.session_id)
    monkeypatch.setattr(keeper, "READ_S", 0)
    with pytest.raises(CheckpointError, match="Try again"):
        await server.kept.take(server.session_id, SPEC)
    taken = await server.kept.take(server.session_id, SPEC)
    assert (taken.files, taken.bytes) == (4, 5 + 3 * moving.PIECE)


async def test_a_checkpoint_waits_for_a_restoration_and_not_long_for_anything_else(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await server.checkpoint("one")
    server.file.write_text("two")
    monkeypatch.setattr(turns, "TURN_S", 0.01)
    async with server.kept.held(server.session_id):
        with pytest.raises(CheckpointError, match="Other work"):
            await server.kept.take(server.session_id, SPEC)
    async with server.kept.restoring(server.session_id, SPEC) as restoration:
        taking = asyncio.create_task(server.kept.take(server.session_id, SPEC))
        saved = await restoration.save()
        await asyncio.wait({taking}, timeout=0.05)
        target = await server.target(first)
        await restoration.complete(target, Target("saved", saved.commit, saved.tree))
    assert (await taking).tree == target.tree


async def test_what_is_compared_stays_until_then(server: Server) -> None:
    await server.checkpoint("one")
    server.file.write_text("two")
    found = await server.service.changes(server.session_id, None, None)
    assert [change.path for change in found.items] == ["file"]
    assert server.kept.was_held
    async with server.kept.held(server.session_id):
        seen, _ = await server.kept.now(server.session_id, SPEC)
        removal = asyncio.create_task(server.kept.remove(server.session_id))
        for _ in range(3):
            await asyncio.to_thread(str)
        assert await server.kept.changes(server.session_id, EMPTY_TREE, seen.tree)
    await removal
    assert not server.repository.exists()


async def test_a_checkpoint_that_is_dropped_before_it_is_compared_is_not_found(server: Server) -> None:
    first, second = await server.checkpoint("one"), await server.checkpoint("two")
    kept = await server.target(first)
    async with server.kept.held(server.session_id):
        server.kept.is_asked.clear()
        comparing = asyncio.create_task(server.service.changes(server.session_id, first, second))
        await server.kept.is_asked.wait()
        await server.write(lambda c: stored.drop(c, server.session_id, [second]))
        repository = Repository(server.repository)
        (server.repository / "refs" / "palimpsest" / "now").unlink()
        assert await repository.keep_only({str(kept.commit)})
        await repository.collect()
    with pytest.raises(NotFoundError):
        await comparing


async def test_a_fork_lists_only_what_its_repository_has(server: Server) -> None:
    empty = await server.kept.take(server.session_id, SPEC)
    rows = [
        (
            await server.write(partial(transactions.add, session_id=server.session_id, reason="run_ended", taken=empty))
        ).id
    ]
    rows.append(await server.checkpoint("one"))
    fork = await server.write(partial(add_session, sandbox=SPEC.model_dump()))
    place = await server.kept.copy(server.session_id, fork)
    await server.checkpoint("two")

    def store(connection: Connection) -> list[str]:
        stored.copy(connection, server.session_id, fork, set())
        place(connection)
        return [row.id for row in stored.of_session(connection, fork)]

    assert await server.write(store) == rows


async def test_the_first_checkpoint_of_a_run_is_known_whatever_the_clocks_say(server: Server) -> None:
    ahead = now() + timedelta(seconds=5)
    add = partial(transactions.add, session_id=server.session_id, reason="run_started", taken=Taken())

    def begun(connection: Connection, started_at: datetime, *, adds: bool) -> bool:
        sessions.change(connection, server.session_id, run_started_at=started_at)
        if adds:
            add(connection)
        return transactions.has_begun(connection, server.session_id, started_at)

    assert await server.write(partial(begun, started_at=ahead, adds=True))
    assert not await server.write(partial(begun, started_at=ahead - timedelta(seconds=3), adds=False))
