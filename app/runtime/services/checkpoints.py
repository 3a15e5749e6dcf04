"""Checkpoints of workspaces: what changed since, and going back."""

from __future__ import annotations

import asyncio
import os
import tempfile
from dataclasses import dataclass
from datetime import datetime
from typing import IO, NamedTuple

from app.db.repositories import checkpoints, nodes, sessions
from app.db.repositories.checkpoints import StoredCheckpoint
from app.errors import UnavailableError
from app.runtime.checkpoints.differences import parse_changes
from app.runtime.checkpoints.keeper import Checkpoints
from app.runtime.checkpoints.restoring import Target
from app.runtime.checkpoints.taking import Seen
from app.runtime.services.files import FileService
from app.runtime.setup import RuntimeSetup
from app.runtime.transactions import checkpoints as transactions
from app.runtime.values.checkpoints import (
    ChangeList,
    Checkpoint,
    CheckpointList,
    RestoreResult,
    Uncovered,
    UncoveredPath,
)
from app.runtime.values.history import RawOutput
from app.runtime.values.server import NodeAddress
from app.runtime.workspaces import claims
from app.sandbox.host.base import HostFile
from app.sandbox.paths import clean_name
from app.sessions import Session, Status

LISTED_CHANGES = 10_000
"""Maximum files of an answer."""


class CheckpointService:
    """Lists, compares and restores the checkpoints of sessions. Raises `UnavailableError` (code
    `checkpoints_unavailable`) where git is missing."""

    def __init__(self, setup: RuntimeSetup, files: FileService) -> None:
        self._setup = setup
        self._files = files
        self._database = setup.database

    @property
    def _keeper(self) -> Checkpoints:
        if self._setup.checkpoints is None:
            raise UnavailableError("This server takes no checkpoints.", code="checkpoints_unavailable")
        return self._setup.checkpoints

    async def elsewhere(self, session_id: str) -> NodeAddress | None:
        """The node that runs the session, if that is another one: it looks at the workspace between its commands."""
        owner = await self._database.read(lambda c: nodes.address_of_owner(c, session_id))
        return None if owner is None or owner.id == self._files.node else owner

    async def list(self, session_id: str) -> CheckpointList:
        """All checkpoints of a session, oldest first."""
        await self._session(session_id)
        rows = await self._database.read(lambda c: checkpoints.of_session(c, session_id))
        look = await self._keeper.last_look(session_id)
        return CheckpointList(items=tuple(_view(row) for row in rows), not_covered=_uncovered(look))

    async def changes(self, session_id: str, start: str | None, end: str | None) -> ChangeList:
        """The files that differ between two checkpoints: by default the first one, and the workspace as it is now."""
        first, last, look, as_of = await self._compared(session_id, start, end)
        printed = await self._keeper.changes(session_id, first.tree, last.tree)
        found = await asyncio.to_thread(parse_changes, printed)
        return ChangeList(
            from_checkpoint=first.id,
            to_checkpoint=last.id,
            items=tuple(found[:LISTED_CHANGES]),
            additions=sum(change.additions for change in found),
            deletions=sum(change.deletions for change in found),
            truncated=len(found) > LISTED_CHANGES,
            not_covered=_uncovered(look),
            as_of=as_of,
        )

    async def patch(self, session_id: str, start: str | None, end: str | None) -> RawOutput:
        """The same as a patch for `git apply`, in a file that the caller closes."""
        first, last, _, as_of = await self._compared(session_id, start, end)
        file = await asyncio.to_thread(_temporary)
        try:
            await self._keeper.patch(session_id, first.tree, last.tree, file)
            opened = HostFile(os.dup(file.fileno()), "the patch")
        finally:
            await asyncio.to_thread(file.close)
        return RawOutput(size=opened.size, file=opened, as_of=as_of)

    async def restore(self, session_id: str, checkpoint_id: str) -> RestoreResult:
        """Makes the workspace that of a checkpoint, after it has taken another one. Completed even if the caller is
        cancelled. Raises `NotFoundError`, and `ConflictError` while a run is active (code `session_running`) or a
        command runs in the background (`command_running`)."""
        restoring = asyncio.ensure_future(self._restore(session_id, checkpoint_id))
        restoring.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(restoring)

    async def _restore(self, session_id: str, checkpoint_id: str) -> RestoreResult:
        session = await self._session(session_id)
        row = await self._database.read(lambda c: checkpoints.get(c, session_id, checkpoint_id))
        if session.status is not Status.IDLE:
            raise transactions.running()
        await self._files.check_no_command(session_id)
        async with self._setup.sandboxes.unused(session_id) as is_free:
            if not is_free:
                raise claims.elsewhere()
            await self._files.bring(session)
            saved = await self._restore_here(session, row)
            if self._setup.workspaces is not None:
                await self._setup.workspaces.store_now(session_id)
            await self._setup.write(session_id, lambda c: transactions.restored(c, session_id, row.id, saved.id))
        await self._keeper.conclude(session_id)
        look = await self._keeper.last_look(session_id)
        return RestoreResult(checkpoint=_view(row), saved=_view(saved), not_covered=_uncovered(look))

    async def _restore_here(self, session: Session, row: StoredCheckpoint) -> StoredCheckpoint:
        """Returns the checkpoint that was taken before."""
        async with self._keeper.restoring(session.id, session.sandbox) as restoration:
            taken = await restoration.save()
            # A run that starts after this waits for the restoration before it uses the workspace.
            saved = await self._setup.write(session.id, lambda c: transactions.save(c, session.id, taken))
            await restoration.complete(_target(row), _target(saved))
        return saved

    async def _compared(self, session_id: str, start: str | None, end: str | None) -> _Comparison:
        """Both sides of a comparison, and the newest look, in a repository that has both."""
        session = await self._session(session_id)
        rows = await self._database.read(lambda c: checkpoints.of_session(c, session_id))
        first: _Side | None = _Side(rows[0].id, rows[0].tree_id) if rows else None
        if start is not None:
            first = await self._side(session_id, start)
        as_of = None
        if end is not None:
            last = await self._side(session_id, end)
            await self._keeper.update(session_id)
            look = await self._keeper.last_look(session_id)
        else:
            look, as_of = await self._keeper.now(session_id, session.sandbox)
            last = _Side(None, look.tree)
        return _Comparison(_Side(None, last.tree) if first is None else first, last, look, as_of)

    async def _side(self, session_id: str, checkpoint_id: str) -> _Side:
        row = await self._database.read(lambda c: checkpoints.get(c, session_id, checkpoint_id))
        return _Side(row.id, row.tree_id)

    async def _session(self, session_id: str) -> Session:
        return await self._database.read(lambda c: sessions.snapshot(c, session_id))


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a comparison: a checkpoint, or the workspace as it is now, without an id."""

    id: str | None
    tree: str


class _Comparison(NamedTuple):
    """`as_of` is of when the workspace is, if it was on another machine that could not be asked."""

    first: _Side
    last: _Side
    look: Seen
    as_of: datetime | None


def _target(row: StoredCheckpoint) -> Target:
    return Target(row.id, row.commit_id, row.tree_id)


def _view(row: StoredCheckpoint) -> Checkpoint:
    return Checkpoint.of(row)


def _uncovered(look: Seen) -> Uncovered:
    items = tuple(UncoveredPath(path=clean_name(path), reason=reason) for path, reason in look.uncovered)
    return Uncovered(items=items, truncated=look.more_uncovered)


def _temporary() -> IO[bytes]:
    return tempfile.TemporaryFile()
