"""What a repository keeps: the first and the newest checkpoints, nothing of the others, and no more than it should."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import cast

import pytest

from app.db.repositories import secrets
from app.messages import now
from app.runtime.checkpoints import repository as repositories
from app.runtime.checkpoints.coverage import IGNORE_FILES
from app.runtime.checkpoints.looks import Look
from app.runtime.checkpoints.repository import CheckpointError, Repository, blob_id
from app.runtime.checkpoints.secrets import read_secrets
from app.runtime.checkpoints.taking import TakingRules, look
from app.runtime.vault import Vault
from app.sandbox.base import FilePiece, MovableSandbox, SandboxConfig, SandboxLimits, TreeEntry
from app.sandbox.host.local import LocalFactory
from tests.unit.db.rows import add_session, new_database


async def opened(tmp_path: Path) -> tuple[MovableSandbox, Repository]:
    """A sandbox with an empty workspace, and an empty repository."""
    sandbox = LocalFactory(tmp_path).open(SandboxConfig("s", "", False, SandboxLimits()))
    await sandbox.start()
    repository = Repository(tmp_path / "repository.git")
    repository.create()
    return sandbox, repository


async def test_dropped_commits_take_no_space(tmp_path: Path) -> None:
    sandbox, repository = await opened(tmp_path)
    file, last, commits = tmp_path / "workspaces" / "s" / "file", Look(), []
    for number in range(3):
        file.write_bytes(bytes([number]) + os.urandom(200_000))
        last = await look(sandbox, repository, TakingRules(), last)
        assert last.commit is not None
        repository.keep(last.commit)
        commits.append(last.commit)
    before, _ = repository.size()
    assert await repository.keep_only({commits[0], commits[2]})
    await repository.collect()
    after, _ = repository.size()
    assert after < before - 150_000
    assert not await repository.keep_only({commits[0], commits[2]})
    listed = (await repository.run("rev-list", "--all")).decode().split()
    assert set(listed) == {commits[0], commits[2]}


async def test_a_repository_that_was_never_made_has_nothing_to_drop(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repository.git")
    assert not await repository.keep_only(set())
    assert await repository.commits() == set()


async def test_a_checkpoint_that_is_not_stored_yet_stays(tmp_path: Path) -> None:
    sandbox, repository = await opened(tmp_path)
    file = tmp_path / "workspaces" / "s" / "file"
    file.write_bytes(b"1")
    taken = await look(sandbox, repository, TakingRules(), Look())
    assert taken.commit is not None
    repository.keep(taken.commit)
    # The commits that stay were listed before it was taken.
    await repository.keep_only(set())
    file.write_bytes(b"2")
    await look(sandbox, repository, TakingRules(), taken)
    await repository.collect()
    assert [blob.path for blob in await repository.files(taken.tree)] == [b"file"]


async def test_only_as_many_ignore_files_are_read_as_have_an_effect(tmp_path: Path) -> None:
    sandbox, repository = await opened(tmp_path)
    for number in range(IGNORE_FILES + 2):
        folder = tmp_path / "workspaces" / "s" / f"{number:03}"
        folder.mkdir()
        (folder / ".gitignore").write_text("x")
        (folder / "x").touch()
    found = await look(sandbox, repository, TakingRules(), Look())
    assert len(found.ignores) == len(found.uncovered) == IGNORE_FILES


class Growing:
    """A sandbox whose files have grown after each scan."""

    def __init__(self, sandbox: MovableSandbox) -> None:
        self.scan = sandbox.scan
        self._sandbox = sandbox

    async def read_entries(self, entries: Sequence[TreeEntry]) -> AsyncIterator[Sequence[FilePiece]]:
        async for batch in self._sandbox.read_entries(entries):
            yield batch
            yield [FilePiece(batch[-1].position, b"more")]


async def test_of_a_file_that_grows_only_what_a_scan_saw_is_held(tmp_path: Path) -> None:
    sandbox, repository = await opened(tmp_path)
    (tmp_path / "workspaces" / "s" / "log").write_text("first\n")
    growing = cast(MovableSandbox, Growing(sandbox))
    found = await look(growing, repository, TakingRules(), Look())
    (blob,) = await repository.files(found.tree)
    assert blob.id == blob_id(b"first\n")


class Stuck:
    """A sandbox that stops after it has given some content."""

    def __init__(self, sandbox: MovableSandbox) -> None:
        self.scan = sandbox.scan
        self.is_stuck = asyncio.Event()

    async def read_entries(self, entries: Sequence[TreeEntry]) -> AsyncIterator[Sequence[FilePiece]]:
        yield [FilePiece(0, os.urandom(3_000_000)), FilePiece(1, b"")]
        self.is_stuck.set()
        await asyncio.Event().wait()


async def test_a_look_that_is_cut_off_leaves_nothing(tmp_path: Path) -> None:
    sandbox, repository = await opened(tmp_path)
    for name in ("one", "two"):
        (tmp_path / "workspaces" / "s" / name).write_bytes(bytes(3_000_000))
    before = repository.size()
    stuck = Stuck(sandbox)
    cut_off = asyncio.create_task(look(cast(MovableSandbox, stuck), repository, TakingRules(), Look()))
    await stuck.is_stuck.wait()
    assert repository.size() > before
    cut_off.cancel()
    await asyncio.wait({cut_off})
    assert repository.size() == before
    (repository.path / "refs" / "palimpsest" / "now.lock").touch()
    with pytest.raises(CheckpointError, match="now"):
        await look(sandbox, repository, TakingRules(), Look())
    assert (await look(sandbox, repository, TakingRules(), Look())).commit is not None


GIT = """#!/bin/sh
cd "${1#--git-dir=}" || exit
touch packed-refs.lock gc.pid objects/pack/.tmp-1-pack-2.pack
sleep 100 & wait
"""
"""A git that takes long in a process of its own, as `git gc` does."""


async def test_a_git_command_that_takes_too_long_ends_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, repository = await opened(tmp_path)
    before = repository.size()
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    git.write_text(GIT)
    git.chmod(0o755)
    monkeypatch.setenv("PATH", f"{git.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(repositories, "GIT_S", 0.3)
    async with asyncio.timeout(60):
        with pytest.raises(CheckpointError, match="git gc took more"):
            await repository.collect()
    assert repository.size() == before


async def test_a_secret_that_could_not_be_read_is_looked_for_later(tmp_path: Path) -> None:
    async with new_database(tmp_path) as database:
        session_id = await database.writer.write(add_session)
        vault = Vault("k" * 32, None)
        stored = await vault.encrypt(session_id, "TOKEN", "0123456789")
        await database.writer.write(lambda c: secrets.put(c, session_id, "TOKEN", stored, now()))
        without = await read_secrets(database, Vault(None, None), session_id)
        assert (without.ids, without.are_in(b"0123456789")) == (frozenset(), False)
        found = await read_secrets(database, vault, session_id)
        assert found.are_in(b"0123456789")
        assert len(found.ids) == 1
