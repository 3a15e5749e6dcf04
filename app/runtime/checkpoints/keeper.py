"""The repositories with the checkpoints of this server's sessions: looks at workspaces, comparisons, restorations."""

from __future__ import annotations

import asyncio
import shutil
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from weakref import WeakValueDictionary

import orjson
import structlog

from app.errors import PalimpsestError
from app.runtime.checkpoints.repository import EMPTY_TREE, CheckpointError, Repository, write_whole
from app.runtime.checkpoints.restoring import restore
from app.runtime.checkpoints.taking import Look, TakingRules, load_look, look, save_look
from app.runtime.sandboxes.pool import Sandboxes
from app.sandbox import paths
from app.sandbox.base import MovableSandbox, Sandbox
from app.sessions import SandboxSpec

TAKE_S = 20.0
"""Seconds that a look may take."""
RESTORE_S = 300.0
"""Seconds that a restoration may take; one that was cut off is done again."""
QUIET_SESSIONS = 10_000
"""Sessions of which is known that nothing has used their sandbox since a look."""
MANY_FILES = 2_000
"""Files of a repository at which its objects are packed."""
_PENDING = "palimpsest-restoring"
"""A file in the repository: the checkpoint that is being restored. Whoever uses the workspace next completes it."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Taken:
    """A workspace in its session's repository; `commit` is None if it is empty."""

    commit: str | None = None
    tree: str = EMPTY_TREE
    files: int = 0
    bytes: int = 0


class Restoration:
    """A restoration of a workspace: `save` comes first, then `complete`."""

    def __init__(self, save: Callable[[], Awaitable[Taken]], begin: Callable[[Taken], Awaitable[None]]) -> None:
        self._save = save
        self._begin = begin
        self._saved = Taken()

    async def save(self) -> Taken:
        """The workspace before the restoration, in a commit that is kept."""
        self._saved = await self._save()
        return self._saved

    async def complete(self, target: Taken) -> None:
        """Makes the workspace that of a checkpoint, except for what is not covered. If the server ends meanwhile, the
        next one completes it; after an error, the workspace is as it was saved."""
        try:
            await self._begin(target)
        except (PalimpsestError, TimeoutError):
            await self._begin(self._saved)
            raise


