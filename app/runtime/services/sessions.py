"""Sessions: create, list, read, change, delete, fork, cancel, resume."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import IO, Protocol
from weakref import WeakValueDictionary

import structlog
from sqlalchemy import Connection

from app.db.repositories import server_wide, sessions
from app.errors import ConflictError, NotFoundError, PalimpsestError
from app.eventlog.log import StreamItem
from app.messages import new_id, now
from app.runtime.admission import (
    Draft,
    ServiceRules,
    check_output,
    check_patterns,
    checked_patch,
    draft,
    has_patterns,
)
from app.runtime.content import TakenContent, awaited, names_files, take, unread
from app.runtime.dispatch import Dispatch
from app.runtime.fingerprints import request_fingerprint
from app.runtime.history import read_place, session_cursor
from app.runtime.incoming import IncomingArchives, digest
from app.runtime.requested_tools import check_client_tools
from app.runtime.run_starts import NOBODY, Caller, RunStarts
from app.runtime.setup import RuntimeSetup
from app.runtime.transactions import forks, lifecycle
from app.runtime.transactions.forks import Fork
from app.runtime.transactions.runs import Starter
from app.runtime.values.sessions import ApprovalRequest, ForkCreate, SessionCreate, SessionPage, SessionPatch
from app.sandbox.base import MovableSandbox
from app.sessions import SandboxSpec, Session, SessionFilter, SessionSort, Status

RESERVED = timedelta(minutes=15)
"""How long the id of a session that is created with an archive is reserved, if the node dies in the meantime."""

log = structlog.get_logger(__name__)


class Outputs(Protocol):
    """The stored raw outputs of sessions."""

    async def copy(self, keys: Mapping[str, str]) -> None:
        """Copies outputs, by key to new key; missing ones are skipped."""
        ...

    async def delete_session(self, session_id: str) -> None:
        """Removes the outputs of a session."""
        ...


class SessionService:
    """Creates, changes and deletes sessions; every write is committed when a method returns."""

    def __init__(
        self,
        setup: RuntimeSetup,
        registry: Dispatch,
        rules: ServiceRules,
        outputs: Outputs,
        starts: RunStarts,
        incoming: IncomingArchives,
    ) -> None:
        self._setup = setup
        self._database = setup.database
        self._registry = registry
        self._rules = rules
        self._outputs = outputs
        self._starts = starts
        self._incoming = incoming
        self._bringing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._compiling = asyncio.Lock()
        self._deletions: dict[str, asyncio.Event] = {}

    async def create(
        self, body: SessionCreate, caller: Caller = NOBODY, archive: IO[bytes] | None = None
    ) -> tuple[Session, bool]:
        """A new session, and True; or the one that was created before with the same `id` and content, and False. An
        `archive` is its workspace at the start.

        Raises `ConflictError` if that id was used with different content, `TooManyRunsError` if it would start a run
        while too many are waiting, or the caller's key has too many, and the same as `IncomingArchives.check`."""
        # In a thread for a history or images, which have up to 64 MiB and must not block the event loop.
        is_small = body.history is None and isinstance(body.task, str | None)
        fingerprint = request_fingerprint(body) if is_small else await asyncio.to_thread(request_fingerprint, body)
        if archive is not None:
            fingerprint = f"{fingerprint[:32]}{(await digest(archive))[:32]}"
        if body.id is not None:
            # Before validation: a retry succeeds even if what it asks for is no longer available.
            known = await self._database.read(lambda c: lifecycle.made_before(c, body.id, fingerprint))
            if known is not None:
                return (known if archive is None else await self._begun(known, caller)), False
        await self._check_patterns(body.approval)
        await check_output(body.output)
        await check_client_tools(body.tools, self._setup.agents.registry.names())
        task = await self._task(body, has_archive=archive is not None)
        drafted = await draft(body, task, fingerprint, self._setup, self._rules)
        if archive is None:
            return await self._create(drafted, caller)
        async with self._reserved(drafted.session_id):
            return await self._create_with(archive, drafted, caller, body)

    async def _task(self, body: SessionCreate, *, has_archive: bool) -> TakenContent | None:
        """The task, as far as it can be taken before the workspace is there. Raises the same as `take`, and
        `InvalidRequestError` (code `path_not_ready`) for an image in a repository that is not cloned yet."""
        if body.task is None:
            return None
        if has_archive and names_files(body.task):
            return unread(body.task)

        async def read(path: str, most: int) -> bytes:
            if body.source is None:
                raise NotFoundError("the workspace of a new session is empty.", code="file_not_found")
            return awaited(path, most)

        return await take(body.task, read)

    @asynccontextmanager
    async def _reserved(self, session_id: str) -> AsyncIterator[None]:
        """While entered, no other request writes the files of a new session with this id. Raises `ConflictError` if one
        on another node does."""
        async with self._bringing.setdefault(session_id, asyncio.Lock()):
            if self._setup.node is None:
                yield
                return
            until = now() + RESERVED
            if not await self._database.writer.write(lambda c: server_wide.reserve(c, session_id, now(), until)):
                raise ConflictError("This session is being created; try again later.", code="being_created")
            try:
                yield
            finally:
                await asyncio.shield(self._database.writer.write(lambda c: server_wide.release(c, session_id)))

    async def _create(
        self, drafted: Draft, caller: Caller, place: Callable[[Connection], None] = lambda _: None
    ) -> tuple[Session, bool]:
        """`place` stores where the workspace is, with the session."""

        def write(connection: Connection, starter: Starter) -> tuple[tuple[Session, bool], list[StreamItem]]:
            made = lifecycle.create(connection, drafted, starter)
            if made[0][1]:
                place(connection)
            return made

        with self._starts.by(caller) as starter:
            session, is_new = await self._setup.write(drafted.session_id, lambda c: write(c, starter))
            if is_new and drafted.task is not None and drafted.starts:
                self._registry.wake(session.id, caller.key)
        return session, is_new

    async def _create_with(
        self, archive: IO[bytes], drafted: Draft, caller: Caller, body: SessionCreate
    ) -> tuple[Session, bool]:
        """The workspace is there before the session's rows, like that of a fork, so that no step begins without it. A
        workspace that is stored is there first too: its run may begin on another machine."""
        spec = SandboxSpec(**drafted.fields["sandbox"])
        drafted.fields["source"] = {**(drafted.fields["source"] or {}), "archive": True}
        await self._incoming.check(archive, (), spec)
        known = await self._database.read(lambda c: lifecycle.made_before(c, drafted.session_id, drafted.fingerprint))
        if known is not None:  # by a request at the same time, and its run may be active
            return known, False
        workspaces = self._setup.workspaces
        place = None if workspaces is None else await workspaces.begin(drafted.session_id, spec)
        try:
            await self._unpack(archive, drafted.session_id, spec)
            drafted = await self._with_files(drafted, body, spec)
            if workspaces is None or place is None:
                return await self._create(drafted, caller)
            session, is_new = await self._create(replace(drafted, starts=False), caller, place)
        except BaseException:
            await asyncio.shield(self._discard(drafted.session_id, spec))
            raise
        await workspaces.store_fork(session.id, spec)
        return await self._begun(session, caller), is_new

    async def _unpack(self, archive: IO[bytes], session_id: str, spec: SandboxSpec) -> None:
        lease = self._setup.sandboxes.lease(session_id, spec)
        try:
            assert isinstance(lease.sandbox, MovableSandbox)
            async with aclosing(self._incoming.pieces(archive, (), spec)) as pieces:
                await lease.sandbox.restore(pieces)
        finally:
            lease.release()

    async def _with_files(self, drafted: Draft, body: SessionCreate, spec: SandboxSpec) -> Draft:
        """The draft with a task whose files are read, now that they are unpacked. Raises the same as `_task`."""
        if body.task is None or not names_files(body.task):
            return drafted
        lease = self._setup.sandboxes.lease(drafted.session_id, spec)

        async def read(path: str, most: int) -> bytes:
            try:
                return await lease.sandbox.read(path, max_bytes=most)
            except NotFoundError:
                if body.source is None:
                    raise
                return awaited(path, most)

        try:
            return drafted.with_task(await take(body.task, read), body.title)
        finally:
            lease.release()

    async def _begun(self, session: Session, caller: Caller) -> Session:
        """The session, whose task has been queued."""
        with self._starts.by(caller) as starter:
            session = await self._setup.write(session.id, lambda c: lifecycle.begin_task(c, session.id, starter))
            self._registry.wake(session.id, caller.key)
        return session

    async def list(
        self,
        *,
        status: SessionFilter | None,
        q: str | None,
        limit: int,
        cursor: str | None,
        sort: SessionSort = "created",
        parent_id: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> SessionPage:
        """Sessions, newest or last changed first; sub-agents only if their parent is given. Raises
        `MalformedRequestError` for an invalid cursor."""
        before = read_place(cursor)

        def page(connection: Connection) -> tuple[list[Session], bool]:
            return sessions.page(
                connection,
                status=status,
                q=q,
                parent_id=parent_id,
                metadata=metadata,
                before=before,
                limit=limit,
                sort=sort,
            )

        items, more = await self._database.read(page)
        next_cursor = session_cursor(items[-1], sort) if more else None
        return SessionPage(items=tuple(items), next_cursor=next_cursor)

    async def get(self, session_id: str) -> Session:
        return await self._database.read(lambda c: sessions.snapshot(c, session_id))

    async def mark_seen(self, session_id: str) -> None:
        """Stores that the end of the last run was shown; there is no event."""
        await self._database.writer.write(lambda c: sessions.mark_seen(c, session_id), session_id=session_id)

    async def patch(self, session_id: str, body: SessionPatch) -> Session:
        """Changes a session from its next step on."""
        await self._check_patterns(body.approval)
        await check_output(body.output)
        built_in = self._setup.agents.registry.names()
        await check_client_tools(body.tools, built_in)
        fields = checked_patch(body, self._setup, self._rules)
        session, row = await self._setup.write(
            session_id,
            lambda c: lifecycle.patch(c, session_id, body, fields, self._rules, built_in, self._setup.mcp),
        )
        self._registry.reconfigure(session_id, row)
        return session

    async def _check_patterns(self, asked: ApprovalRequest | None) -> None:
        """In a thread, and of one request after the other: each pattern may hold up all others for 30 ms."""
        if has_patterns(asked):
            async with self._compiling:
                await asyncio.to_thread(check_patterns, asked)

    async def delete(self, session_id: str) -> None:
        """Ends the session's run, removes its sandbox and outputs, then its rows; first those of its sub-agents. Raises
        `ConflictError` for a sub-agent."""
        async with self._one_deletion(session_id):
            await self._database.read(lambda c: sessions.refuse_subagent(c, session_id))
            await self._delete(await self.get(session_id))

    @asynccontextmanager
    async def _one_deletion(self, session_id: str) -> AsyncIterator[None]:
        """Serializes deletions of a session: two at once would remove one sandbox twice."""
        while (earlier := self._deletions.get(session_id)) is not None:
            await earlier.wait()
        ended = self._deletions[session_id] = asyncio.Event()
        try:
            yield
        finally:
            del self._deletions[session_id]
            ended.set()

    async def _delete(self, session: Session) -> None:
        session_id = session.id
        # Before anything is removed that may belong to another server now.
        await self._database.writer.write(self._setup.fence)
        async with self._registry.without_owner(session_id) as fence:
            # Its owner is gone, so no further ones are started.
            for child_id in await self._database.read(lambda c: sessions.child_ids(c, session_id)):
                async with self._registry.without_owner(child_id):
                    await self._remove(child_id, fence)
            async with self._setup.sandboxes.removed(session_id, session.sandbox):
                await self._remove(session_id, fence)

    async def _remove(self, session_id: str, fence: Callable[[Connection], None]) -> None:
        await self._outputs.delete_session(session_id)

        def remove(connection: Connection) -> tuple[str, StreamItem]:
            fence(connection)
            return self._setup.remove(connection, session_id)

        last = await self._database.writer.write(remove, session_id=session_id)
        self._setup.removed(*last)

    async def fork(self, session_id: str, body: ForkCreate, fork_id: str | None = None) -> Session:
        """A new session with the history of another one up to a message, and a copy of its current workspace; or, for a
        request that is repeated with the same `fork_id`, the fork that it has made. If copying fails, nothing is left
        behind. Raises `NotFoundError` for an unknown message and `ConflictError` for one whose step is still
        running."""
        await self._database.read(lambda c: sessions.refuse_subagent(c, session_id))
        if fork_id is None:
            return await self._fork(session_id, new_id(), body)
        known = await self._forked_before(session_id, fork_id)
        if known is not None:  # Perhaps by a node that died before it gave the id back.
            return known
        async with self._reserved(fork_id):
            return await self._forked_before(session_id, fork_id) or await self._fork(session_id, fork_id, body)

    async def _forked_before(self, session_id: str, fork_id: str) -> Session | None:
        return await self._database.read(lambda c: lifecycle.forked_before(c, session_id, fork_id))

    async def _fork(self, session_id: str, fork_id: str, body: ForkCreate) -> Session:
        def read(connection: Connection) -> Fork:
            return forks.draft(connection, session_id, fork_id, body, self._setup, self._rules)

        async with self._setup.reading_whole(session_id):
            made = await self._database.read(read)
            try:
                await self._outputs.copy(made.files)
                return await self._store_fork(made)
            except BaseException:
                await asyncio.shield(self._discard(made.session_id, made.sandbox))
                raise

    async def _store_fork(self, made: Fork) -> Session:
        """Copies the workspace, then stores the rows."""
        workspaces = self._setup.workspaces
        places: list[Callable[[Connection], None]] = []
        if self._setup.checkpoints is not None:
            places.append(await self._setup.checkpoints.copy(made.parent_id, made.session_id))
        if workspaces is None:
            await self._setup.sandboxes.copy_workspace(made.parent_id, made.source, made.session_id, made.sandbox)
        else:
            places.append(await workspaces.fork(made.parent_id, made.source, made.session_id, made.sandbox))

        def write(connection: Connection) -> tuple[Session, list[StreamItem]]:
            stored = lifecycle.fork(connection, made)
            for place in places:
                place(connection)
            return stored

        session = await self._setup.write(made.session_id, write)
        if workspaces is not None:
            await workspaces.store_fork(made.session_id, made.sandbox)
        return session

    async def _discard(self, session_id: str, spec: SandboxSpec) -> None:
        """Removes the files of a session that was not made, unless its commit succeeded although the request was
        cancelled."""
        try:
            stored = await self._database.writer.write(lambda c: sessions.find(c, session_id), session_id=session_id)
            if stored is not None:
                return
            await self._outputs.delete_session(session_id)
            async with self._setup.sandboxes.removed(session_id, spec):
                pass
        except PalimpsestError as error:
            # The next start removes files without a session.
            log.warning("files_left_behind", session_id=session_id, reason=error.detail)

    async def cancel(self, session_id: str, *, clear_queue: bool) -> Session:
        """Ends the current run; pending messages are held, or withdrawn with `clear_queue`."""
        session = await self._setup.write(
            session_id, lambda c: lifecycle.cancel(c, session_id, clear_queue=clear_queue), to_subagent=True
        )
        if session.status != Status.IDLE or session.compaction.in_progress:
            self._registry.interrupt(session_id, "cancel")
        return session

    async def resume(self, session_id: str, caller: Caller = NOBODY) -> Session:
        """Continues after a run that did not complete. Raises `ConflictError` if there is nothing to resume."""
        with self._starts.by(caller) as starter:
            session = await self._setup.write(session_id, lambda c: lifecycle.resume(c, session_id, starter))
            self._registry.wake(session_id, caller.key)
        return session
