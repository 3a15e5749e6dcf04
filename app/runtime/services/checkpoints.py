"""Checkpoints of workspaces: what changed since, and going back."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import IO, NamedTuple

import structlog
from sqlalchemy import Connection

from app.db.repositories import checkpoints, nodes, secrets, sessions
from app.db.repositories.checkpoints import StoredCheckpoint
from app.errors import UnavailableError
from app.eventlog.log import StreamItem
from app.runtime.checkpoints.differences import parse_changes
from app.runtime.checkpoints.keeper import Checkpoints
from app.runtime.checkpoints.looks import UNCOVERED, Seen
from app.runtime.checkpoints.restoring import Target
from app.runtime.checkpoints.shared import Taken
from app.runtime.services.files import FileService
from app.runtime.setup import RuntimeSetup
from app.runtime.transactions import checkpoints as transactions
from app.runtime.values.checkpoints import (
    ChangeList,
    Checkpoint,
    CheckpointList,
    FileChange,
    RestoreResult,
    Skipped,
    Uncovered,
    UncoveredPath,
)
from app.runtime.values.history import RawOutput
from app.runtime.values.server import NodeAddress
from app.runtime.vault import read_masking
from app.runtime.workspaces import claims
from app.sandbox.host.base import HostFile
from app.sandbox.paths import clean_name
from app.sessions import Session, workspace_of
from app.tools.masking import MaskedStream, Masking

LISTED_CHANGES = 10_000
"""Maximum files of an answer."""
_PIECE = 1024 * 1024
"""Bytes of a patch that are masked at a time."""

log = structlog.get_logger(__name__)


class CheckpointService:
    """Lists, compares and restores the checkpoints of sessions. Raises `UnavailableError` (code
    `checkpoints_unavailable`) where git is missing."""

    def __init__(self, setup: RuntimeSetup, files: FileService) -> None:
        self._setup = setup
        self._files = files
        self._database = setup.database
        self._restorations: set[asyncio.Task[RestoreResult]] = set()

    async def aclose(self, grace_s: float) -> None:
        """Waits for restorations. One that takes too long is cut off; the next start, or the next use of the workspace,
        completes it."""
        if self._restorations:
            await asyncio.wait(self._restorations, timeout=grace_s)
        for task in self._restorations:
            task.cancel()
        if self._restorations:
            log.warning("restorations_pending", count=len(self._restorations))
            await asyncio.wait(self._restorations)

    @property
    def _keeper(self) -> Checkpoints:
        if self._setup.checkpoints is None:
            raise UnavailableError("Checkpoints are not available on this server.", code="checkpoints_unavailable")
        return self._setup.checkpoints

    async def elsewhere(self, session_id: str) -> NodeAddress | None:
        """The node that runs the session, if that is another one: it looks at the workspace between its commands."""
        workspace_id = workspace_of(await self._session(session_id))
        owner = await self._database.read(lambda c: nodes.address_of_owner(c, workspace_id))
        return None if owner is None or owner.id == self._files.node else owner

    async def list(self, session_id: str) -> CheckpointList:
        """All checkpoints of a session, oldest first; of a sub-agent, those of its parent."""
        session_id = workspace_of(await self._session(session_id))
        rows = await self._database.read(lambda c: checkpoints.of_session(c, session_id))
        look = await self._keeper.last_look(session_id)
        return CheckpointList(items=tuple(_view(row) for row in rows), not_covered=_uncovered(look))

    async def changes(self, session_id: str, start: str | None, end: str | None) -> ChangeList:
        """The files that differ between two checkpoints: by default the first one, and the workspace as it is now."""
        session_id = workspace_of(await self._session(session_id))
        async with self._compared(session_id, start, end) as (first, last, look, as_of):
            printed = await self._keeper.changes(session_id, first.tree, last.tree)
        found = await asyncio.to_thread(parse_changes, printed, LISTED_CHANGES)
        masking = await self._masking(session_id)
        items = await asyncio.to_thread(lambda: tuple(_masked(change, masking) for change in found.items))
        return ChangeList(
            from_checkpoint=first.id,
            to_checkpoint=last.id,
            items=items,
            additions=found.additions,
            deletions=found.deletions,
            truncated=found.files > len(items),
            not_covered=_uncovered(look),
            as_of=as_of,
        )

    async def patch(self, session_id: str, start: str | None, end: str | None) -> RawOutput:
        """The same as a patch for `git apply`, without the values of the session's secrets, in a file that the caller
        closes."""
        session_id = workspace_of(await self._session(session_id))
        masking = await self._masking(session_id)
        file = await asyncio.to_thread(_temporary)
        try:
            async with self._compared(session_id, start, end) as (first, last, _, as_of):
                await self._keeper.patch(session_id, first.tree, last.tree, file)
            if masking:
                await asyncio.to_thread(_mask, file, masking)
            opened = HostFile(os.dup(file.fileno()), "the patch")
        finally:
            await asyncio.to_thread(file.close)
        return RawOutput(size=opened.size, file=opened, as_of=as_of)

    async def restore(self, session_id: str, checkpoint_id: str) -> RestoreResult:
        """Makes the workspace that of a checkpoint, after it has taken another one. Completed even if the caller is
        cancelled; see `aclose`. Raises `NotFoundError`, and `ConflictError` while a run is active, also one of a
        sub-agent (code `session_running`), or a command runs in the background (`command_running`)."""
        restoring = asyncio.create_task(self._restore(session_id, checkpoint_id), name=f"restoration-{session_id}")
        self._restorations.add(restoring)
        restoring.add_done_callback(self._restored)
        return await asyncio.shield(restoring)

    def _restored(self, done: asyncio.Task[RestoreResult]) -> None:
        self._restorations.discard(done)
        done.cancelled() or done.exception()

    async def _restore(self, session_id: str, checkpoint_id: str) -> RestoreResult:
        session = await self._session(session_id)
        row = await self._database.read(lambda c: checkpoints.get(c, session_id, checkpoint_id))
        await self._database.read(lambda c: transactions.check_idle(c, session_id))
        await self._files.check_no_command(session_id)
        async with self._setup.sandboxes.unused(session_id) as is_free:
            if not is_free:
                raise claims.elsewhere()
            await self._files.bring(session)
            saved, skipped = await self._restore_here(session, row)
            if self._setup.workspaces is not None:
                await self._setup.workspaces.store_now(session_id)
            await self._setup.write(session_id, lambda c: transactions.restored(c, session_id, row.id, saved.id))
        await self._keeper.conclude(session_id)
        look = await self._keeper.last_look(session_id)
        return RestoreResult(
            checkpoint=_view(row), saved=_view(saved), not_covered=_uncovered(look), skipped=_skipped(skipped)
        )

    async def _restore_here(self, session: Session, row: StoredCheckpoint) -> tuple[StoredCheckpoint, Sequence[bytes]]:
        """Returns the checkpoint that was taken before, and the paths that were skipped."""
        async with self._keeper.restoring(session.id, session.sandbox) as restoration:
            taken = await restoration.save()
            # A run that starts after this waits for the restoration before it uses the workspace.
            saved = await self._setup.write(session.id, lambda c: _saved(c, row, taken))
            skipped = await restoration.complete(_target(row), _target(saved))
        return saved, skipped

    @asynccontextmanager
    async def _compared(self, session_id: str, start: str | None, end: str | None) -> AsyncIterator[_Comparison]:
        """Both sides of a comparison, and the newest look, in a repository that has both as long as this is entered."""
        session = await self._session(session_id)
        as_of = None
        async with self._keeper.held(session_id):
            # What is dropped from the rows from now on stays in the repository meanwhile.
            first = await self._database.read(lambda c: _first(c, session_id, start))
            last = None if end is None else await self._database.read(lambda c: _side(c, session_id, end))
            if last is not None:
                look = await self._keeper.updated(session_id)
            else:
                look, as_of = await self._keeper.now(session_id, session.sandbox)
                last = _Side(None, look.tree)
            yield _Comparison(_Side(None, last.tree) if first is None else first, last, look, as_of)

    async def _masking(self, session_id: str) -> Masking:
        rows = await self._database.read(lambda c: secrets.of_line(c, session_id))
        return await read_masking(self._setup.vault, rows, session_id, by_line=True)

    async def _session(self, session_id: str) -> Session:
        return await self._database.read(lambda c: sessions.snapshot(c, session_id))


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a comparison: a checkpoint, or the workspace as it is now, without an id."""

    id: str | None
    tree: str