class Checkpoints:
    """One repository per session, in a directory of this machine. All methods raise what the sandbox raises, and
    `CheckpointError` or `GitMissingError`."""

    def __init__(
        self, sandboxes: Sandboxes, folder: Path, rules: TakingRules, *, most: int, repository_bytes: int
    ) -> None:
        """`most` is how many checkpoints a session keeps, and `repository_bytes` the size of its repository above which
        it keeps fewer."""
        self.most = most
        self.repository_bytes = repository_bytes
        self._sandboxes = sandboxes
        self._folder = folder
        self._rules = rules
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._quiet: OrderedDict[str, Taken] = OrderedDict()
        """By session: what a look saw since which nothing has used the sandbox."""
        self._interrupted: set[str] = set()
        """Sessions whose restoration was cut off by the end of an earlier server."""
        sandboxes.on_use = self._note_use
        sandboxes.on_removal.append(self.remove)

    def _note_use(self, session_id: str) -> None:
        self._quiet.pop(session_id, None)

    def _repository(self, session_id: str) -> Repository:
        return Repository(self._folder / f"{paths.check_session_id(session_id)}.git")

    def _lock(self, session_id: str) -> asyncio.Lock:
        return self._locks.setdefault(session_id, asyncio.Lock())

    async def take(self, session_id: str, spec: SandboxSpec, *, held: int = 0) -> Taken:
        """The workspace in a commit that is kept. Not read again if nothing has used the sandbox since the last look;
        `held` is how many leases of it the caller has itself."""
        async with self._lock(session_id):
            if (quiet := self._quiet.get(session_id)) is not None:
                taken = quiet
            else:
                taken = _taken(await self._look(session_id, spec, held))
            if taken.commit is not None:
                await asyncio.to_thread(self._repository(session_id).keep, taken.commit)
            return taken

    async def now(self, session_id: str, spec: SandboxSpec) -> Look:
        """The workspace as it is, in a commit that stays until the next look."""
        async with self._lock(session_id):
            return await self._look(session_id, spec)

    async def _look(self, session_id: str, spec: SandboxSpec, held: int = 0) -> Look:
        """Looks at the workspace; completes first what an earlier server has left of a restoration."""
        lease = self._sandboxes.lease(session_id, spec)
        try:
            if not await lease.sandbox.has_workspace():
                return Look()
            async with asyncio.timeout(TAKE_S if session_id not in self._interrupted else TAKE_S + RESTORE_S):
                sandbox = _movable(await lease.start())
                await self._complete(session_id, sandbox)
                self._quiet[session_id] = Taken()
                found = await self._see(session_id, sandbox)
        except TimeoutError as exc:
            self._quiet.pop(session_id, None)
            raise CheckpointError(f"Reading the workspace took more than {TAKE_S:.0f} seconds.") from exc
        except BaseException:
            self._quiet.pop(session_id, None)
            raise
        finally:
            lease.release()
        # If it was used meanwhile, or can be at any moment, this look may not have seen all.
        if self._quiet.pop(session_id, None) is not None and self._sandboxes.users(session_id) <= held:
            self._quiet[session_id] = _taken(found)
            while len(self._quiet) > QUIET_SESSIONS:
                self._quiet.popitem(last=False)
        return found

    async def _see(self, session_id: str, sandbox: MovableSandbox) -> Look:
        repository = self._repository(session_id)
        await asyncio.to_thread(repository.create)
        earlier = await asyncio.to_thread(load_look, repository)
        try:
            found = await look(sandbox, repository, self._rules, earlier)
        except CheckpointError as error:
            if earlier.commit is None:
                raise
            log.warning("checkpoint_index_dropped", session_id=session_id, reason=error.detail)
            found = await look(sandbox, repository, self._rules, Look())
        await asyncio.to_thread(save_look, repository, found)
        return found

    async def last_look(self, session_id: str) -> Look:
        """The newest look, whenever that was."""
        return await asyncio.to_thread(load_look, self._repository(session_id))

    async def changes(self, session_id: str, before: str, after: str) -> bytes:
        """See `Repository.changes`."""
        return b"" if before == after else await self._repository(session_id).changes(before, after)

    async def patch(self, session_id: str, before: str, after: str, output: IO[bytes]) -> None:
        """See `Repository.patch`."""
        if before != after:
            await self._repository(session_id).patch(before, after, output)

    # Restoring

    @asynccontextmanager
    async def restoring(self, session_id: str, spec: SandboxSpec) -> AsyncIterator[Restoration]:
        """While entered, no checkpoint is taken, so that a run that begins waits before it uses the workspace."""
        async with self._lock(session_id):
            lease = self._sandboxes.lease(session_id, spec)
            try:
                sandbox = _movable(await lease.start())
                yield Restoration(
                    lambda: self._save(session_id, sandbox), lambda target: self._begin(session_id, target, sandbox)
                )
            except TimeoutError as exc:
                raise CheckpointError("Restoring the workspace took too long.") from exc
            finally:
                lease.release()

    async def _save(self, session_id: str, sandbox: MovableSandbox) -> Taken:
        async with asyncio.timeout(TAKE_S + RESTORE_S):
            await self._complete(session_id, sandbox)
            taken = _taken(await self._see(session_id, sandbox))
            if taken.commit is not None:
                await asyncio.to_thread(self._repository(session_id).keep, taken.commit)
            return taken

    async def _begin(self, session_id: str, target: Taken, sandbox: MovableSandbox) -> None:
        repository = self._repository(session_id)
        content = orjson.dumps([target.commit, target.tree])
        await asyncio.to_thread(write_whole, repository.path / _PENDING, content)
        self._interrupted.add(session_id)
        async with asyncio.timeout(RESTORE_S):
            await self._complete(session_id, sandbox)

    async def settled(self, session_id: str, spec: SandboxSpec) -> None:
        """Completes a restoration that an earlier server has left, before anything uses the workspace."""
        if session_id in self._interrupted:
            async with self._lock(session_id):
                lease = self._sandboxes.lease(session_id, spec)
                try:
                    await self._complete(session_id, _movable(await lease.start()))
                finally:
                    lease.release()

    async def _complete(self, session_id: str, sandbox: MovableSandbox) -> None:
        if session_id not in self._interrupted:
            return
        repository = self._repository(session_id)
        pending = repository.path / _PENDING
        commit, tree = orjson.loads(await asyncio.to_thread(pending.read_bytes))
        found = await self._see(session_id, sandbox)
        await restore(sandbox, repository, found.entries, commit, tree)
        await asyncio.to_thread(pending.unlink)
        self._interrupted.discard(session_id)

    # What becomes of repositories

    async def keep_only(self, session_id: str, commits: Collection[str]) -> None:
        """Drops all commits but these, and packs the repository if something was dropped or it has many files."""
        async with self._lock(session_id):
            repository = self._repository(session_id)
            dropped = await repository.keep_only(set(commits))
            _, files = await asyncio.to_thread(repository.size)
            if dropped or files > MANY_FILES:
                await repository.collect()

    async def size(self, session_id: str) -> int:
        """Bytes on disk of a session's repository."""
        return (await asyncio.to_thread(self._repository(session_id).size))[0]

    async def copy(self, source_id: str, target_id: str) -> None:
        """Gives a fork a copy of its parent's repository."""
        async with self._lock(source_id):
            source, target = self._repository(source_id), self._repository(target_id)
            await asyncio.to_thread(source.copy_to, target.path)
            await asyncio.to_thread((target.path / _PENDING).unlink, missing_ok=True)

    async def remove(self, session_id: str) -> None:
        """Removes a session's repository."""
        self._quiet.pop(session_id, None)
        self._interrupted.discard(session_id)
        await asyncio.to_thread(shutil.rmtree, self._repository(session_id).path, ignore_errors=True)

    async def recover(self, known: Collection[str]) -> None:
        """At the start: removes repositories of sessions that are not `known`, and what git has left unfinished in the
        others, and finds restorations that were cut off."""
        self._interrupted |= await asyncio.to_thread(self._recover, frozenset(known))

    def _recover(self, known: Collection[str]) -> set[str]:
        found: set[str] = set()
        for path in sorted(self._folder.iterdir()) if self._folder.is_dir() else ():
            if path.stem not in known:
                shutil.rmtree(path, ignore_errors=True)
                continue
            if (path / _PENDING).is_file():
                found.add(path.stem)
            _delete([*path.glob("*.lock"), *path.glob("refs/**/*.lock"), *path.glob("objects/pack/tmp_*")])
        return found

    async def complete_all(self, specs: Iterable[tuple[str, SandboxSpec]]) -> None:
        """Completes the restorations that `recover` has found, as far as their sandboxes are available."""
        for session_id, spec in specs:
            try:
                await self.settled(session_id, spec)
            except PalimpsestError as error:
                log.warning("restoration_left", session_id=session_id, reason=error.detail)

    @property
    def interrupted(self) -> frozenset[str]:
        """The sessions whose restoration was cut off and not completed yet."""
        return frozenset(self._interrupted)


def _taken(found: Look) -> Taken:
    return Taken(found.commit, found.tree, found.files, found.bytes)


def _movable(sandbox: Sandbox) -> MovableSandbox:
    assert isinstance(sandbox, MovableSandbox)
    return sandbox


def _delete(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(OSError):
            path.unlink()
