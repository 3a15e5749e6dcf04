"""The state shared by the in-memory services: sessions, queues, event logs, and their readers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.errors import NotFoundError
from app.runtime.values.history import RawOutput, StreamItem
from app.runtime.values.queue import QueuedMessage
from app.runtime.values.sessions import SessionCreate
from app.runtime.values.webhooks import Webhook
from app.sessions import CompactionEvent, Session, Status


class Memory:
    """Keeps sessions, queues, files and event logs in dictionaries.

    `fault` is raised by the next call of `get`; `readers` counts the open subscriptions.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.bodies: dict[str, SessionCreate] = {}
        self.queues: dict[str, dict[str, QueuedMessage]] = {}
        self.logs: dict[str, list[StreamItem]] = {}
        self.workspace: dict[str, bytes] = {}
        self.outputs: dict[str, RawOutput] = {}
        self.images: dict[str, bytes] = {}
        self.listed: dict[str, object] = {}
        self.rounds_of: dict[str, CompactionEvent] = {}
        self.logins: set[str] = set()
        self.webhooks: dict[str, Webhook] = {}
        self.fault: Exception | None = None
        self.ready = True
        self.readers = 0
        self.sent: dict[str, int] = {}
        self.changed = asyncio.Condition()

    def get(self, session_id: str) -> Session:
        if self.fault is not None:
            raise self.fault
        if session_id not in self.sessions:
            raise NotFoundError("There is no session with this id.", code="session_not_found")
        return self.sessions[session_id]

    async def append(self, session_id: str, *items: StreamItem) -> None:
        """Adds events to a session's log and wakes its readers."""
        async with self.changed:
            self.logs[session_id].extend(items)
            self.changed.notify_all()

    async def finish(self, session_id: str) -> None:
        """Ends the session's run."""
        async with self.changed:
            self.sessions[session_id] = self.sessions[session_id].model_copy(update={"status": Status.IDLE})
            self.changed.notify_all()

    async def wait_for_readers(self, count: int) -> None:
        async with self.changed:
            await self.changed.wait_for(lambda: self.readers == count)

    async def wait_for_sent(self, session_id: str) -> None:
        """Waits until a reader has reached the end of the log."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.sent.get(session_id) == len(self.logs[session_id]))

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        async with self.changed:
            self.readers += 1
            self.changed.notify_all()
        try:
            yield
        finally:
            async with self.changed:
                self.readers -= 1
                self.changed.notify_all()
