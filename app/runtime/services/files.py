"""Files of a session's workspace: list, read, write, and all of them as an archive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

import orjson
from sqlalchemy import Connection

from app.db.engine import Database
from app.db.repositories import sessions
from app.errors import ConflictError
from app.runtime.checkpoints.keeper import Checkpoints
from app.runtime.sandboxes.pool import Sandboxes
from app.runtime.sandboxes.slots import Lease
from app.runtime.values.history import FileList, FileView, RawOutput
from app.runtime.workspaces.keeper import Workspaces
from app.sandbox import paths
from app.sandbox.base import FileInfo, OpenFile
from app.sessions import Session, Status
from app.tools.files import file_exists

LISTED_FILES = 10_000
"""Maximum entries listed of one directory."""

LISTED_BYTES = 2 * 1024 * 1024
"""Maximum bytes of a listing's answer: 10,000 entries with paths of 120 characters. Each entry repeats the directory's
path, which may have 4,095 bytes."""

ENTRY_BYTES = 96
"""Maximum bytes of an entry in the answer without its path."""

TURN_S = 5.0
"""Seconds that a request waits for a sandbox before it is refused."""


class FileService:
    """Accesses files in the sandboxes of sessions, each held while it is used."""

    def __init__(
        self,
        database: Database,
        sandboxes: Sandboxes,
        fence: Callable[[Connection], None],
        workspaces: Workspaces | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        """`fence` raises `SupersededError` if this server no longer holds the database. With `workspaces`, files of a
        workspace on another machine are those of its newest snapshot. `checkpoints` may have a restoration to complete
        first."""
        self._checkpoints = checkpoints
        self._workspaces = workspaces
        self._database = database
        self._sandboxes = sandboxes
        self._fence = fence
        self._building = asyncio.Lock()

    async def list(self, session_id: str, path: str) -> FileList:
        """The entries of a directory; an empty path is the workspace itself. Those beyond `LISTED_FILES` and
        `LISTED_BYTES` are left out."""
        lease = await self._lease(session_id)
        try:
            await lease.admit(TURN_S)
            most = most_listed(path)
            found = await lease.sandbox.list(path or ".", limit=most + 1)
        finally:
            lease.release()
        # In a thread, since ten thousand entries would block the event loop for too long; one listing at a time, since
        # each computing thread delays the event loop by turns of 5 ms.
        async with self._building:
            items = await asyncio.to_thread(lambda: tuple(_within_bounds(found, most)))
        return FileList(path=path or ".", items=items, truncated=len(found) > len(items))

    async def open(self, session_id: str, path: str) -> RawOutput:
        """A file to send; the sandbox is held until it is closed."""
        lease = await self._lease(session_id)
        try:
            file = LeasedFile(await lease.sandbox.open(path), lease)
        except BaseException:
            lease.release()
            raise
        return RawOutput(size=file.size, file=file)

    async def write(self, session_id: str, path: str, data: bytes) -> Literal["created", "replaced"]:
        """Writes a file. With a store of workspaces, it is stored when this returns, unless a run is active, which
        stores it with its own changes. Raises `SupersededError` if another server has taken over, and
        `WorkspaceStoreError`."""
        lease = await self._writable(session_id)
        try:
            await lease.admit(TURN_S)
            # After the wait, in which another server may have taken over.
            await self._database.read(self._fence)
            existed = await file_exists(lease.sandbox, path)
            await lease.sandbox.write(path, data)
        except BaseException:
            if self._workspaces is not None:
                self._workspaces.store_later(session_id)
            raise
        finally:
            lease.release()
        if self._workspaces is not None:
            await self._workspaces.store_now(session_id)
        return "replaced" if existed else "created"

    async def archive(self, session_id: str) -> AsyncIterator[bytes]:
        """The workspace as a tar, in pieces; the sandbox is held until it is closed. The first piece is read here, so
        that errors occur before the response has started."""
        archive = Archive(await self._lease(session_id))
        try:
            await archive.open()
        except BaseException:
            await archive.aclose()
            raise
        return archive

    async def _writable(self, session_id: str) -> Lease:
        """The session's sandbox, whose workspace may be changed. A workspace on another machine is restored here,
        unless that one is working. Raises `ConflictError` (code `workspace_elsewhere`)."""
        if self._workspaces is None:
            return await self._lease(session_id)
        session = await self._session(session_id)
        await self._workspaces.check_before_change(session_id)
        if session.status is not Status.IDLE and await self._workspaces.is_elsewhere(session_id, session.sandbox.kind):
            raise ConflictError("The session runs on another machine; try again there.", code="workspace_elsewhere")
        await self._workspaces.bring(session_id, session.sandbox)
        lease = await self._lease(session_id)
        return replace(lease, sandbox=self._workspaces.fenced(session_id, lease.sandbox))

    async def _lease(self, session_id: str) -> Lease:
        session = await self._session(session_id)
        if self._workspaces is not None:
            view = await self._workspaces.view(session_id, session.sandbox)
            if view is not None:
                return view.lease()
        if self._checkpoints is not None:
            await self._checkpoints.settled(session_id, session.sandbox)
        lease = self._sandboxes.lease(session_id, session.sandbox)
        try:
            # It may have been deleted between the first check and the lease.
            await self._session(session_id)
        except BaseException:
            lease.release()
            raise
        return lease

    async def _session(self, session_id: str) -> Session:
        return await self._database.read(lambda c: sessions.snapshot(c, session_id))


class LeasedFile:
    """A file that is being read. Holds a lease until `aclose`."""

    def __init__(self, file: OpenFile, lease: Lease) -> None:
        self.size = file.size
        self.read = file.read
        self._file = file
        self._lease: Lease | None = lease

    async def aclose(self) -> None:
        await self._file.aclose()
        if self._lease is not None:
            self._lease.release()
            self._lease = None


class Archive:
    """An archive that is being read. Holds a lease until `aclose`."""

    def __init__(self, lease: Lease) -> None:
        self._lease: Lease | None = lease
        self._pieces = lease.sandbox.archive()
        self._first: bytes | None = None

    async def open(self) -> None:
        self._first = await anext(aiter(self._pieces), None)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        piece, self._first = self._first, None
        return piece if piece is not None else await anext(aiter(self._pieces))

    async def aclose(self) -> None:
        if isinstance(self._pieces, AsyncGenerator):
            await self._pieces.aclose()
        if self._lease is not None:
            self._lease.release()
            self._lease = None


def most_listed(path: str) -> int:
    """How many entries of the directory at `path` are read: as many as may be listed, and no more than could fit in the
    answer with the shortest names. Raises the same errors as `Sandbox.list` for an invalid path."""
    above = len("/".join(paths.resolve(path or ".")).encode())
    return min(LISTED_FILES, LISTED_BYTES // (ENTRY_BYTES + above))


def _within_bounds(found: Sequence[FileInfo], most: int) -> Iterator[FileView]:
    """The first `most` entries, or as many of them as fit in the answer."""
    room = LISTED_BYTES
    for info in found[:most]:
        room -= ENTRY_BYTES + len(orjson.dumps(info.path))
        if room < 0:
            return
        yield _file_view(info)


_EARLIEST = datetime(1, 1, 1, tzinfo=UTC).timestamp()
_LATEST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
"""A command may set a file's time to a year beyond datetime's range."""


def _file_view(info: FileInfo) -> FileView:
    modified = datetime.fromtimestamp(min(max(info.modified, _EARLIEST), _LATEST) // 1, UTC)
    return FileView(path=info.path, type=info.type, size=info.size, modified_at=modified)
