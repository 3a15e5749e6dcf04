"""Repositories that two machines share through a store: what one has recorded, the other has, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from random import randbytes

import pytest

from app.db.repositories import checkpoints as stored
from app.db.repositories.checkpoints import StoredCheckpoint
from app.errors import ConflictError, WorkspaceStoreError
from app.runtime.checkpoints import shared
from app.runtime.checkpoints.copies import own_folder
from app.runtime.checkpoints.keeper import Checkpoints
from app.runtime.checkpoints.shared import SharedRepositories, Shelf, Taken
from app.runtime.checkpoints.shared_files import SharedFiles
from app.runtime.checkpoints.taking import TakingRules
from app.runtime.transactions import checkpoints as transactions
from app.runtime.values.checkpoints import CheckpointReason
from app.runtime.workspaces import packing
from app.runtime.workspaces.store import SessionObjects
from app.runtime.workspaces.taking import UPLOADS, Fence, Progress, Snapshot, take
from app.sandbox.base import SandboxConfig, SandboxLimits
from app.sandbox.host.local import LocalFactory
from tests.unit.workspaces.rig import MemoryStore
from tests.unit.workspaces.test_keeper import SPEC, Machine, add, database, machines, session_id, store

__all__ = ["database", "machines", "session_id", "store"]


class Node:
    """A server's checkpoints, on a machine of its own."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        async def check() -> None: ...

        self.machine, self.database = machine, machine.database
        shelf = Shelf(partial(machine.place.objects, part="checkpoints/"), check)
        self.shared = SharedRepositories(machine.database, shelf, folder, folder / "former", 2**30)
        self.kept = Checkpoints(
            machine.sandboxes,
            folder,
            TakingRules(),
            most=10,
            repository_bytes=2**30,
            shared=self.shared,
            workspaces=machine.kept,
        )
        machine.kept.on_restore = self.shared.use

    async def take(self, session_id: str) -> Taken:
        return await self.kept.take(session_id, SPEC)

    async def add(self, session_id: str, taken: Taken, reason: CheckpointReason = "run_ended") -> StoredCheckpoint:
        work = partial(transactions.add, session_id=session_id, reason=reason, taken=taken)
        return await self.database.writer.write(work, session_id=session_id)

    async def changed(self, session_id: str, before: str) -> bytes:
        async with self.kept.held(session_id):
            now, _ = await self.kept.now(session_id, SPEC)
            return await self.kept.changes(session_id, before, now.tree)


@pytest.fixture
async def nodes(machines: tuple[Machine, Machine], tmp_path: Path) -> AsyncIterator[tuple[Node, Node]]:
    with own_folder(tmp_path / "copies") as one, own_folder(tmp_path / "copies") as two:
        yield Node(machines[0], one), Node(machines[1], two)


async def begun(node: Node, session_id: str) -> StoredCheckpoint:
    """A checkpoint of a workspace that its machine has stored."""
    await node.machine.own(session_id)
    await node.machine.write(session_id, "file", "one\n")
    await node.machine.write(session_id, "large", "line\n" * 100_000)
    row = await node.add(session_id, await node.take(session_id))
    await node.machine.finish(session_id)
    return row


async def test_what_is_recorded_is_on_another_machine(
    nodes: tuple[Node, Node], session_id: str, store: MemoryStore
) -> None:
    one, two = nodes
    first = await begun(one, session_id)
    await two.kept.use(session_id)
    # Without the workspace, whose snapshot it reads.
    assert await two.changed(session_id, first.tree_id) == b""
    assert not (two.machine.folder / "workspaces").exists()
    await two.machine.own(session_id)
    await two.machine.write(session_id, "file", "two\n")
    await two.kept.use(session_id)
    store.put_bytes = 0
    await two.add(session_id, await two.take(session_id))
    assert store.put_bytes < 5_000, "only what has changed is stored"
    await two.machine.finish(session_id)
    store.away = True
    # Nothing has used it since, so that the repository alone tells.
    with pytest.raises(WorkspaceStoreError):
        await one.changed(session_id, first.tree_id)
    store.away = False
    assert b"file" in await one.changed(session_id, first.tree_id)
    await one.kept.conclude(session_id)


async def test_only_one_of_two_servers_records_and_what_is_unused_is_removed(
    nodes: tuple[Node, Node], session_id: str, store: MemoryStore
) -> None:
    one, two = nodes
    await begun(one, session_id)
    await one.machine.own(session_id)
    await one.machine.write(session_id, "frozen", "one")
    await one.kept.use(session_id)
    late = await one.take(session_id)
    await two.machine.own(session_id)
    await two.machine.write(session_id, "newer", "two")
    await two.kept.use(session_id)
    row = await two.add(session_id, await two.take(session_id))
    with pytest.raises(ConflictError):
        await one.add(session_id, late)
    for _ in range(2):
        await two.machine.write(session_id, "newer", "again")
        await two.kept.use(session_id)
        await two.add(session_id, await two.take(session_id))
    await two.kept.conclude(session_id)
    with own_folder(two.machine.folder / "copies") as folder:
        third = Node(two.machine, folder)
        await third.kept.use(session_id)
        await third.add(session_id, await third.take(session_id))
        await third.kept.conclude(session_id)
        await third.kept.updated(session_id)
        assert await third.kept.changes(session_id, row.tree_id, row.tree_id) == b""
        blobs = await third.shared.repository(session_id).files(row.tree_id)
        assert {blob.path for blob in blobs} == {b"file", b"large", b"newer"}
    prefix = f"instance/{session_id}/checkpoints/"
    assert len([key for key in store.objects if key.startswith(f"{prefix}manifests/")]) == 1


