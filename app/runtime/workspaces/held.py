"""A workspace that is here: who changes it, and its snapshots, which are taken one at a time in the background."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import structlog

from app.db.engine import Database
from app.db.repositories import workspaces
from app.errors import PalimpsestError, StorageError, TooLargeError, WorkspaceStoreError
from app.messages import now
from app.runtime.sandboxes.pool import Sandboxes
from app.runtime.workspaces import claims
from app.runtime.workspaces.cache import TreeCache
from app.runtime.workspaces.reading import load
from app.runtime.workspaces.store import ObjectMissingError, ObjectStore, SessionObjects
from app.runtime.workspaces.taking import Fence, Progress, Snapshot, superseded, take
from app.sandbox.base import MovableSandbox
from app.sessions import SandboxSpec

INTERVAL_S = 30.0
"""Least seconds between the beginnings of two snapshots while a session works."""
PATIENCE_S, PATIENCE_MOST_S = 5.0, 60.0
"""Seconds that a command waits while a snapshot reads the workspace. Then the snapshot gives way; the next one may take
twice as long, and does not store again what this one has stored."""
RETRY_S, RETRY_MOST_S = 5.0, 60.0
"""Seconds until a failed snapshot is tried again: the first time and at most."""
LOOK_S = 0.5
"""Seconds between checks of whether a failed snapshot was retried."""
SANDBOX_RETRIES = 5
"""Times that a snapshot is tried again whose sandbox has failed."""
FINAL_WAIT_S = 30.0
"""Seconds that the end of a session's work, or a request that has changed files, waits for the snapshot: another
machine may take over right after."""
AT_ONCE = 2
"""Snapshots taken at the same time: each has up to 50 MiB in memory, and uses a core."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """The store, the database's id, under which it has its snapshots, and this server: `data_dir` is the id of its data
    directory, `node` its own in a cluster. `max_bytes` is the limit of a workspace."""

    store: ObjectStore
    instance_id: str
    data_dir: str
    cache: TreeCache
    max_bytes: int
    node: str | None = None

    def objects(self, session_id: str, part: str = "") -> SessionObjects:
        return SessionObjects(self.store, self.instance_id, session_id, part)


@dataclass(slots=True, eq=False)
class Held:
    """A session's workspace on this machine. `users` are the commands and writes that are running; `dirty` is whether
    files may have changed since the newest snapshot; `litter` are packs in the store that nothing uses. `lost` is set
    once another holder has been found, and `epoch` is that of the owner whose run may use the workspace at any time.
    `changes` counts commands and writes, of which the newest snapshot has `stored`; `error` is why the last attempt
    failed."""

    session_id: str
    spec: SandboxSpec
    objects: SessionObjects
    tenure: int
    snapshot_id: str | None
    machine: str
    users: int = 0
    dirty: bool = False
    lost: bool = False
    epoch: int | None = None
    changes: int = 0
    stored: int = 0
    error: PalimpsestError | None = None
    task: asyncio.Task[None] | None = None
    again: bool = False
    timer: asyncio.TimerHandle | None = None
    failures: int = 0
    patience_s: float = PATIENCE_S
    begun_at: float | None = None
    gives_way: bool = False
    progress: Progress = field(default_factory=Progress)
    litter: set[str] = field(default_factory=set)
    has_read: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.has_read.set()

    @property
    def is_due(self) -> bool:
        return self.dirty and (self.begun_at is None or time.monotonic() - self.begun_at >= INTERVAL_S)

    @property
    def is_clean(self) -> bool:
        """Whether nothing has to be remembered of it."""
        if self.epoch is not None or self.users:
            return False
        return self.lost or (self.task is None and self.timer is None and not self.dirty)

    async def enter(self) -> None:
        """Waits until no snapshot is reading the workspace. Afterward `leave` has to be called."""
        self.users += 1
        try:
            if not self.has_read.is_set():
                try:
                    async with asyncio.timeout(self.patience_s):
                        await self.has_read.wait()
                except TimeoutError:
                    self.gives_way = True
                    await self.has_read.wait()
        except BaseException:
            self.users -= 1
            raise

    def leave(self) -> None:
        self.users -= 1
        self.change()

    def change(self) -> None:
        """Files may have changed."""
        self.changes += 1
        self.dirty = True

    async def end(self) -> None:
        """Gives a running snapshot up."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self.again = False
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait({self.task})


