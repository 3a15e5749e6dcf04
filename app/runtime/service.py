"""The front of the runtime: everything that the API can ask for, and nothing of how it is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Literal

from app.runtime.values import (
    ContextView,
    EventStream,
    FileList,
    MessagePage,
    ModelList,
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
from app.sessions import Session, Status


class SessionService:
    """Creates, changes and reads sessions; every write is committed when a method returns.

    All methods raise `NotFoundError` (code `session_not_found`) for an unknown session.
    """

    async def create(self, body: SessionCreate) -> tuple[Session, bool]:
        """A new session, and True; or the one that was made with the same `id` and content before, and False.
        Raises `ConflictError` where that id was used with other content."""
        raise NotImplementedError

    async def list(self, *, status: Status | None, q: str | None, limit: int, cursor: str | None) -> SessionPage: ...
    async def get(self, session_id: str) -> Session: ...
    async def patch(self, session_id: str, body: SessionPatch) -> Session: ...
    async def delete(self, session_id: str) -> None: ...
    async def cancel(self, session_id: str, *, clear_queue: bool) -> Session: ...
    async def resume(self, session_id: str) -> Session: ...
    async def usage(self) -> UsageReport: ...

    async def enqueue(self, session_id: str, body: QueueAdd) -> QueueReceipt: ...
    async def queue(self, session_id: str) -> QueuePage: ...
    async def edit(self, session_id: str, message_id: str, body: QueueEdit) -> QueuedMessage: ...
    async def withdraw(self, session_id: str, message_id: str) -> None: ...

    async def messages(self, session_id: str, *, after: str | None, limit: int) -> MessagePage: ...
    async def context(self, session_id: str, *, step: int | None) -> ContextView: ...
    async def steps(self, session_id: str, *, after: str | None, limit: int) -> StepPage: ...
    async def tool_call(self, session_id: str, call_id: str) -> ToolCallView: ...
    async def tool_output(self, session_id: str, call_id: str) -> RawOutput: ...

    async def files(self, session_id: str, path: str) -> FileList: ...
    async def read_file(self, session_id: str, path: str) -> bytes: ...
    async def write_file(self, session_id: str, path: str, data: bytes) -> Literal["created", "replaced"]: ...
    async def archive(self, session_id: str) -> AsyncIterator[bytes]: ...

    def models(self) -> ModelList: ...
    async def readiness(self) -> Readiness: ...

    async def follow(
        self, session_id: str, *, after: int, until_idle: bool
    ) -> AbstractAsyncContextManager[EventStream]:
        """The session's events after `after`, durable and live. Raises `ConflictError` (code `ahead_of_log`) where
        `after` is larger than the session's last seq. Leaving the context ends the subscription."""
        raise NotImplementedError

    def follow_all(self) -> AbstractAsyncContextManager[EventStream]:
        """`session.*` events of all sessions from now on, without seq."""
        raise NotImplementedError
