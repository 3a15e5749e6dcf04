"""Files of a session's workspace: list, read, write, and all of them as an archive."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Literal

from sqlalchemy import Connection

from app.db.engine import Database
from app.db.repositories import sessions
from app.errors import NotFoundError, TooLargeError
from app.runtime.lease import Lease
from app.runtime.sandboxes import Sandboxes
from app.runtime.values.files import FileList, FileView
from app.runtime.values.history import RawOutput
from app.sandbox.base import FileInfo, OpenFile, Sandbox
from app.sessions import Session

LISTED_FILES = 10_000
"""Maximum entries listed of one directory."""

TURN_S = 5.0
"""Seconds that a request waits for a sandbox before it is refused."""


class FileService:
    """Accesses files in the sandboxes of sessions, each held while it is used."""

    def __init__(self, database: Database, sandboxes: Sandboxes, fence: Callable[[Connection], None]) -> None:
        """`fence` raises `SupersededError` if this server no longer holds the database."""
        self._database = database
        self._sandboxes = sandboxes
        self._fence = fence

    async def list(self, session_id: str, path: str) -> FileList:
        """The entries of a directory; an empty path is the workspace itself."""
        lease = await self._lease(session_id)
        try:
            await lease.admit(TURN_S)
            found = await lease.sandbox.list(path or ".", limit=LISTED_FILES + 1)
        finally:
            lease.release()
        items = tuple(_file_view(info) for info in found[:LISTED_FILES])
        return FileList(path=path or ".", items=items, truncated=len(found) > LISTED_FILES)

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
        """Writes a file. Raises `SupersededError` if another server has taken over."""
        lease = await self._lease(session_id)
        try:
            await lease.admit(TURN_S)
            # After the wait, in which another server may have taken over.
            await self._database.read(self._fence)
            existed = await _exists(lease.sandbox, path)
            await lease.sandbox.write(path, data)
        finally:
            lease.release()
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

    async def _lease(self, session_id: str) -> Lease:
        session = await self._session(session_id)
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


_EARLIEST = datetime(1, 1, 1, tzinfo=UTC).timestamp()
_LATEST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
"""A command may set a file's time to a year beyond datetime's range."""


async def _exists(sandbox: Sandbox, path: str) -> bool:
    try:
        await sandbox.read(path, max_bytes=0)
    except NotFoundError:
        return False
    except TooLargeError:
        return True
    return True


def _file_view(info: FileInfo) -> FileView:
    modified = datetime.fromtimestamp(min(max(info.modified, _EARLIEST), _LATEST) // 1, UTC)
    return FileView(path=info.path, type=info.type, size=info.size, modified_at=modified)
