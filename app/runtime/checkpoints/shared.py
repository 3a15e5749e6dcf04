"""Repositories that several servers share. The authoritative ones are in a store, as snapshots like those of
workspaces; the database says which is the newest. Each server works on its own copies, which it updates before it uses
them."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog
from sqlalchemy import Connection

from app.db.engine import Database
from app.db.repositories import checkpoint_repositories as repositories
from app.db.repositories import checkpoints, sessions
from app.db.repositories.checkpoint_repositories import StoredRepository
from app.errors import ConflictError, PalimpsestError, WorkspaceStoreError
from app.runtime.checkpoints.looks import Seen
from app.runtime.checkpoints.repository import EMPTY_TREE, CheckpointError, Repository
from app.runtime.checkpoints.shared_files import SharedFiles, read_seen
from app.runtime.workspaces.cache import TreeCache
from app.runtime.workspaces.copies import copy_objects
from app.runtime.workspaces.reading import load
from app.runtime.workspaces.store import ObjectMissingError, SessionObjects
from app.runtime.workspaces.taking import Fence, Progress, Snapshot, superseded, take
from app.runtime.workspaces.tree import Tree, with_seen

STORE_S = 5.0
"""Seconds that a checkpoint waits until the store answers: the end of a run waits with it."""
PUT_S = 20.0
"""Seconds that storing one object may take, of at most 8 MiB; a repository may have many."""
ATTEMPTS = 3
"""Attempts to read a snapshot while another server replaces it."""
MAX_FILES = 200_000
SWEEP_S = 600.0
"""Seconds between checks for copies that can be removed."""
UNUSED_S = 3600.0
"""Seconds after which a copy that nobody has used is removed here; the store has it."""
_NO_FENCE = Fence(lambda: False, lambda: None)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Recording:
    """A stored repository, to be recorded in the transaction that adds its checkpoint. `known` is the row as it was
    before; `seen_uses` is None if the look may not have seen the workspace as it is now."""

    known: StoredRepository
    snapshot_id: str | None
    seen_uses: int | None

    def record(self, connection: Connection) -> None:
        """Raises `ConflictError` (code `workspace_elsewhere`) if another server has recorded one meanwhile."""
        if not repositories.record(connection, self.known, self.snapshot_id, self.seen_uses):
            detail = "Another node has changed the session's checkpoints meanwhile; try again."
            raise ConflictError(detail, code="workspace_elsewhere")


@dataclass(frozen=True, slots=True)
class Taken:
    """A workspace in its session's repository; `commit` is None if it is empty. `recording` is what has to be recorded
    with the checkpoint if servers share the repository."""

    commit: str | None = None
    tree: str = EMPTY_TREE
    files: int = 0
    bytes: int = 0
    recording: Recording | None = None

    @classmethod
    def of(cls, seen: Seen, recording: Recording | None) -> Taken:
        return cls(seen.commit, seen.tree, seen.files, seen.bytes, recording)


@dataclass(frozen=True, slots=True)
class Shelf:
    """The store of the repositories: `objects` are those of a session. `check` raises `WorkspaceStoreError` if the
    store does not answer. `listed` returns the sessions that have something in it; None if others remove what deleted
    sessions have left there."""

    objects: Callable[[str], SessionObjects]
    check: Callable[[], Awaitable[None]]
    listed: Callable[[], Awaitable[Collection[str]]] | None = None


@dataclass(slots=True)
class _Copy:
    """What a copy here was made from, and when it was last used."""

    snapshot_id: str | None
    used_at: float


@dataclass(frozen=True, slots=True)
class _Unrecorded:
    """A snapshot that was stored; which one it replaces, and its new packs."""

    base: Snapshot
    taken: Snapshot
    packs: Collection[str]


class SharedRepositories:
    """The copies of one server. A caller serializes the calls for one session."""

    def __init__(self, database: Database, shelf: Shelf, folder: Path, former: Path, max_bytes: int) -> None:
        """`folder` is this server's alone; `former` has the repositories from before sessions could move. `max_bytes`
        is the most that a repository may have."""
        self._database = database
        self._shelf = shelf
        self._folder = folder
        self._former = former
        self._max_bytes = max_bytes
        self._cache = TreeCache(folder / "trees")
        self._copies: dict[str, _Copy] = {}
        self._unrecorded: dict[str, _Unrecorded] = {}
        self._cleaned: set[str] = set()
        self._gone: set[str] = set()

    def repository(self, session_id: str) -> Repository:
        """This server's copy, which may be out of date."""
        return Repository(self._folder / f"{session_id}.git")

    async def row(self, session_id: str) -> StoredRepository:
        return await self._database.read(lambda c: repositories.find(c, session_id))

    async def _write(self, session_id: str, work: Callable[[Connection], None]) -> None:
        await self._database.writer.write(work, session_id=session_id)

    async def use(self, session_id: str) -> None:
        """The workspace is opened for changes, so that the newest look does not show it. Raises `NotFoundError`."""

        def work(connection: Connection) -> None:
            sessions.row(connection, session_id)
            repositories.use(connection, session_id)

        await self._write(session_id, work)

    async def begin_restoration(self, session_id: str, checkpoint_id: str) -> None:
        """From now on, whoever uses the workspace completes the restoration first."""

        def work(connection: Connection) -> None:
            repositories.use(connection, session_id)
            repositories.restore(connection, session_id, checkpoint_id)

        await self._write(session_id, work)

    async def restored_to(self, row: StoredRepository) -> tuple[str | None, str, str | None] | None:
        """The commit and the tree of the checkpoint whose restoration is not completed, and the commit of the workspace
        before it. None if the checkpoint was dropped."""
        rows = await self._database.read(lambda c: checkpoints.of_session(c, row.session_id))
        target = next((found for found in rows if found.id == row.restoring), None)
        if target is None:
            return None
        saved = next((found.commit_id for found in reversed(rows) if found.reason == "before_restore"), None)
        return target.commit_id, target.tree_id, saved

    async def end_restoration(self, session_id: str) -> None:
        await self._write(session_id, lambda c: repositories.restore(c, session_id, None))

    # Reading

    async def update(self, session_id: str) -> StoredRepository:
        """Makes the copy here that of the newest snapshot, and returns the row with that. Raises `WorkspaceStoreError`,
        `CheckpointError`, `GitMissingError` and `InvalidSnapshotError`."""
        for _ in range(ATTEMPTS):
            row = await self.row(session_id)
            await self._conclude(row)
            known = self._copies.get(session_id)
            if known is None or known.snapshot_id != row.snapshot_id:
                self._copies.pop(session_id, None)
                try:
                    await self._fetch(row)
                except ObjectMissingError:
                    continue
            self._copies[session_id] = _Copy(row.snapshot_id, time.monotonic())
            return row
        raise CheckpointError("The checkpoints cannot be read: they are being replaced.")

    async def _fetch(self, row: StoredRepository) -> None:
        repository = self.repository(row.session_id)
        if row.snapshot_id is None:
            # What is here may be of a deleted session with the same id.
            await asyncio.to_thread(shutil.rmtree, repository.path, ignore_errors=True)
            former = Repository(self._former / f"{row.session_id}.git")
            await asyncio.to_thread(former.copy_to, repository.path)
            await asyncio.to_thread(repository.create)
            return
        objects = self._shelf.objects(row.session_id)
        snapshot = await load(objects, row.snapshot_id)
        await asyncio.to_thread(repository.create)
        files = SharedFiles(repository.path)
        await files.write(objects, snapshot.tree)
        scan = await files.scan(MAX_FILES)
        entries = await asyncio.to_thread(with_seen, snapshot.tree.entries, scan.entries)
        known = Snapshot(snapshot.id, Tree(entries, snapshot.tree.lists), snapshot.packs)
        await asyncio.to_thread(self._cache.save, row.session_id, known)
        await repository.check_index()

    async def seen(self, session_id: str) -> Seen:
        """What the newest look that was stored has found."""
        for _ in range(ATTEMPTS):
            row = await self.row(session_id)
            if row.snapshot_id is None:
                return Seen()
            known = self._copies.get(session_id)
            if known is not None and known.snapshot_id == row.snapshot_id:
                return await asyncio.to_thread(SharedFiles(self.repository(session_id).path).load_seen)
            objects = self._shelf.objects(session_id)
            with suppress(ObjectMissingError):
                return await read_seen(objects, (await load(objects, row.snapshot_id)).tree)
        raise CheckpointError("The checkpoints cannot be read: they are being replaced.")

    async def known(self, session_id: str) -> Taken | None:
        """The newest checkpoint, if nothing has used the workspace since; then nothing has to be stored."""
        row = await self.row(session_id)
        if not row.is_seen or row.restoring is not None:
            return None
        return Taken.of(await self.seen(session_id), Recording(row, row.snapshot_id, row.uses))

    # Storing

    async def store(self, known: StoredRepository, seen: Seen, *, is_current: bool) -> Recording:
        """Stores the copy here, after a look. `known` is what `update` returned; `is_current` is whether nothing can
        have changed the workspace since the look. Raises as `update`, and `TooLargeError`."""
        session_id = known.session_id
        seen_uses = known.uses if is_current else None
        if seen.commit is None and known.snapshot_id is None:
            return Recording(known, None, seen_uses)
        files = SharedFiles(self.repository(session_id).path)
        await asyncio.to_thread(files.save_seen, seen)
        objects = self._shelf.objects(session_id)
        objects.put_s = PUT_S
        progress = Progress()
        try:
            async with asyncio.timeout(STORE_S):
                await self._shelf.check()
                base = await self._base(objects, known)
                await self._clean(objects, known, base)
            taken = await take(
                objects, files, base, progress, _NO_FENCE, tenure=known.version + 1, max_bytes=self._max_bytes
            )
        except BaseException as error:
            await self._discard(objects, progress)
            if isinstance(error, TimeoutError):
                raise WorkspaceStoreError("The checkpoint could not be stored in time.") from error
            raise
        assert taken is not None
        await asyncio.to_thread(self._cache.save, session_id, taken)
        self._unrecorded[session_id] = _Unrecorded(base, taken, tuple(progress.packs))
        return Recording(known, taken.id, seen_uses)

    async def _discard(self, objects: SessionObjects, progress: Progress) -> None:
        """Removes what was stored for nothing, if the store answers."""
        with suppress(WorkspaceStoreError, TimeoutError):
            async with asyncio.timeout(STORE_S):
                await objects.store.delete([objects.pack(name) for name in progress.packs])

    async def _base(self, objects: SessionObjects, known: StoredRepository) -> Snapshot:
        if known.snapshot_id is None:
            return Snapshot()
        cached = await asyncio.to_thread(self._cache.load, known.session_id, known.snapshot_id)
        return cached or await load(objects, known.snapshot_id)

    async def _clean(self, objects: SessionObjects, known: StoredRepository, base: Snapshot) -> None:
        """Once for each session: removes what others have stored and not recorded. A later version may still be
        recorded."""
        if known.session_id in self._cleaned:
            return
        used = {*base.packs, base.id}
        names = ((key, key.rpartition("/")[2]) for key in await objects.store.list(objects.prefix))
        later = f"{known.version + 1:08d}-"
        await objects.store.delete([key for key, name in names if name < later and name not in used])
        self._cleaned.add(known.session_id)

    async def conclude(self, session_id: str) -> None:
        """Removes what a snapshot has replaced that was recorded in the meantime."""
        if session_id in self._unrecorded:
            await self._conclude(await self.row(session_id))

    async def _conclude(self, row: StoredRepository) -> None:
        left = self._unrecorded.get(row.session_id)
        if left is None or row.snapshot_id != left.taken.id:
            return
        del self._unrecorded[row.session_id]
        self._copies[row.session_id] = _Copy(row.snapshot_id, time.monotonic())
        objects = self._shelf.objects(row.session_id)
        with suppress(WorkspaceStoreError, TimeoutError):
            async with asyncio.timeout(STORE_S):
                await objects.store.delete(superseded(objects, left.base, left.taken, left.packs))

    # Forks and deletions

    async def copy(self, source_id: str, target_id: str) -> Callable[[Connection], None]:
        """Gives a fork a copy in the store; returns what has to be stored with its rows, last."""

        def read(connection: Connection) -> tuple[StoredRepository, list[str]]:
            rows = checkpoints.of_session(connection, source_id)
            return repositories.find(connection, source_id), [row.id for row in rows]

        for _ in range(ATTEMPTS):
            row, ids = await self._database.read(read)
            try:
                if row.snapshot_id is not None:
                    await copy_objects(self._shelf.objects(source_id), self._shelf.objects(target_id), row.snapshot_id)
            except ObjectMissingError:
                continue
            made = StoredRepository(target_id, row.version, row.snapshot_id)

            def place(connection: Connection, made: StoredRepository = made, ids: list[str] = ids) -> None:
                repositories.add(connection, made)
                repositories.keep_only(connection, target_id, ids)

            return place
        raise CheckpointError("The checkpoints cannot be copied: they are being replaced.")

    async def remove(self, session_id: str) -> None:
        """Removes what a deleted session has here and in the store. If that does not answer, `sweep` does it later, as
        on other machines."""
        await self._drop(session_id)
        await asyncio.to_thread(self._remove_files, session_id)
        try:
            await self._shelf.objects(session_id).delete_all()
        except WorkspaceStoreError as error:
            log.warning("checkpoints_left_behind", session_id=session_id, reason=error.detail)

    def _remove_files(self, session_id: str) -> None:
        """Also those of other servers that share the data directory."""
        for path in (self._former / f"{session_id}.git", *self._folder.parent.glob(f"*/{session_id}.git")):
            shutil.rmtree(path, ignore_errors=True)
        for path in self._folder.parent.glob(f"*/{self._cache.folder.name}/{session_id}"):
            path.unlink(missing_ok=True)

    async def _drop(self, session_id: str) -> None:
        self._copies.pop(session_id, None)
        self._unrecorded.pop(session_id, None)
        self._cleaned.discard(session_id)
        await asyncio.to_thread(self._cache.remove, session_id)
        await asyncio.to_thread(shutil.rmtree, self.repository(session_id).path, ignore_errors=True)

    async def sweep_regularly(self, locks: Callable[[str], asyncio.Lock]) -> None:
        """Calls `sweep` until it is cancelled."""
        while True:
            await asyncio.sleep(SWEEP_S)
            try:
                await self.sweep(locks)
            except PalimpsestError as error:
                log.warning("checkpoints_not_swept", reason=error.detail)
            except Exception:
                log.exception("checkpoint_sweep_crashed")

    async def sweep(self, locks: Callable[[str], asyncio.Lock]) -> None:
        """Removes copies that nobody has used for a long time or whose session is gone. A fork's repository is in the
        store before its rows exist, so a session counts as gone only at the second look. `locks` has the turns of
        sessions."""
        listed = set() if self._shelf.listed is None else set(await self._shelf.listed())
        known = await self._database.read(lambda c: set(sessions.ids(c)))
        for session_id in (listed - known) & self._gone:
            await self._shelf.objects(session_id).delete_all()
        self._gone = listed - known
        for session_id in list(self._copies):
            async with locks(session_id):
                copy = self._copies.get(session_id)
                is_unused = copy is not None and time.monotonic() - copy.used_at > UNUSED_S
                # What was stored and not recorded yet keeps it.
                if session_id not in known or (is_unused and session_id not in self._unrecorded):
                    await self._drop(session_id)