def _first(connection: Connection, session_id: str, start: str | None) -> _Side | None:
    """The side to begin with; None without a checkpoint."""
    if start is not None:
        return _side(connection, session_id, start)
    rows = checkpoints.of_session(connection, session_id)
    return _Side(rows[0].id, rows[0].tree_id) if rows else None


def _side(connection: Connection, session_id: str, checkpoint_id: str) -> _Side:
    row = checkpoints.get(connection, session_id, checkpoint_id)
    return _Side(row.id, row.tree_id)


class _Comparison(NamedTuple):
    """`as_of` is the time of the workspace, if it was on another machine that could not be asked."""

    first: _Side
    last: _Side
    look: Seen
    as_of: datetime | None


def _saved(connection: Connection, row: StoredCheckpoint, taken: Taken) -> tuple[StoredCheckpoint, list[StreamItem]]:
    """Records the workspace before a restoration. Raises `NotFoundError` if the checkpoint was dropped meanwhile."""
    checkpoints.get(connection, row.session_id, row.id)
    return transactions.save(connection, row.session_id, taken)


def _target(row: StoredCheckpoint) -> Target:
    return Target(row.id, row.commit_id, row.tree_id)


def _view(row: StoredCheckpoint) -> Checkpoint:
    return Checkpoint.of(row)


def _uncovered(look: Seen) -> Uncovered:
    items = tuple(UncoveredPath(path=clean_name(path), reason=reason) for path, reason in look.uncovered)
    return Uncovered(items=items, truncated=look.more_uncovered)


def _skipped(found: Sequence[bytes]) -> Skipped:
    return Skipped(items=tuple(map(clean_name, found[:UNCOVERED])), truncated=len(found) > UNCOVERED)


def _masked(change: FileChange, masking: Masking) -> FileChange:
    """Names of files can contain secrets too."""
    if not masking:
        return change
    old_path = None if change.old_path is None else masking.text(change.old_path)
    return change.model_copy(update={"path": masking.text(change.path), "old_path": old_path})


def _mask(file: IO[bytes], masking: Masking) -> None:
    """Masks a file in place. Blocks."""
    stream = MaskedStream(masking)
    with tempfile.TemporaryFile() as output:
        file.seek(0)
        while piece := file.read(_PIECE):
            output.write(stream.feed(piece))
        output.write(stream.feed(b"", final=True))
        output.seek(0)
        file.seek(0)
        file.truncate()
        shutil.copyfileobj(output, file)
    file.flush()


def _temporary() -> IO[bytes]:
    return tempfile.TemporaryFile()