async def test_a_use_during_a_look_is_not_forgotten(nodes: tuple[Node, Node], session_id: str) -> None:
    one, two = nodes
    await begun(one, session_id)
    await one.machine.own(session_id)
    await one.kept.use(session_id)
    taken = await one.take(session_id)
    await two.kept.use(session_id)
    await one.add(session_id, taken)
    assert not (await one.shared.row(session_id)).is_seen
    await one.add(session_id, await one.take(session_id))
    assert (await one.shared.row(session_id)).is_seen


async def test_a_restoration_is_completed_by_the_next_server(nodes: tuple[Node, Node], session_id: str) -> None:
    one, two = nodes
    target = await begun(one, session_id)
    await one.machine.own(session_id)
    await one.machine.write(session_id, "file", "changed")
    await one.machine.finish(session_id)
    await one.shared.begin_restoration(session_id, target.id)  # then it is killed
    await two.machine.kept.bring(session_id, SPEC)
    assert two.machine.files(session_id)["file"] == "changed"
    assert await two.kept.settled(session_id, SPEC)
    assert two.machine.files(session_id)["file"] == "one\n"
    assert (await two.shared.row(session_id)).restoring is None


async def test_without_the_store_nothing_is_listed_that_could_be_lost(
    nodes: tuple[Node, Node], session_id: str, store: MemoryStore
) -> None:
    one, _ = nodes
    await one.machine.own(session_id)
    await one.machine.write(session_id, "file", "one\n")
    store.away = True
    with pytest.raises(WorkspaceStoreError):
        await one.take(session_id)
    store.away = False
    await one.add(session_id, await one.take(session_id))
    assert await one.database.read(lambda c: len(stored.of_session(c, session_id))) == 1


async def test_what_was_stored_for_nothing_is_removed(
    nodes: tuple[Node, Node], session_id: str, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pack is not stored in time, then each one takes longer than the store may take to answer."""
    monkeypatch.setattr(shared, "PUT_S", 0.5)
    monkeypatch.setattr(shared, "STORE_S", 0.3)
    monkeypatch.setattr(packing, "PACK_BYTES", 40_000)
    monkeypatch.setattr(packing, "BLOB_BYTES", 20_000)
    one, _ = nodes
    await begun(one, session_id)
    known = set(store.objects)
    await one.machine.own(session_id)
    await one.machine.write(session_id, "random", randbytes(500_000).hex())
    await one.kept.use(session_id)
    put_at_once = store.put

    async def put_one(key: str, data: bytes) -> None:
        await (put_at_once(key, data) if len(store.objects) == len(known) else asyncio.Event().wait())

    monkeypatch.setattr(store, "put", put_one)
    with pytest.raises(WorkspaceStoreError, match="in time"):
        await one.take(session_id)
    assert set(store.objects) == known

    async def put_slowly(key: str, data: bytes) -> None:
        await asyncio.sleep(0.15)
        await put_at_once(key, data)

    monkeypatch.setattr(shared, "PUT_S", 20)
    monkeypatch.setattr(store, "put", put_slowly)
    await one.add(session_id, await one.take(session_id))
    assert len(store.objects) > len(known) + 3 * UPLOADS


async def test_forks_and_deletions(nodes: tuple[Node, Node], session_id: str, store: MemoryStore) -> None:
    one, two = nodes
    row = await begun(one, session_id)
    fork = await one.database.writer.write(add)
    place = await one.kept.copy(session_id, fork)
    await one.database.writer.write(place, session_id=fork)
    await one.kept.remove(session_id)
    assert not [key for key in store.objects if f"/{session_id}/checkpoints/" in key]
    await two.kept.updated(fork)
    assert {blob.path for blob in await two.shared.repository(fork).files(row.tree_id)} == {b"file", b"large"}


async def test_a_store_cannot_bring_settings_hooks_or_other_repositories(tmp_path: Path, store: MemoryStore) -> None:
    hostile = {"config": "[core]", "hooks/post-update": "#!", "objects/info/alternates": "/etc", "refs/heads/x": "1"}
    source = LocalFactory(tmp_path / "source").open(SandboxConfig("s", "", False, SandboxLimits()))
    await source.start()
    for name, text in {**hostile, "packed-refs": "fine", "objects/ab/" + "c" * 38: "fine"}.items():
        await source.write(name, text.encode())
    objects, fence = SessionObjects(store, "instance", "s", "checkpoints/"), Fence(lambda: False, lambda: None)
    taken = await take(objects, source, Snapshot(), Progress(), fence, tenure=1, max_bytes=2**20)
    assert taken is not None
    (tmp_path / "copy").mkdir()
    await SharedFiles(tmp_path / "copy").write(objects, taken.tree)
    found = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*") if path.is_file()}
    assert found == {"packed-refs", "objects/ab/" + "c" * 38}


def test_copies_of_dead_servers_are_removed(tmp_path: Path) -> None:
    with own_folder(tmp_path) as alive:
        (tmp_path / "dead").mkdir()
        (tmp_path / "dead.lock").touch()
        with own_folder(tmp_path) as other:
            assert sorted(path for path in tmp_path.iterdir() if path.is_dir()) == sorted([alive, other])
        assert alive.is_dir()
    assert list(tmp_path.iterdir()) == []


async def test_a_restoration_of_a_dropped_checkpoint_leaves_the_workspace(
    nodes: tuple[Node, Node], session_id: str
) -> None:
    one, two = nodes
    await begun(one, session_id)
    await one.machine.own(session_id)
    await one.machine.write(session_id, "file", "changed")
    await one.machine.finish(session_id)
    await one.shared.begin_restoration(session_id, "dropped")
    await two.machine.kept.bring(session_id, SPEC)
    assert await two.kept.settled(session_id, SPEC)
    assert two.machine.files(session_id)["file"] == "changed"
    assert (await two.shared.row(session_id)).restoring is None
