"""The repositories with the checkpoints of this server's sessions: looks at workspaces, comparisons, restorations."""

from __future__ import annotations

import asyncio
import shutil
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import IO

import structlog
from sqlalchemy import Connection

from app.db.repositories import checkpoints
from app.db.repositories.checkpoint_repositories import StoredRepository
from app.errors import PalimpsestError
from app.runtime.checkpoints.looks import Look, Seen, last_seen, load_look, release, replace_look, save_look
from app.runtime.checkpoints.repository import CheckpointError, GitMissingError, Repository
from app.runtime.checkpoints.restoring import Goal, Pending, Restoration, Target, recovered, restore
from app.runtime.checkpoints.secrets import Secrets, no_secrets
from app.runtime.checkpoints.shared import SharedRepositories, Taken
from app.runtime.checkpoints.taking import TakingRules, look
from app.runtime.checkpoints.turns import Turns, within
from app.runtime.sandboxes.pool import Sandboxes
from app.runtime.workspaces.keeper import Workspaces
from app.sandbox import paths
from app.sandbox.base import MovableSandbox, Sandbox, Scannable
from app.sessions import SandboxSpec

TAKE_S, READ_S = 20.0, 10.0
"""Seconds that a look may take, and that it reads contents: what it has read until then is kept for the next look."""
RESTORE_S = 300.0
"""Seconds that a restoration may take; one that was cut off is done again."""
QUIET_SESSIONS = 10_000
"""Sessions whose sandbox is known to be unused since the last scan."""
MANY_FILES = 2_000
"""Files of a repository at which its objects are packed."""
_TOO_LONG = "Reading the workspace took too long. Try again; it continues where it stopped."
_NOT_RESTORED = "Restoring the workspace took too long."

log = structlog.get_logger(__name__)


