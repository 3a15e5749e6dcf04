"""The front of the runtime: everything that the API can ask for, and nothing of how it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeVar

from sqlalchemy import Connection, select

from app.context.policies import CompactionSettings, resolve
from app.db.repositories import sessions
from app.errors import ConflictError, NotFoundError, PalimpsestError, TooLargeError
from app.eventlog.log import EventLog, StreamItem
from app.eventlog.reader import follow, follow_all
from app.events import SessionDeleted
from app.interchange import WireFormat
from app.llm.base import ModelInfo
from app.messages import now
from app.runtime import compactions, history, inbox, lifecycle
from app.runtime.lifecycle import ServiceRules
from app.runtime.preview import preview
from app.runtime.registry import Registry
from app.runtime.sandboxes import Lease
from app.runtime.session import RuntimeSetup
from app.runtime.transfer import export_page
from app.runtime.values import (
    CompactionCreate,
    CompactionList,
    CompactionPreview,
    Component,
    ContextView,
    EventStream,
    ExportPage,
    FileList,
    FileView,
    MessagePage,
    ModelList,
    ModelView,
    PricesView,
    QueueAdd,
    QueuedMessage,
    QueueEdit,
    QueuePage,
    QueueReceipt,
    RawOutput,
    Readiness,
    SessionCreate,
    SessionPage,
    SessionPatch,
    StepPage,
    ToolCallView,
    UsageReport,
)
from app.sandbox.base import FileInfo, Sandbox
from app.sessions import CompactionEvent, QueueMode, Session, Status

T = TypeVar("T")

LISTED_FILES = 10_000
"""Entries of one directory that are listed."""

DOWNLOAD_MAX_BYTES = 256 * 1024 * 1024
"""Largest file that is sent by itself, since it passes through memory; the archive has no limit."""


class SessionService:
    """Creates, changes and reads sessions; every write is committed when a method returns.

    All methods raise `NotFoundError` (code `session_not_found`) for an unknown session.
    """

    def __init__(
        self,
        setup: RuntimeSetup,
        registry: Registry,
        rules: ServiceRules,
        *,
        models: Callable[[], list[ModelInfo]],
        output_path: Callable[[str], Path],
        delete_outputs: Callable[[str], Awaitable[None]],
    ) -> None:
        """`output_path` gives the file of a stored raw output; `delete_outputs` removes those of a session."""
        self._setup = setup
        self._database = setup.database
        self._bus = setup.bus
        self._registry = registry
        self._rules = rules
        self._models = models
        self._output_path = output_path
        self._delete_outputs = delete_outputs
        self._log = EventLog(setup.database)

    async def _write(self, session_id: str, work: Callable[[Connection], tuple[T, list[StreamItem]]]) -> T:
        """Commits a write and publishes its events."""
        value, _ = await self._database.writer.write(work, lambda result: self._bus.publish(session_id, result[1]))
        return value

    # Sessions

    async def create(self, body: SessionCreate) -> tuple[Session, bool]:
        """A new session, and True; or the one that was made with the same `id` and content before, and False.
        Raises `ConflictError` where that id was used with other content."""
        if body.id is not None:
            # Before any check: a repetition is answered even if what it asked for could not be had any more.
            known = await self._database.read(lambda c: lifecycle.made_before(c, body))
            if known is not None:
                return known, False
        draft = await lifecycle.draft(body, self._setup, self._rules)
        session, is_new = await self._write(draft.session_id, lambda c: lifecycle.create(c, body, draft))
        if is_new and body.task is not None:
            self._registry.wake(session.id)
        return session, is_new

    async def list(self, *, status: Status | None, q: str | None, limit: int, cursor: str | None) -> SessionPage:
        """Sessions, newest first. Raises `MalformedRequestError` for a cursor that is none of ours."""
        before = lifecycle.read_cursor(cursor)
        items = await self._database.read(
            lambda c: sessions.page(c, status=status, q=q, before=before, limit=limit + 1)
        )
        more = len(items) > limit
        return SessionPage(items=tuple(items[:limit]), next_cursor=lifecycle.cursor(items[limit - 1]) if more else None)

    async def get(self, session_id: str) -> Session:
        return await self._database.read(lambda c: sessions.snapshot(c, session_id))

    async def patch(self, session_id: str, body: SessionPatch) -> Session:
        """Changes a session from its next step on."""
        fields = lifecycle.checked_patch(body, self._setup, self._rules)
        session, row = await self._write(
            session_id, lambda c: lifecycle.patch(c, session_id, body, fields, self._rules)
        )
        self._registry.reconfigure(session_id, row)
        return session

    async def delete(self, session_id: str) -> None:
        """Ends the session's run, removes its sandbox and outputs, then its rows."""
        session = await self.get(session_id)
        async with (
            self._registry.without_owner(session_id),
            self._setup.sandboxes.removed(session_id, session.sandbox),
        ):
            await self._delete_outputs(session_id)
            last = await self._database.writer.write(lambda c: _remove(c, session_id))
        event = SessionDeleted(session_id=session_id, at=now(), session=last)
        data = event.__pydantic_serializer__.to_json(event)
        self._bus.delete(session_id, StreamItem(event.type, last.last_seq + 1, data))

    async def cancel(self, session_id: str, *, clear_queue: bool) -> Session:
        """Ends the run under way; what is pending is held, or withdrawn with `clear_queue`."""
        session = await self._write(session_id, lambda c: lifecycle.cancel(c, session_id, clear_queue=clear_queue))
        if session.status != Status.IDLE or session.compaction.in_progress:
            self._registry.interrupt(session_id, "cancel")
        return session

    async def resume(self, session_id: str) -> Session:
        """Goes on after a run that did not complete. Raises `ConflictError` where there is nothing to resume."""
        session = await self._write(session_id, lambda c: lifecycle.resume(c, session_id))
        self._registry.wake(session_id)
        return session

    async def usage(self) -> UsageReport:
        return await self._database.read(history.usage_report)

    # Queue

    async def enqueue(self, session_id: str, body: QueueAdd) -> QueueReceipt:
        """Accepts a message, whatever the session is doing."""
        receipt, is_new = await self._write(
            session_id, lambda c: inbox.enqueue(c, session_id, body, limit=self._rules.queue_limit)
        )
        if is_new:
            self._registry.wake(session_id)
            if body.mode is QueueMode.INTERRUPT:
                self._registry.interrupt(session_id, "interrupt", receipt.id)
        return receipt

    async def queue(self, session_id: str) -> QueuePage:
        items, last_seq = await inbox.read_queue(self._database, session_id)
        return QueuePage(items=tuple(items), last_seq=last_seq)

    async def edit(self, session_id: str, message_id: str, body: QueueEdit) -> QueuedMessage:
        """Changes a pending message. Raises `ConflictError` once it is delivered."""
        edited = await self._write(session_id, lambda c: inbox.edit(c, session_id, message_id, body))
        self._registry.ring(session_id)
        if body.mode is QueueMode.INTERRUPT:
            self._registry.interrupt(session_id, "interrupt", message_id)
        return edited

    async def withdraw(self, session_id: str, message_id: str) -> None:
        """Takes a pending message back. Raises `ConflictError` once it is delivered."""
        await self._write(session_id, lambda c: inbox.withdraw(c, session_id, message_id))

    # History and context

    async def messages(self, session_id: str, *, after: str | None, limit: int) -> MessagePage:
        start = history.read_seq(after)
        return await self._database.read(lambda c: history.message_page(c, session_id, start, limit))

    async def export(self, session_id: str, *, format: WireFormat, after: str | None, limit: int) -> ExportPage:
        """The history in a provider's wire format."""
        start = history.read_seq(after)
        return await self._database.read(lambda c: export_page(c, session_id, format, start, limit))

    async def context(self, session_id: str, *, step: int | None) -> ContextView:
        """What the next step would send, or what a step has sent."""
        agents = self._setup.agents
        return await self._database.read(lambda c: history.context_view(c, session_id, step, agents))

    # Compaction

    async def compact(self, session_id: str, body: CompactionCreate) -> CompactionEvent:
        """Accepts a round of compaction; the session's owner makes it between steps. Raises `ConflictError` (code
        `compaction_in_progress`) while another is under way."""
        session = await self.get(session_id)
        settings = self._round_settings(session, body)
        state = session.context
        event = await self._write(
            session_id,
            lambda c: compactions.request(c, session_id, settings, body.instructions, state.tokens, state.limit),
        )
        self._registry.ask_round(session_id)
        return event

    async def preview(self, session_id: str, body: CompactionCreate) -> CompactionPreview:
        """What a round would do now, without doing it."""
        settings = self._round_settings(await self.get(session_id), body)
        agents = self._setup.agents
        return await self._database.read(lambda c: preview(c, session_id, settings, body.instructions, agents))

    def _round_settings(self, session: Session, body: CompactionCreate) -> CompactionSettings:
        own = CompactionSettings.model_validate({"policy": session.compaction.policy, **session.compaction.settings})
        return resolve(body.policy, own)

    async def rounds(self, session_id: str) -> CompactionList:
        """All rounds of compaction, those that came to nothing included."""
        return await self._database.read(lambda c: history.round_list(c, session_id))

    async def revert(self, session_id: str, round: int) -> None:
        """Takes the latest round back; a run under way goes on without it from its next step."""
        await self._write(session_id, lambda c: compactions.revert(c, session_id, round))
        self._registry.take_revert(session_id)

    async def steps(self, session_id: str, *, after: str | None, limit: int) -> StepPage:
        start = history.read_seq(after)
        return await self._database.read(lambda c: history.step_page(c, session_id, start, limit))

    async def tool_call(self, session_id: str, call_id: str) -> ToolCallView:
        """A call with its result. Raises `NotFoundError` (code `call_not_found`)."""
        return await self._database.read(lambda c: history.tool_call(c, session_id, call_id))

    async def tool_output(self, session_id: str, call_id: str) -> RawOutput:
        """The raw output of a call. Raises `ConflictError` (code `call_open`) while it has none."""
        stored = await self._database.read(lambda c: history.stored_output(c, session_id, call_id))
        if stored.ref is None:
            return RawOutput(size=len(stored.text), data=stored.text)
        path = self._output_path(stored.ref)
        try:
            return RawOutput(size=(await asyncio.to_thread(path.stat)).st_size, path=path)
        except OSError as error:
            raise NotFoundError("The raw output is not stored any more.", code="output_not_found") from error

    # Files

    async def files(self, session_id: str, path: str) -> FileList:
        lease = await self._lease(session_id)
        try:
            found = await lease.sandbox.list(path or ".", limit=LISTED_FILES + 1)
        finally:
            lease.release()
        items = tuple(_file_view(info) for info in found[:LISTED_FILES])
        return FileList(path=path or ".", items=items, truncated=len(found) > LISTED_FILES)

    async def read_file(self, session_id: str, path: str) -> bytes:
        lease = await self._lease(session_id)
        try:
            return await lease.sandbox.read(path, max_bytes=DOWNLOAD_MAX_BYTES)
        finally:
            lease.release()

    async def write_file(self, session_id: str, path: str, data: bytes) -> Literal["created", "replaced"]:
        lease = await self._lease(session_id)
        try:
            existed = await _exists(lease.sandbox, path)
            await lease.sandbox.write(path, data)
        finally:
            lease.release()
        return "replaced" if existed else "created"

    async def archive(self, session_id: str) -> AsyncIterator[bytes]:
        """The workspace as a tar, in pieces; the sandbox is held until it is closed. The first piece is read here, so
        that what cannot be read fails before an answer has begun."""
        archive = Archive(await self._lease(session_id))
        try:
            await archive.open()
        except BaseException:
            await archive.aclose()
            raise
        return archive

    async def _lease(self, session_id: str) -> Lease:
        session = await self.get(session_id)
        lease = self._setup.sandboxes.lease(session_id, session.sandbox)
        try:
            # It may have been deleted between the first look and the lease.
            await self.get(session_id)
        except BaseException:
            lease.release()
            raise
        return lease

    # The server

    def models(self) -> ModelList:
        return ModelList(items=tuple(self._model_view(info) for info in self._models()))

    def _model_view(self, info: ModelInfo) -> ModelView:
        prices = info.prices
        return ModelView(
            name=info.name,
            provider=info.provider,
            context_window=info.context_window,
            window_source=info.window_source,
            max_output_tokens=info.max_output_tokens,
            prices=PricesView(
                input=prices.input,
                output=prices.output,
                cache_read=prices.cache_read,
                cache_write=prices.cache_write,
            ),
            key_present=info.key_present,
            default=info.name == self._rules.default_model,
            description=info.description,
        )

    async def readiness(self) -> Readiness:
        """Whether database and sandbox answer now."""
        database, sandbox = await asyncio.gather(
            _component(self._database.read(_answers)),
            _component(self._sandbox_answer()),
        )
        return Readiness(ready=database.ok and sandbox.ok, components={"database": database, "sandbox": sandbox})

    async def _sandbox_answer(self) -> str:
        await self._setup.sandboxes.check()
        return self._setup.sandboxes.describe()

    # Events

    async def follow(
        self, session_id: str, *, after: int, until_idle: bool
    ) -> AbstractAsyncContextManager[EventStream]:
        """The session's events after `after`, durable and live. Raises `ConflictError` (code `ahead_of_log`) where
        `after` is larger than the session's last seq. Leaving the context ends the subscription."""
        head = await self._log.head(session_id)
        if after > head.last_seq:
            raise ConflictError(
                f"The session's last event is {head.last_seq}, not {after}.",
                code="ahead_of_log",
                last_seq=head.last_seq,
            )
        return follow(self._log, self._bus, session_id, after=after, until_idle=until_idle)

    def follow_all(self) -> AbstractAsyncContextManager[EventStream]:
        """`session.*` events of all sessions from now on, without seq."""
        return follow_all(self._bus)


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


def _answers(connection: Connection) -> str:
    connection.execute(select(1)).scalar_one()
    return "answers"


def _remove(connection: Connection, session_id: str) -> Session:
    session = sessions.snapshot(connection, session_id)
    sessions.remove(connection, session_id)
    return session


async def _exists(sandbox: Sandbox, path: str) -> bool:
    try:
        await sandbox.read(path, max_bytes=0)
    except NotFoundError:
        return False
    except TooLargeError:
        return True
    return True


def _file_view(info: FileInfo) -> FileView:
    modified = datetime.fromtimestamp(int(info.modified), UTC)
    return FileView(path=info.path, type=info.type, size=info.size, modified_at=modified)


async def _component(answer: Awaitable[str]) -> Component:
    try:
        return Component(ok=True, detail=await answer)
    except PalimpsestError as error:
        return Component(ok=False, detail=error.detail)
