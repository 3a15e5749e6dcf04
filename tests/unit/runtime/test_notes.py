"""Reading a workspace's notes: without creating anything, and without failing a run."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from app.context.prompts import Notes
from app.db.engine import Database
from app.db.repositories import sessions
from app.errors import SandboxUnavailableError, StaleOwnerError
from app.messages import now
from app.runtime.owner.notes import may_have_files, refresh_notes, workspace_notes
from app.sandbox.base import Sandbox, SandboxConfig, SandboxFactory, SandboxLimits
from app.sandbox.host.local import LocalFactory
from tests.unit.db.rows import add_session
from tests.unit.sandbox.conftest import data_dir, factory, instance_id, kind

__all__ = ["data_dir", "factory", "instance_id", "kind"]


def sandbox_of(factory: SandboxFactory) -> Sandbox:
    return factory.open(SandboxConfig(str(uuid4()), "palimpsest/test-busybox:latest", False, SandboxLimits()))


async def test_notes_are_read_without_creating_a_workspace(factory: SandboxFactory) -> None:
    sandbox = sandbox_of(factory)
    try:
        assert await workspace_notes(sandbox) == Notes()
        assert not await sandbox.has_workspace()
        await sandbox.write("AGENTS.md", "Use tabs, für alle.".encode())
        assert await sandbox.has_workspace()
        assert await workspace_notes(sandbox) == Notes(agents="Use tabs, für alle.")
        await sandbox.stop()
        assert await workspace_notes(sandbox) == Notes(agents="Use tabs, für alle.")
        await sandbox.exec("rm AGENTS.md; ln -s /etc/passwd AGENTS.md; mkdir MEMORY.md", timeout_s=30, on_output=drop)
        outside = "['AGENTS.md' leads outside /workspace, through a link to '/etc/passwd'.]"
        assert await workspace_notes(sandbox) == Notes(agents=outside)
    finally:
        await sandbox.remove()
    assert not await sandbox.has_workspace()


def drop(_stream: str, _data: bytes) -> None: ...


async def test_an_invalid_note_is_reported(tmp_path: Path) -> None:
    sandbox = sandbox_of(LocalFactory(tmp_path))
    await sandbox.write("AGENTS.md", b"\x00")
    await sandbox.write("MEMORY.md", b"x" * 2_000_000)
    notes = await workspace_notes(sandbox)
    assert notes.agents == "[AGENTS.md is a binary file, not a note.]"
    assert "MEMORY.md has more than 1,048,576 bytes" in notes.memory
    await sandbox.remove()


async def test_changed_notes_are_stored_and_unchanged_ones_cost_no_write(database: Database, tmp_path: Path) -> None:
    session_id = await database.writer.write(add_session)
    sandbox = sandbox_of(LocalFactory(tmp_path))
    row = await database.read(lambda c: sessions.row(c, session_id))
    assert await refresh_notes(database, row, lambda: sandbox) is None
    await sandbox.write("MEMORY.md", b"remember")
    changed = await refresh_notes(database, row, lambda: sandbox)
    assert changed is not None
    assert Notes.load(changed.notes) == Notes(memory="remember")
    writes = database.writer.writes
    assert await refresh_notes(database, changed, lambda: sandbox) is None
    assert database.writer.writes == writes
    await sandbox.exec("rm MEMORY.md", timeout_s=30, on_output=drop)
    gone = await refresh_notes(database, changed, lambda: sandbox)
    assert gone is not None
    assert gone.notes is None
    await sandbox.remove()


async def test_unreadable_notes_stay_as_they_were(database: Database) -> None:
    session_id = await database.writer.write(lambda c: add_session(c, notes=Notes("old").dump()))
    row = await database.read(lambda c: sessions.row(c, session_id))

    def missing() -> Sandbox:
        raise SandboxUnavailableError("No engine answers.")

    assert await refresh_notes(database, row, missing) is None
    assert (await database.read(lambda c: sessions.row(c, session_id))).notes == row.notes


async def test_a_stale_owner_stores_no_notes(database: Database, tmp_path: Path) -> None:
    session_id = await database.writer.write(add_session)
    row = await database.read(lambda c: sessions.row(c, session_id))
    await database.writer.write(lambda c: sessions.claim(c, session_id))
    sandbox = sandbox_of(LocalFactory(tmp_path))
    await sandbox.write("AGENTS.md", b"new")
    with pytest.raises(StaleOwnerError):
        await refresh_notes(database, row, lambda: sandbox)
    await sandbox.remove()


@pytest.mark.parametrize(
    ("task", "parent", "later", "may"),
    [("task", None, 0.0, False), ("task", None, 60.0, True), (None, None, 0.0, True), ("task", "p", 0.0, True)],
)
def test_only_a_session_created_with_a_task_has_no_files(
    task: str | None, parent: str | None, later: float, may: bool
) -> None:
    at = now()
    began = at + timedelta(seconds=later)
    row: Any = SimpleNamespace(task=task, parent_id=parent, source=None, created_at=at, run_started_at=began)
    assert may_have_files(row) is may
    row.source = {"archive": True}
    assert may_have_files(row)
