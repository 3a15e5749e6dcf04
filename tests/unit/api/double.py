"""A service in memory, behind the same interface as the real one, and a real server to put it into."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Literal

import uvicorn
from fastapi import FastAPI

from app.api.examples import AT, SESSION
from app.api.examples.compactions import PREVIEW
from app.errors import ConflictError, ForbiddenError, NotFoundError, NotSupportedError, QueueFullError
from app.interchange import WireFormat
from app.messages import ToolCallPart, Usage, new_id, now
from app.runtime.service import SessionService
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
    StreamItem,
    SystemView,
    ToolCallView,
    UsageReport,
)
from app.sessions import CompactionEvent, ContextState, Session, Status

CALL_ID = "call_1"


class InMemoryService(SessionService):
    """Keeps sessions, queues, files and event logs in dictionaries.

    `fault` is raised by the next call of `get`; `readers` counts the open subscriptions.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.bodies: dict[str, SessionCreate] = {}
        self.queues: dict[str, dict[str, QueuedMessage]] = {}
        self.logs: dict[str, builtins.list[StreamItem]] = {}
        self.workspace: dict[str, bytes] = {}
        self.outputs: dict[str, RawOutput] = {}
        self.listed: dict[str, object] = {}
        self.rounds_of: dict[str, CompactionEvent] = {}
        self.fault: Exception | None = None
        self.ready = True
        self.readers = 0
        self.sent: dict[str, int] = {}
        self.changed = asyncio.Condition()

    async def create(self, body: SessionCreate) -> tuple[Session, bool]:
        if body.approval is not None:
            raise NotSupportedError("Not in this version.")
        if body.id in self.sessions:
            if self.bodies[body.id] != body:
                raise ConflictError("The id was used with other content.", code="id_in_use")
            return self.sessions[body.id], False
        status = Status.RUNNING if body.task else Status.IDLE
        session = SESSION.model_copy(
            update={
                "id": body.id or new_id(),
                "task": body.task,
                "title": body.title,
                "status": status,
                "metadata": body.metadata or {},
            }
        )
        self.sessions[session.id], self.bodies[session.id] = session, body
        self.queues[session.id], self.logs[session.id] = {}, []
        await self.append(session.id, StreamItem("session.created", 1, b'{"n":1}'))
        return session, True

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
        """Waits until some reader has asked for more than the log has."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.sent.get(session_id) == len(self.logs[session_id]))

    async def list(self, *, status: Status | None, q: str | None, limit: int, cursor: str | None) -> SessionPage:
        self.listed = {"status": status, "q": q, "limit": limit, "cursor": cursor}
        items = [session for session in self.sessions.values() if status in (None, session.status)]
        return SessionPage(items=tuple(items[:limit]), next_cursor=None)

    async def get(self, session_id: str) -> Session:
        if self.fault is not None:
            raise self.fault
        if session_id not in self.sessions:
            raise NotFoundError("There is no session with this id.", code="session_not_found")
        return self.sessions[session_id]

    async def patch(self, session_id: str, body: SessionPatch) -> Session:
        session = await self.get(session_id)
        self.sessions[session_id] = session.model_copy(update=body.model_dump(exclude_unset=True, exclude={"limits"}))
        return self.sessions[session_id]

    async def delete(self, session_id: str) -> None:
        await self.get(session_id)
        del self.sessions[session_id]

    async def cancel(self, session_id: str, *, clear_queue: bool) -> Session:
        session = await self.get(session_id)
        if clear_queue:
            self.queues[session_id].clear()
        return session

    async def resume(self, session_id: str) -> Session:
        session = await self.get(session_id)
        if session.status is Status.RUNNING:
            raise ConflictError("There is nothing to resume.", code="nothing_to_resume")
        return session

    async def usage(self) -> UsageReport:
        return UsageReport(total=Usage(), items=())

    async def enqueue(self, session_id: str, body: QueueAdd) -> QueueReceipt:
        await self.get(session_id)
        queue = self.queues[session_id]
        if len(queue) >= 3:
            raise QueueFullError("3 messages are waiting already.")
        message = QueuedMessage(
            id=body.id or new_id(),
            position=len(queue) + 1,
            mode=body.mode,
            status="pending",
            content=body.content,
            created_at=AT,
        )
        queue[message.id] = message
        return QueueReceipt(id=message.id, position=message.position, mode=message.mode, status=message.status)

    async def queue(self, session_id: str) -> QueuePage:
        await self.get(session_id)
        return QueuePage(items=tuple(self.queues[session_id].values()), last_seq=1)

    async def edit(self, session_id: str, message_id: str, body: QueueEdit) -> QueuedMessage:
        message = await self._pending(session_id, message_id)
        edited = message.model_copy(update=body.model_dump(exclude_none=True))
        self.queues[session_id][message_id] = edited
        return edited

    async def withdraw(self, session_id: str, message_id: str) -> None:
        await self._pending(session_id, message_id)
        del self.queues[session_id][message_id]

    async def _pending(self, session_id: str, message_id: str) -> QueuedMessage:
        await self.get(session_id)
        if message_id not in self.queues[session_id]:
            raise NotFoundError("There is no queued message with this id.", code="message_not_found")
        return self.queues[session_id][message_id]

    async def messages(self, session_id: str, *, after: str | None, limit: int) -> MessagePage:
        await self.get(session_id)
        return MessagePage(items=(), last_seq=1, next_cursor=None)

    async def export(self, session_id: str, *, format: WireFormat, after: str | None, limit: int) -> ExportPage:
        await self.get(session_id)
        self.listed = {"format": format, "after": after, "limit": limit}
        return ExportPage(items=({"role": "user", "content": "Hello."},), last_seq=1, next_cursor=None)

    async def context(self, session_id: str, *, step: int | None) -> ContextView:
        session = await self.get(session_id)
        if step is not None:
            raise NotFoundError("The session has no such step.", code="step_not_found")
        return ContextView(
            session_id=session_id,
            last_seq=1,
            step=step,
            generation=0,
            model=session.model,
            system=SystemView(text="You are an agent.", tokens=4),
            tools=(),
            messages=(),
            tokens=4,
            limit=ContextState().limit,
            usable=0,
            source="estimated",
        )

    async def compact(self, session_id: str, body: CompactionCreate) -> CompactionEvent:
        await self.get(session_id)
        if session_id in self.rounds_of:
            raise ConflictError("A compaction of this session is under way.", code="compaction_in_progress")
        event = CompactionEvent(
            round=1, reason="manual", policy=body.policy or "reactive", status="running", created_at=now()
        )
        self.rounds_of[session_id] = event
        return event

    async def preview(self, session_id: str, body: CompactionCreate) -> CompactionPreview:
        await self.get(session_id)
        return PREVIEW.model_copy(update={"policy": body.policy or "reactive"})

    async def rounds(self, session_id: str) -> CompactionList:
        await self.get(session_id)
        found = self.rounds_of.get(session_id)
        return CompactionList(items=() if found is None else (found,), last_seq=1)

    async def revert(self, session_id: str, round: int) -> None:
        await self.get(session_id)
        raise NotFoundError(f"The session has no round {round}.", code="round_not_found")

    async def steps(self, session_id: str, *, after: str | None, limit: int) -> StepPage:
        await self.get(session_id)
        return StepPage(items=(), last_seq=1, next_cursor=None)

    async def tool_call(self, session_id: str, call_id: str) -> ToolCallView:
        await self.get(session_id)
        if call_id not in self.outputs:
            raise NotFoundError("There is no tool call with this id.", code="call_not_found")
        call = ToolCallPart(id=new_id(), index=0, call_id=call_id, name="execute_command", arguments_text='{"a": 1}')
        return ToolCallView(message_id=new_id(), call=call, result_message_id=None, result=None)

    async def tool_output(self, session_id: str, call_id: str) -> RawOutput:
        await self.tool_call(session_id, call_id)
        return self.outputs[call_id]

    async def files(self, session_id: str, path: str) -> FileList:
        await self.get(session_id)
        items = [
            FileView(path=name, type="file", size=len(data), modified_at=AT) for name, data in self.workspace.items()
        ]
        return FileList(path=path, items=tuple(items), truncated=False)

    async def read_file(self, session_id: str, path: str) -> bytes:
        await self.get(session_id)
        self._contained(path)
        if path not in self.workspace:
            raise NotFoundError("There is no file at this path.", code="file_not_found")
        return self.workspace[path]

    async def write_file(self, session_id: str, path: str, data: bytes) -> Literal["created", "replaced"]:
        await self.get(session_id)
        self._contained(path)
        replaced = path in self.workspace
        self.workspace[path] = data
        return "replaced" if replaced else "created"

    def _contained(self, path: str) -> None:
        if ".." in path.split("/"):
            raise ForbiddenError("The path leaves the workspace.", code="outside_workspace")

    async def archive(self, session_id: str) -> AsyncIterator[bytes]:
        await self.get(session_id)
        return self._archive()

    async def _archive(self) -> AsyncIterator[bytes]:
        """Every file's bytes; the file `endless` never ends."""
        async with self._reading():
            for name, data in self.workspace.items():
                yield data
                while name == "endless":
                    yield data

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[None]:
        async with self.changed:
            self.readers += 1
            self.changed.notify_all()
        try:
            yield
        finally:
            async with self.changed:
                self.readers -= 1
                self.changed.notify_all()

    def models(self) -> ModelList:
        unknown = PricesView(input=None, output=None, cache_read=None, cache_write=None)
        demo = ModelView(
            name="scripted/demo",
            provider="scripted",
            context_window=128_000,
            window_source="assumed",
            max_output_tokens=None,
            prices=unknown,
            key_present=True,
            default=True,
            description="Plays a script.",
        )
        return ModelList(items=(demo,))

    async def readiness(self) -> Readiness:
        return Readiness(ready=self.ready, components={"database": Component(ok=self.ready, detail="memory")})

    async def follow(
        self, session_id: str, *, after: int, until_idle: bool
    ) -> AbstractAsyncContextManager[EventStream]:
        await self.get(session_id)
        last = max((item.seq or 0 for item in self.logs[session_id]), default=0)
        if after > last:
            raise ConflictError(f"The log ends at {last}.", code="ahead_of_log")
        return self._subscription(self._events(session_id, after, until_idle))

    def follow_all(self) -> AbstractAsyncContextManager[EventStream]:
        self.logs.setdefault("all", [])
        return self._subscription(self._events("all", 0, False))

    @asynccontextmanager
    async def _subscription(self, events: EventStream) -> AsyncIterator[EventStream]:
        async with self._reading():
            yield events

    async def _events(self, log: str, after: int, until_idle: bool) -> EventStream:
        sent = after
        while True:
            async with self.changed:
                idle = until_idle and self.sessions[log].status is Status.IDLE
                self.sent[log] = sent
                self.changed.notify_all()
                while len(self.logs[log]) == sent and not idle:
                    await self.changed.wait()
                    idle = until_idle and self.sessions[log].status is Status.IDLE
                batch = self.logs[log][sent:]
            if batch:
                sent += len(batch)
                yield batch
            elif idle:
                return


class Server(uvicorn.Server):
    """A real server in the test's own loop."""

    @property
    def port(self) -> int:
        port: int = self.servers[0].sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def serving(app: FastAPI) -> AsyncIterator[Server]:
    """Serves `app` on a free loopback port and stops within a few seconds at the end."""
    ready = asyncio.Event()

    class Announcing(Server):
        async def startup(self, *args: object, **kwargs: object) -> None:
            await super().startup(*args, **kwargs)  # type: ignore[arg-type]
            ready.set()

    config = uvicorn.Config(app, port=0, log_level="error", timeout_graceful_shutdown=5, access_log=False)
    server = Announcing(config)
    task = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(10):
            await ready.wait()
        yield server
    finally:
        server.should_exit = True
        await task