async def until_either(work: Coroutine[Any, Any, None], event: asyncio.Event, seconds: float) -> None:
    """Waits for the end of the work or for the event, at most so long."""
    either = {asyncio.create_task(work), asyncio.create_task(event.wait())}
    _, late = await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in late:
        task.cancel()


class Storing:
    """Takes the snapshots of this machine. `failing` is the number of workspaces whose last snapshot failed."""

    def __init__(self, database: Database, sandboxes: Sandboxes, check: Callable[[], Awaitable[None]]) -> None:
        """`check` raises `WorkspaceStoreError` if the store does not answer."""
        self._database = database
        self._sandboxes = sandboxes
        self._check = check
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._failing: set[str] = set()
        self.released: Callable[[Held], None] = lambda _: None
        """Called after each snapshot."""
        self.taken = 0
        self.reading_s = 0.0
        """Seconds in which commands would have had to wait."""

    @property
    def failing(self) -> int:
        return len(self._failing)

    def forget(self, session_id: str) -> None:
        """The session is gone, or its workspace is elsewhere."""
        self._failing.discard(session_id)

    def begin(self, held: Held, place: Place) -> None:
        """Begins a snapshot in the background; if one is being taken, another one follows it."""
        if held.lost:
            return
        if held.task is not None:
            held.again = True
            return
        if held.timer is not None:
            held.timer.cancel()
            held.timer = None
        held.begun_at = time.monotonic()
        held.error = None
        held.task = asyncio.create_task(self._store(held, place), name=f"snapshot-{held.session_id}")
        held.task.add_done_callback(lambda _: self._ended(held, place))

    async def until_taken(self, held: Held) -> None:
        """Waits for the snapshot that is being taken, and for the one that follows it if files have changed since."""
        while held.task is not None:
            await asyncio.wait({held.task})

    async def finish(self, held: Held, place: Place) -> None:
        """Files were changed by a request: returns once they are in a snapshot. While a command of a run is running
        that cannot be: then the snapshot is taken at the end of its step, which also tries again if the store fails.

        Raises `WorkspaceStoreError`, `TooLargeError` (code `workspace_too_large`), or `ConflictError` if the
        workspace is elsewhere now: the change is only here then. Without a run, it is tried again in the background.
        """
        wanted = held.changes
        try:
            async with asyncio.timeout(FINAL_WAIT_S):
                while held.stored < wanted and not held.users:
                    if held.lost:
                        raise claims.elsewhere()
                    self.begin(held, place)
                    assert held.task is not None
                    await asyncio.wait({held.task})
                    if held.stored < wanted and held.error is not None:
                        raise only_here(held.error)
        except (WorkspaceStoreError, TimeoutError) as error:
            if held.epoch is None:
                late = WorkspaceStoreError(f"Storing takes more than {FINAL_WAIT_S:.0f} seconds.")
                raise only_here(late) if isinstance(error, TimeoutError) else error from None
        if held.stored < wanted:
            # The end of the step takes it, however new the last snapshot is.
            held.begun_at = None

    async def until_stored(self, held: Held) -> None:
        """As `until_taken`, also for a snapshot that has failed and will be tried again."""
        while held.task is not None or held.timer is not None:
            await self.until_taken(held)
            if held.timer is not None:
                await asyncio.sleep(LOOK_S)

    def _ended(self, held: Held, place: Place) -> None:
        held.task = None
        again, held.again = held.again, False
        if again and held.dirty and held.timer is None:
            self.begin(held, place)
        self.released(held)

    async def _store(self, held: Held, place: Place) -> None:
        try:
            async with self._turns:
                await self._attempt(held, place)
        except PalimpsestError as error:
            self._failed(held, place, error)
        except Exception:
            log.exception("snapshot_crashed", session_id=held.session_id)
            # The next change tries again.
            held.dirty = True
            held.error = WorkspaceStoreError("The workspace could not be stored; the server's log has the details.")
            self._failing.add(held.session_id)
        else:
            held.failures = 0
            self._failing.discard(held.session_id)
        finally:
            held.has_read.set()

    def _failed(self, held: Held, place: Place, error: PalimpsestError) -> None:
        if not held.failures or not isinstance(error, WorkspaceStoreError):
            log.warning("snapshot_failed", session_id=held.session_id, code=error.code, reason=error.detail)
        held.failures += 1
        held.error = error
        held.litter.update(held.progress.packs)
        held.progress.clear()
        if not isinstance(error, TooLargeError):
            held.dirty = True
        # What keeps failing in a sandbox is tried again after the next change.
        if isinstance(error, WorkspaceStoreError | StorageError) or (held.failures <= SANDBOX_RETRIES and held.dirty):
            self._failing.add(held.session_id)
            delay_s = min(RETRY_MOST_S, RETRY_S * 2 ** (held.failures - 1))
            held.timer = asyncio.get_running_loop().call_later(delay_s, self._retry, held, place)

    def _retry(self, held: Held, place: Place) -> None:
        held.timer = None
        self.begin(held, place)

    async def _attempt(self, held: Held, place: Place) -> None:
        lease = self._sandboxes.lease(held.session_id, held.spec)
        try:
            sandbox = lease.sandbox
            assert isinstance(sandbox, MovableSandbox)
            if not await sandbox.has_workspace():
                held.dirty = False
                held.stored = held.changes
                return
            await self._check()
            await lease.start()
            base = await self._base(held, place)
            if held.users:
                return  # the next step's end takes one
            held.has_read.clear()
            held.dirty = held.gives_way = False
            changes = held.changes
            as_of, begun = now(), time.monotonic()

            def has_read() -> None:
                self.reading_s += time.monotonic() - begun
                held.has_read.set()

            fence = Fence(lambda: held.gives_way, has_read)
            taken = await take(
                held.objects, sandbox, base, held.progress, fence, tenure=held.tenure, max_bytes=place.max_bytes
            )
        finally:
            held.has_read.set()
            lease.release()
        if taken is None:
            held.dirty = True
            held.patience_s = min(PATIENCE_MOST_S, held.patience_s * 2)
            return
        held.patience_s = PATIENCE_S
        if not await self._record(held, taken, as_of):
            return
        held.stored = changes
        await asyncio.to_thread(place.cache.save, held.session_id, taken)
        unused = superseded(held.objects, base, taken, held.litter | held.progress.packs.keys())
        held.progress.clear()
        await held.objects.store.delete(unused)
        held.litter.clear()

    async def _record(self, held: Held, taken: Snapshot, as_of: datetime) -> bool:
        recorded = await self._database.writer.write(
            lambda c: workspaces.record(c, held.session_id, held.tenure, taken.id, as_of),
            session_id=held.session_id,
        )
        if recorded:
            self.taken += 1
            held.snapshot_id = taken.id
        else:
            held.lost = True
            self.forget(held.session_id)
            log.warning("workspace_moved", session_id=held.session_id)
        return recorded

    async def _base(self, held: Held, place: Place) -> Snapshot:
        """The newest snapshot, from this machine's cache or the store."""
        if held.snapshot_id is None:
            return Snapshot()
        cached = await asyncio.to_thread(place.cache.load, held.session_id, held.snapshot_id)
        if cached is not None:
            return cached
        try:
            return await load(held.objects, held.snapshot_id)
        except ObjectMissingError:
            # The store has lost it; everything is stored again.
            return Snapshot()


def only_here(error: PalimpsestError) -> PalimpsestError:
    """The error for a change that was made, but is not stored."""
    detail = f"The change was made, but it is not stored for other machines yet: {error.detail}"
    if isinstance(error, TooLargeError):
        return TooLargeError(detail, code="workspace_too_large")
    return WorkspaceStoreError(detail)
