"""Sessions: create, list, read, change, delete, cancel, resume."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from sqlalchemy import Connection

from app.db.repositories import sessions
from app.eventlog.log import StreamItem
from app.events import SessionDeleted
from app.messages import now
from app.runtime import lifecycle
from app.runtime.admission import ServiceRules, checked_patch, draft
from app.runtime.cursors import read_session_cursor, session_cursor
from app.runtime.registry import Registry
from app.runtime.setup import RuntimeSetup
from app.runtime.values.sessions import SessionCreate, SessionPage, SessionPatch
from app.sessions import Session, Status


class SessionService:
    """Makes, changes and ends sessions; every write is committed when a method returns."""

    def __init__(
        self,
        setup: RuntimeSetup,
        registry: Registry,
        rules: ServiceRules,
        delete_outputs: Callable[[str], Awaitable[None]],
    ) -> None:
        """`delete_outputs` removes the stored raw outputs of a session."""
        self._setup = setup
        self._database = setup.database
        self._registry = registry
        self._rules = rules
        self._delete_outputs = delete_outputs

    async def create(self, body: SessionCreate) -> tuple[Session, bool]:
        """A new session, and True; or the one that was made with the same `id` and content before, and False.
        Raises `ConflictError` where that id was used with other content."""
        if body.id is not None:
            # Before any check: a repetition is answered even if what it asked for could not be had any more.
            known = await self._database.read(lambda c: lifecycle.made_before(c, body))
            if known is not None:
                return known, False
        drafted = await draft(body, self._setup, self._rules)
        session, is_new = await self._setup.write(drafted.session_id, lambda c: lifecycle.create(c, body, drafted))
        if is_new and body.task is not None:
            self._registry.wake(session.id)
        return session, is_new

    async def list(self, *, status: Status | None, q: str | None, limit: int, cursor: str | None) -> SessionPage:
        """Sessions, newest first. Raises `MalformedRequestError` for a cursor that is none of ours."""
        before = read_session_cursor(cursor)
        items = await self._database.read(
            lambda c: sessions.page(c, status=status, q=q, before=before, limit=limit + 1)
        )
        more = len(items) > limit
        return SessionPage(items=tuple(items[:limit]), next_cursor=session_cursor(items[limit - 1]) if more else None)

    async def get(self, session_id: str) -> Session:
        return await self._database.read(lambda c: sessions.snapshot(c, session_id))

    async def patch(self, session_id: str, body: SessionPatch) -> Session:
        """Changes a session from its next step on."""
        fields = checked_patch(body, self._setup, self._rules)
        session, row = await self._setup.write(
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
        self._setup.bus.delete(session_id, StreamItem(event.type, last.last_seq + 1, data))

    async def cancel(self, session_id: str, *, clear_queue: bool) -> Session:
        """Ends the run under way; what is pending is held, or withdrawn with `clear_queue`."""
        session = await self._setup.write(
            session_id, lambda c: lifecycle.cancel(c, session_id, clear_queue=clear_queue)
        )
        if session.status != Status.IDLE or session.compaction.in_progress:
            self._registry.interrupt(session_id, "cancel")
        return session

    async def resume(self, session_id: str) -> Session:
        """Goes on after a run that did not complete. Raises `ConflictError` where there is nothing to resume."""
        session = await self._setup.write(session_id, lambda c: lifecycle.resume(c, session_id))
        self._registry.wake(session_id)
        return session


def _remove(connection: Connection, session_id: str) -> Session:
    session = sessions.snapshot(connection, session_id)
    sessions.remove(connection, session_id)
    return session
