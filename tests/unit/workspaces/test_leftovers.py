"""What a sweep removes from a machine: files of deleted sessions and of those that have moved, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from app.db.engine import Database
from app.db.repositories import sessions, workspaces
from app.messages import now
from app.runtime.sandboxes.leftovers import GRACE_S, Leftovers
from app.runtime.sandboxes.pool import Sandboxes
from app.sandbox.host.local import LocalFactory
from app.sessions import SandboxSpec
from tests.unit.db.rows import add_session, new_database
from tests.unit.runtime.stage import make_sandboxes

SPEC = SandboxSpec(kind="local-unsafe")


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with new_database(tmp_path) as opened:
        yield opened


@pytest.fixture
async def sandboxes(tmp_path: Path) -> AsyncIterator[Sandboxes]:
    made = make_sandboxes(LocalFactory(tmp_path))
    yield made
    await made.aclose()


async def make(database: Database, folder: Path, machine: str | None) -> str:
    """A session with a file here, whose workspace is on a machine; None has no row of it."""

    def work(connection: object) -> str:
        session_id = add_session(connection)  # type: ignore[arg-type]
        if machine is not None:
            workspaces.add(connection, session_id, machine, now())  # type: ignore[arg-type]
        return session_id

    session_id = await database.writer.write(work)
    (folder / "workspaces" / session_id).mkdir(parents=True)
    (folder / "workspaces" / session_id / "file").write_text("x")
    return session_id


def here(folder: Path) -> set[str]:
    return {path.name for path in (folder / "workspaces").iterdir()}


async def test_what_was_deleted_or_has_moved_is_removed(
    database: Database, sandboxes: Sandboxes, tmp_path: Path
) -> None:
    stays = {await make(database, tmp_path, machine) for machine in ("here", "", None)}
    moved = await make(database, tmp_path, "elsewhere")
    gone = await make(database, tmp_path, "here")
    await database.writer.write(lambda c: sessions.remove(c, gone))
    await Leftovers(database, sandboxes, "here", grace_s=GRACE_S).sweep()
    assert here(tmp_path) == stays | {moved, gone}, "what is new stays: its rows may follow"
    await Leftovers(database, sandboxes, "here", grace_s=0).sweep()
    assert here(tmp_path) == stays


async def test_what_is_used_or_comes_back_stays(database: Database, sandboxes: Sandboxes, tmp_path: Path) -> None:
    used, owned, back = [await make(database, tmp_path, "elsewhere") for _ in range(3)]
    lease = sandboxes.lease(used, SPEC)

    @asynccontextmanager
    async def unused_elsewhere(session_id: str) -> AsyncIterator[bool]:
        if session_id == back:
            # Restored by another server that uses the same directory, after this one has listed it.
            (tmp_path / "workspaces" / back / "restored").write_text("x")
        yield session_id != owned

    sandboxes.unused_elsewhere = unused_elsewhere
    await Leftovers(database, sandboxes, "here", grace_s=0).sweep()
    assert here(tmp_path) == {used, owned, back}
    lease.release()


async def test_an_idle_sandbox_is_left_to_a_server_that_uses_it(sandboxes: Sandboxes) -> None:
    """It stays when this server ends, since another one may be running a command in it."""
    lease = sandboxes.lease("0123", SPEC)
    await lease.start()
    asked = asyncio.Event()

    @asynccontextmanager
    async def unused_elsewhere(_: str) -> AsyncIterator[bool]:
        asked.set()
        yield False

    stopped = asyncio.Event()

    async def stop() -> None:
        stopped.set()

    lease.sandbox.stop = stop  # type: ignore[method-assign]
    lease.release()
    sandboxes.unused_elsewhere = unused_elsewhere
    await sandboxes.aclose()
    assert asked.is_set()
    assert not stopped.is_set()