class Checkpoints:
    """One repository per session, in a directory of this machine, or shared with others. All methods raise what the
    sandbox raises, `CheckpointError` or `GitMissingError`, and of shared ones `WorkspaceStoreError`."""

    def __init__(
        self,
        sandboxes: Sandboxes,
        folder: Path,
        rules: TakingRules,
        *,
        most: int,
        repository_bytes: int,
        shared: SharedRepositories | None = None,
        workspaces: Workspaces | None = None,
    ) -> None:
        """`most` is how many checkpoints a session keeps, and `repository_bytes` the size of its repository above which
        it keeps fewer. With `shared`, repositories are not in `folder`; `workspaces` may be on other machines."""
        self.most = most
        self.repository_bytes = repository_bytes
        self._shared = shared
        self._workspaces = workspaces
        self._sandboxes = sandboxes
        self._folder = folder
        self._rules = rules
        self._turns = Turns()
        self._quiet: OrderedDict[str, Seen] = OrderedDict()
        """By session: the result of the last scan, if the sandbox was not used since."""
        self.interrupted: set[str] = set()
        """Sessions whose restoration was cut off when an earlier server ended, and is not completed yet."""
        self.secrets: Callable[[str], Awaitable[Secrets]] = no_secrets
        sandboxes.on_use = self._note_use
        sandboxes.on_removal.append(self.remove)

    def _note_use(self, session_id: str) -> None:
        self._quiet.pop(session_id, None)

    def _repository(self, session_id: str) -> Repository:
        if self._shared is not None:
            return self._shared.repository(paths.check_session_id(session_id))
        return Repository(self._folder / f"{paths.check_session_id(session_id)}.git")

    async def _update(self, session_id: str) -> StoredRepository | None:
        """Makes the repository here the newest one; the row of a shared one."""
        return None if self._shared is None else await self._shared.update(session_id)

    async def use(self, session_id: str) -> None:
        """Called before commands change the workspace, or after a request has; also when a secret was set."""
        self._note_use(session_id)
        if self._shared is not None:
            await self._shared.use(session_id)

    async def take(
        self,
        session_id: str,
        spec: SandboxSpec,
        *,
        held: int = 0,
        epoch: int | None = None,
        has_read: Callable[[], None] = lambda: None,
    ) -> Taken:
        """The workspace in a commit that is kept. Not read again if nothing has used the sandbox since the last look;
        `held` is how many leases of it the caller, the owner with this `epoch`, has itself. `has_read` is called when
        the workspace has been read."""
        async with self._turns.of_checkpoint(session_id):
            if (known := await self._known(session_id)) is not None:
                has_read()
                return known
            if self._workspaces is not None and epoch is not None:
                await self._workspaces.bring(session_id, spec, epoch)
            row = await self._update(session_id)
            found = await self._look(session_id, spec, row, held)
            has_read()
            return await self._keep(session_id, found, row)

    async def _known(self, session_id: str) -> Taken | None:
        """The newest look, which was kept, if nothing has used the sandbox since."""
        if self._shared is not None:
            return await self._shared.known(session_id)
        quiet = self._quiet.get(session_id)
        return None if quiet is None else await self._keep(session_id, quiet, None)

    async def _keep(self, session_id: str, found: Seen, row: StoredRepository | None) -> Taken:
        repository = self._repository(session_id)
        if found.commit is not None:
            await asyncio.to_thread(repository.keep, found.commit)
        recording = None
        if self._shared is not None and row is not None:
            recording = await self._shared.store(row, found, is_current=session_id in self._quiet)
        return Taken.of(found, recording)

    async def now(self, session_id: str, spec: SandboxSpec) -> tuple[Seen, datetime | None]:
        """The workspace as it is, in a commit that stays until the next look; and its time if it is on another machine,
        whose newest snapshot is used. For callers that have it `held`."""
        row = await self._update(session_id)
        if self._shared is not None and row is not None:
            if row.is_seen and row.restoring is None:
                return await self._shared.seen(session_id), None
            # Another server may be restoring it.
            row = row._replace(restoring=None)
        view = None if self._workspaces is None else await self._workspaces.view(session_id, spec)
        if view is not None:
            async with within(TAKE_S, _TOO_LONG):
                return await self._seen(session_id, view, READ_S), view.as_of
        return await self._look(session_id, spec, row), None

    async def _look(self, session_id: str, spec: SandboxSpec, row: StoredRepository | None, held: int = 0) -> Seen:
        """Looks at the workspace; completes first what an earlier server has left of a restoration."""
        lease = self._sandboxes.lease(session_id, spec)
        is_left = self._is_left(session_id, row)
        self._quiet[session_id] = found = Seen()
        try:
            async with within(TAKE_S + RESTORE_S if is_left else TAKE_S, _TOO_LONG):
                if await lease.sandbox.has_workspace():
                    sandbox = _movable(await lease.start())
                    await self._complete(session_id, sandbox, row)
                    self._quiet[session_id] = Seen()
                    found = await self._seen(session_id, sandbox, READ_S)
        except BaseException:
            self._quiet.pop(session_id, None)
            raise
        finally:
            lease.release()
            self._sandboxes.forget_unstarted(session_id)
        # If it was used meanwhile, or can be at any moment, this look may not have seen all.
        if self._quiet.pop(session_id, None) is not None and self._sandboxes.users(session_id) <= held:
            self._quiet[session_id] = found
            if len(self._quiet) > QUIET_SESSIONS:
                self._quiet.popitem(last=False)
        return found

    async def _see(self, session_id: str, files: Scannable, seconds: float = RESTORE_S) -> tuple[Look, Look]:
        """The look before, and one that is not kept yet."""
        repository = self._repository(session_id)
        await asyncio.to_thread(repository.create)
        earlier = await asyncio.to_thread(load_look, repository)
        secrets = await self.secrets(session_id)
        try:
            return earlier, await look(files, repository, self._rules, earlier, secrets, seconds=seconds)
        except CheckpointError as error:
            if earlier.commit is None:
                raise
            log.warning("checkpoint_index_dropped", session_id=session_id, reason=error.detail)
            return earlier, await look(files, repository, self._rules, Look(), secrets, seconds=seconds)

    async def _seen(self, session_id: str, files: Scannable, seconds: float = RESTORE_S) -> Seen:
        earlier, found = await self._see(session_id, files, seconds)
        seen = await asyncio.to_thread(replace_look, self._repository(session_id), earlier, found)
        if not found.is_whole:
            raise CheckpointError(_TOO_LONG)
        return seen

    async def last_look(self, session_id: str) -> Seen:
        """What the newest look has found, whenever that was; of shared repositories the newest that was stored."""
        async with nullcontext() if self._shared is None else self._turns.lock(session_id):
            return await self._last_look(session_id)

    async def _last_look(self, session_id: str) -> Seen:
        if self._shared is not None:
            return await self._shared.seen(session_id)
        return await asyncio.to_thread(last_seen, self._repository(session_id))

    def held(self, session_id: str) -> asyncio.Lock:
        """While entered, nothing is dropped from a session's repository: what `now` has found can be compared."""
        return self._turns.lock(session_id)

    async def updated(self, session_id: str) -> Seen:
        """As `last_look`, once the repository here has all checkpoints. For callers that have it `held`."""
        await self._update(session_id)
        return await self._last_look(session_id)

    async def changes(self, session_id: str, before: str, after: str) -> bytes:
        """See `Repository.changes`. For callers that have it `held`."""
        return b"" if before == after else await self._repository(session_id).changes(before, after)

    async def patch(self, session_id: str, before: str, after: str, output: IO[bytes]) -> None:
        """See `Repository.patch`. For callers that have it `held`."""
        if before != after:
            await self._repository(session_id).patch(before, after, output)

    # Restoring

    @asynccontextmanager
    async def restoring(self, session_id: str, spec: SandboxSpec) -> AsyncIterator[Restoration]:
        """While entered, no checkpoint is taken, so that a run that begins waits before it uses the workspace. Other
        servers must not run the session meanwhile, and the workspace is here."""
        async with self._turns.of_restoration(session_id):
            row = await self._update(session_id)
            lease = self._sandboxes.lease(session_id, spec)
            try:
                sandbox = _movable(await lease.start())
                yield Restoration(
                    lambda: self._save(session_id, sandbox, row),
                    lambda target, saved: self._begin(session_id, target, saved, sandbox),
                )
            finally:
                lease.release()

    async def _save(self, session_id: str, sandbox: MovableSandbox, row: StoredRepository | None) -> Taken:
        async with within(TAKE_S + RESTORE_S, _NOT_RESTORED):
            await self._complete(session_id, sandbox, row)
            self._quiet.pop(session_id, None)
            return await self._keep(session_id, await self._seen(session_id, sandbox), row)

    async def _begin(self, session_id: str, target: Target, saved: Target, sandbox: MovableSandbox) -> Sequence[bytes]:
        goal = Goal(target.commit, target.tree, saved.commit)
        if self._shared is not None:
            await self._shared.begin_restoration(session_id, target.id)
            await self._shared.update(session_id)
        else:
            await asyncio.to_thread(Pending(self._repository(session_id)).save, goal)
            self.interrupted.add(session_id)
        async with within(RESTORE_S, _NOT_RESTORED):
            return await self._restore(session_id, sandbox, goal)

    async def settled(self, session_id: str, spec: SandboxSpec) -> bool:
        """Completes a restoration that an earlier server has left, before anything uses the workspace. False if another
        server is about to do so."""
        if self._shared is None:
            if session_id in self.interrupted:
                await self._settle(session_id, spec)
            return True
        if (await self._shared.row(session_id)).restoring is None:
            return True
        async with self._sandboxes.unused(session_id) as is_free:
            if is_free:
                await self._settle(session_id, spec)
            return is_free

    async def _settle(self, session_id: str, spec: SandboxSpec) -> None:
        async with within(RESTORE_S, _NOT_RESTORED), self._turns.of_restoration(session_id):
            row = await self._update(session_id)
            if self._is_left(session_id, row):
                lease = self._sandboxes.lease(session_id, spec)
                try:
                    await self._complete(session_id, _movable(await lease.start()), row)
                finally:
                    lease.release()

    def _is_left(self, session_id: str, row: StoredRepository | None) -> bool:
        """Whether a restoration is to be completed."""
        return session_id in self.interrupted if row is None else row.restoring is not None

    async def _complete(self, session_id: str, sandbox: MovableSandbox, row: StoredRepository | None) -> None:
        if not self._is_left(session_id, row):
            return
        goal: Goal | None
        if self._shared is not None and row is not None:
            found = await self._shared.restored_to(row)
            goal = None if found is None else Goal(*found)
        else:
            goal = await asyncio.to_thread(Pending(self._repository(session_id)).load)
        if goal is not None:
            await self._restore(session_id, sandbox, goal)
        else:
            detail = "The checkpoint being restored cannot be read, so the workspace stays as it is; restore one again."
            log.error("restoration_dropped", session_id=session_id, detail=detail)
            await self._end_restoration(session_id)

    async def _restore(self, session_id: str, sandbox: MovableSandbox, goal: Goal) -> Sequence[bytes]:
        async with nullcontext() if self._workspaces is None else self._workspaces.using(session_id):
            repository = self._repository(session_id)
            earlier, found = await self._see(session_id, sandbox)
            await asyncio.to_thread(save_look, repository, found)
            skipped = await restore(sandbox, repository, found, goal, await self.secrets(session_id))
            await asyncio.to_thread(release, earlier, found)
        await self._end_restoration(session_id)
        return skipped

    async def _end_restoration(self, session_id: str) -> None:
        if self._shared is not None:
            await self._shared.end_restoration(session_id)
            return
        await asyncio.to_thread(Pending(self._repository(session_id)).clear)
        self.interrupted.discard(session_id)

    # What becomes of repositories

    async def keep_only(self, session_id: str, commits: Collection[str]) -> None:
        """Drops all commits but these, and packs the repository if something was dropped or it has many files."""
        async with self._turns.lock(session_id):
            await self._update(session_id)
            repository = self._repository(session_id)
            dropped = await repository.keep_only(set(commits))
            _, files = await asyncio.to_thread(repository.size)
            if dropped or files > MANY_FILES:
                await repository.collect()

    async def size(self, session_id: str) -> int:
        """Bytes on disk of a session's repository."""
        async with self._turns.lock(session_id):
            await self._update(session_id)
        return (await asyncio.to_thread(self._repository(session_id).size))[0]

    async def copy(self, source_id: str, target_id: str) -> Callable[[Connection], None]:
        """Gives a fork a copy of its parent's repository; returns what has to be stored with its rows, last."""
        if self._shared is not None:
            return await self._shared.copy(source_id, target_id)
        async with self._turns.lock(source_id):
            source, target = self._repository(source_id), self._repository(target_id)
            await asyncio.to_thread(source.copy_to, target.path)
            await asyncio.to_thread(Pending(target).clear)
        try:
            kept = await target.commits()
        except (CheckpointError, GitMissingError) as error:
            log.warning("checkpoints_not_copied", session_id=source_id, reason=error.detail)
            kept = set()
        # Until the fork's rows are copied, the parent may get further ones.
        return lambda connection: checkpoints.keep_only(connection, target_id, kept)

    async def remove(self, session_id: str) -> None:
        """Removes a session's repository once nothing uses it."""
        async with self._turns.lock(session_id):
            self._quiet.pop(session_id, None)
            self.interrupted.discard(session_id)
            if self._shared is not None:
                await self._shared.remove(session_id)
            else:
                await asyncio.to_thread(shutil.rmtree, self._repository(session_id).path, ignore_errors=True)

    async def conclude(self, session_id: str) -> None:
        """Removes what the last checkpoint has replaced in the store, once it is recorded."""
        if self._shared is not None:
            async with self._turns.lock(session_id):
                await self._shared.conclude(session_id)

    async def sweep_regularly(self) -> None:
        """See `SharedRepositories.sweep_regularly`."""
        if self._shared is not None:
            await self._shared.sweep_regularly(self._turns.lock)

    async def recover(self, known: Collection[str]) -> None:
        """At the start: removes repositories of sessions that are not `known`, and what git has left unfinished in the
        others, and finds restorations that were cut off."""
        if self._shared is None:  # the copies of shared ones begin empty
            self.interrupted |= await asyncio.to_thread(recovered, self._folder, frozenset(known))

    async def complete_all(self, specs: Iterable[tuple[str, SandboxSpec]]) -> None:
        """Completes the restorations that `recover` has found, as far as their sandboxes are available."""
        for session_id, spec in specs:
            try:
                await self.settled(session_id, spec)
            except PalimpsestError as error:
                log.warning("restoration_pending", session_id=session_id, reason=error.detail)


def _movable(sandbox: Sandbox) -> MovableSandbox:
    assert isinstance(sandbox, MovableSandbox)
    return sandbox
