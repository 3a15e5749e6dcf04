"""Files of a session's workspace: list, read, write, and all of them as an archive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import IO, Any, Literal

import orjson
from sqlalchemy import Connection, Row

from app.db.repositories import commands, nodes, ownership, parts, sessions
from app.errors import ConflictError, NotFoundError, PalimpsestError, PreconditionFailedError, StaleOwnerError
from app.messages import ToolStatus, now, rfc3339
from app.runtime.incoming import IncomingArchives
from app.runtime.sandboxes.slots import Lease
from app.runtime.setup import RuntimeSetup
from app.runtime.values.history import FileList, FileView, RawOutput, UnpackedArchive, WorkspaceArchive
from app.runtime.values.server import NodeAddress
from app.runtime.workspaces import claims
from app.sandbox import paths
from app.sandbox.base import FileInfo, OpenFile, Sandbox
from app.sessions import Session, Status, workspace_of

LISTED_FILES = 10_000
"""Maximum entries listed of one directory."""

LISTED_BYTES = 2 * 1024 * 1024
"""Maximum bytes of a listing's answer: 10,000 entries with paths of 120 characters. Each entry repeats the directory's
path, which may have 4,095 bytes."""

ENTRY_BYTES = 96
"""Maximum bytes of an entry in the answer without its path."""

BARRED_S, LOOK_S = 10.0, 0.05
"""Seconds that an upload waits for a deletion or a restoration by another node, and between checks whether it has
ended."""

TURN_S = 5.0
"""Seconds that a request waits for a sandbox before it is refused."""


class FileService:
    """Accesses files in the sandboxes of sessions, each held while it is used."""

    def __init__(self, setup: RuntimeSetup, incoming: IncomingArchives) -> None:
        self.node = setup.node
        self._checkpoints = setup.checkpoints
        """May have a restoration to complete first."""
        self._workspaces = setup.workspaces
        """With them, files of a workspace on another machine are those of its newest snapshot."""
        self._database = setup.database
        self._sandboxes = setup.sandboxes
        self._fence = setup.fence
        self._incoming = incoming
        self._building = asyncio.Lock()

    async def elsewhere(self, session_id: str, *, changes: bool = False) -> NodeAddress | None:
        """The node that has the session's files as they are now, if that is another one: it runs the session, and keeps
        its workspace on a machine of its own. With `changes`, also if the machine is the same, since files of a run are
        changed where it is."""
        if self._workspaces is None or self.node is None:
            return None
        session = await self._session(session_id)
        workspace_id = workspace_of(session)
        owner = await self._database.read(lambda c: nodes.address_of_owner(c, workspace_id))
        if owner is None or owner.id == self.node:
            return None
        if changes:
            return owner
        return owner if await self._workspaces.is_elsewhere(workspace_id, session.sandbox.kind) else None

    async def has_lost(self, session_id: str, node: NodeAddress) -> bool:
        """Whether another node has claimed a session, or the one that a sub-agent works for, since this one owned
        it."""

        def find(connection: Connection) -> Row[Any] | None:
            row = sessions.find(connection, session_id)
            return row if row is None else sessions.find(connection, workspace_of(row))

        row = await self._database.read(find)
        return row is not None and row.epoch != node.epoch and row.owner != node.id

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
        truncated = len(found) > len(items)
        # Checking ten thousand entries again would take 40 ms.
        return FileList.model_construct(path=path or ".", items=items, truncated=truncated, as_of=lease.as_of)

    async def open(self, session_id: str, path: str) -> RawOutput:
        """A file to send; the sandbox is held until it is closed."""
        lease = await self._lease(session_id)
        try:
            file = LeasedFile(await lease.sandbox.open(path), lease)
        except BaseException:
            lease.release()
            raise
        return RawOutput(size=file.size, file=file, as_of=lease.as_of)

    async def read(self, session_id: str, path: str, most: int) -> bytes:
        """A file's content. Raises `TooLargeError` for one of more than `most` bytes."""
        lease = await self._lease(session_id)
        try:
            return await lease.sandbox.read(path, max_bytes=most)
        finally:
            lease.release()

    async def write(
        self, session_id: str, path: str, data: bytes, allows: Callable[[str | None], bool] = lambda _: True
    ) -> tuple[Literal["created", "replaced"], str]:
        """Writes a file, and returns its new version too. With a store of workspaces, it is stored when this returns,
        unless a command of a run is running, whose step stores it at its end. `allows` gets the file's version, None
        for a new file. Raises `PreconditionFailedError` if it returns False, `SupersededError` if another server has
        taken over, and `WorkspaceStoreError`."""
        async with self._changing(session_id) as sandbox:
            before = await _version(sandbox, path)
            if not allows(before):
                raise PreconditionFailedError("The file has changed, or exists already.")
            await sandbox.write(path, data)
            after = await _version(sandbox, path)
        return "created" if before is None else "replaced", after or ""

    @asynccontextmanager
    async def _changing(self, session_id: str) -> AsyncIterator[Sandbox]:
        """The session's sandbox, whose files are changed while the context lasts, and stored at its end."""
        await self._database.read(lambda c: sessions.refuse_subagent(c, session_id))
        await self._unbarred(session_id)
        session = await self._session(session_id)
        lease = await self._writable(session)
        try:
            try:
                await lease.admit(TURN_S)
                # After the wait, in which another server may have taken over.
                await self._database.read(self._fence)
                yield lease.sandbox
            finally:
                lease.release()
        except BaseException as error:
            if self._workspaces is not None:
                self._workspaces.store_later(session_id)
            if isinstance(error, PalimpsestError):
                # A deletion on another node may be the cause.
                await self._note_change(session)
            raise
        await self._note_change(session)
        if self._workspaces is not None:
            await self._workspaces.store_now(session_id)

    async def _unbarred(self, session_id: str) -> None:
        """Waits while an operation on any node, such as a deletion, keeps owners from the session. Raises
        `NotFoundError`, and `ConflictError` (code `workspace_elsewhere`) if that takes long."""
        if self.node is None:
            return
        deadline = asyncio.get_running_loop().time() + BARRED_S
        while await self._database.read(lambda c: ownership.is_barred(sessions.row(c, session_id), now())):
            if asyncio.get_running_loop().time() > deadline:
                raise claims.elsewhere()
            await asyncio.sleep(LOOK_S)

    async def _note_change(self, session: Session) -> None:
        """Files were changed: other nodes have to look again. If the session was deleted on another node meanwhile,
        they are removed; raises `NotFoundError` then."""
        try:
            with suppress(ConflictError):
                await self._unbarred(session.id)
            if self._checkpoints is not None:
                await self._checkpoints.use(session.id)
        except NotFoundError:
            async with self._sandboxes.removed(session.id, session.sandbox):
                raise

    async def check_no_command(self, session_id: str) -> None:
        """Raises `ConflictError` (`command_running`) while a command of the session or of its sub-agents runs on any
        machine, even in the background."""

        def check(connection: Connection) -> None:
            sessions.row(connection, session_id)
            ids = [session_id, *(child.id for child in sessions.working_children(connection, session_id))]
            calls = [call for id in ids for call in parts.open_calls(connection, id)]
            is_called = any(call.status == ToolStatus.RUNNING for call in calls)
            if is_called or commands.running(connection, session_id):
                raise ConflictError("A command of the session is running; try again later.", code="command_running")

        await self._database.read(check)

    async def unpack(self, session_id: str, path: str, archive: IO[bytes], *, replace: bool) -> UnpackedArchive:
        """Unpacks an archive in the directory at `path`, which keeps nothing that it had with `replace`. Raises the
        same as `check_no_command`, `write` and `app.sandbox.incoming.check`; then nothing has changed."""
        folder = paths.resolve(path)
        spec = (await self._session(session_id)).sandbox
        contents = await self._incoming.check(archive, folder, spec)
        async with self._changing(session_id) as sandbox:
            await self.check_no_command(session_id)
            async with aclosing(self._incoming.pieces(archive, folder, spec)) as pieces:
                await sandbox.unpack(pieces, replaced=folder if replace else None)
        return UnpackedArchive(path=path or ".", files=contents.files, bytes=contents.bytes)

    async def archive(self, session_id: str) -> WorkspaceArchive:
        """The workspace as a tar, in pieces; the sandbox is held until it is closed. The first piece is read here, so
        that errors occur before the response has started."""
        lease = await self._lease(session_id)
        archive = Archive(lease)
        try:
            await archive.open()
        except BaseException:
            await archive.aclose()
            raise
        return WorkspaceArchive(archive, lease.as_of)

    async def _writable(self, session: Session) -> Lease:
        """The session's sandbox, whose workspace may be changed. A workspace on another machine is restored here,
        unless that one is working. Raises `ConflictError` (code `workspace_elsewhere`)."""
        await self.bring(session)
        if self._checkpoints is not None and not await self._checkpoints.settled(session.id, session.sandbox):
            raise claims.elsewhere()
        lease = await self._lease(session.id)
        return lease if self._workspaces is None else self._fenced(session.id, lease)

    async def bring(self, session: Session) -> None:
        """Makes sure that a workspace is here, and may be changed. Raises as `write`."""
        session_id = session.id
        if self._workspaces is None:
            return
        await self._workspaces.check_before_change(session_id)
        if (epoch := await self._epoch_here(session_id)) is not None:
            try:
                return await self._workspaces.bring(session_id, session.sandbox, epoch)
            except StaleOwnerError as error:
                raise claims.elsewhere() from error
        if session.status is not Status.IDLE and await self._workspaces.is_elsewhere(session_id, session.sandbox.kind):
            raise claims.elsewhere()
        await self._workspaces.bring(session_id, session.sandbox)

    async def _epoch_here(self, session_id: str) -> int | None:
        """The epoch of the session's owner, if that is this node of a cluster."""
        row = None
        if self.node is not None:
            row = await self._database.read(lambda c: sessions.find(c, session_id))
        return row.epoch if row is not None and row.owner == self.node else None

    def _fenced(self, session_id: str, lease: Lease) -> Lease:
        assert self._workspaces is not None
        return replace(lease, sandbox=self._workspaces.fenced(session_id, lease.sandbox))

    async def _lease(self, session_id: str) -> Lease:
        session = await self._session(session_id)
        if self._workspaces is not None:
            view = await self._workspaces.view(workspace_of(session), session.sandbox)
            if view is not None:
                return view.lease()
        if self._checkpoints is not None:
            await self._checkpoints.settled(workspace_of(session), session.sandbox)
        lease = self._sandboxes.lease(workspace_of(session), session.sandbox)
        try:
            # It may have been deleted between the first check and the lease.
            await self._session(session_id)
        except BaseException:
            lease.release()
            raise
        return lease

    async def _session(self, session_id: str) -> Session:
        return await self._database.read(lambda c: sessions.snapshot(c, session_id))


async def _version(sandbox: Sandbox, path: str) -> str | None:
    """The version of a file; None without a file."""
    try:
        file = await sandbox.open(path)
    except NotFoundError:
        return None
    await file.aclose()
    return file.version


class LeasedFile:
    """A file that is being read. Holds a lease until `aclose`."""

    def __init__(self, file: OpenFile, lease: Lease) -> None:
        self.size = file.size
        self.version = file.version
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
    return FileView(path=info.path, type=info.type, size=info.size, modified_at=_second(info.modified // 1))


@lru_cache(maxsize=1024)
def _second(modified: float) -> str:
    """Many files of a folder were changed in the same second."""
    return rfc3339(datetime.fromtimestamp(min(max(modified, _EARLIEST), _LATEST), UTC))
