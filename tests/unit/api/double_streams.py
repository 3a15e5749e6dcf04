"""In-memory services with responses that stay open: files with their archive, and events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import IO, Literal

from app.api.examples import AT
from app.errors import ConflictError, ForbiddenError, NotFoundError
from app.messages import new_id, rfc3339
from app.runtime.history import read_seq
from app.runtime.services import EventService, FileService, IdempotencyService
from app.runtime.services.idempotency import Answer
from app.runtime.values.history import (
    EventStream,
    FileList,
    FileView,
    LogPage,
    RawOutput,
    UnpackedArchive,
    WorkspaceArchive,
)
from app.sessions import Status
from tests.unit.api.memory import Memory


class InMemoryFiles(FileService):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    node = None

    async def elsewhere(self, session_id: str, *, changes: bool = False) -> None:
        """Never: there is one node."""

    async def list(self, session_id: str, path: str) -> FileList:
        self._memory.get(session_id)
        items = [
            FileView(path=name, type="file", size=len(data), modified_at=rfc3339(AT))
            for name, data in self._memory.workspace.items()
        ]
        return FileList(path=path, items=tuple(items), truncated=False)

    async def open(self, session_id: str, path: str) -> RawOutput:
        self._memory.get(session_id)
        self._contained(path)
        if path not in self._memory.workspace:
            raise NotFoundError("There is no file at this path.", code="file_not_found")
        data = self._memory.workspace[path]
        return RawOutput(size=len(data), data=data)

    async def write(
        self, session_id: str, path: str, data: bytes, allows: Callable[[str | None], bool] = lambda _: True
    ) -> tuple[Literal["created", "replaced"], str]:
        self._memory.get(session_id)
        self._contained(path)
        replaced = path in self._memory.workspace
        self._memory.workspace[path] = data
        return "replaced" if replaced else "created", "1"

    async def check_no_command(self, session_id: str) -> None:
        self._memory.get(session_id)

    async def unpack(self, session_id: str, path: str, archive: IO[bytes], *, replace: bool) -> UnpackedArchive:
        archive.seek(0)
        data = archive.read()
        self._memory.workspace["archive"] = data
        return UnpackedArchive(path=path or ".", files=1, bytes=len(data))

    def _contained(self, path: str) -> None:
        if ".." in path.split("/"):
            raise ForbiddenError("The path leaves the workspace.", code="outside_workspace")

    async def archive(self, session_id: str) -> WorkspaceArchive:
        self._memory.get(session_id)
        return WorkspaceArchive(self._archive())

    async def _archive(self) -> AsyncIterator[bytes]:
        """The bytes of all files; the file `endless` never ends."""
        async with self._memory.reading():
            for name, data in self._memory.workspace.items():
                yield data
                while name == "endless":
                    yield data


class InMemoryEvents(EventService):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def check_room(self) -> None:
        """Never refuses."""

    async def follow(
        self, session_id: str, *, after: int, until_idle: bool, promised: bool = False
    ) -> AbstractAsyncContextManager[EventStream | None]:
        session = self._memory.get(session_id)
        last = max((item.seq or 0 for item in self._memory.logs[session_id]), default=0)
        if after > last:
            raise ConflictError(f"The log ends at {last}.", code="ahead_of_log")
        is_over = until_idle and after == last and session.status is Status.IDLE
        return nullcontext() if is_over else self._subscription(self._events(session_id, after, until_idle))

    def follow_all(
        self, after: str | None = None, *, activity: bool = False
    ) -> AbstractAsyncContextManager[EventStream]:
        self._memory.logs.setdefault("all", [])
        return self._subscription(self._events("all", 0, False))

    async def page(
        self, session_id: str, *, after: str | None, limit: int, types: Collection[str], newest_first: bool
    ) -> LogPage:
        self._memory.get(session_id)
        start = read_seq(after)
        self._memory.listed = {"after": start, "limit": limit, "types": types, "newest_first": newest_first}
        items = [item for item in self._memory.logs[session_id] if item.seq is not None]
        return LogPage(tuple(items[:limit]), last_seq=len(items), next_cursor=None)

    @asynccontextmanager
    async def _subscription(self, events: EventStream) -> AsyncIterator[EventStream]:
        async with self._memory.reading():
            yield events

    async def _events(self, log: str, after: int, until_idle: bool) -> EventStream:
        sent = after
        while True:
            async with self._memory.changed:
                if self._memory.fault is not None:
                    raise self._memory.fault
                idle = until_idle and self._memory.sessions[log].status is Status.IDLE
                self._memory.sent[log] = sent
                self._memory.changed.notify_all()
                while len(self._memory.logs[log]) == sent and not idle and self._memory.fault is None:
                    await self._memory.changed.wait()
                    idle = until_idle and self._memory.sessions[log].status is Status.IDLE
                batch = self._memory.logs[log][sent:]
            if batch:
                sent += len(batch)
                yield batch
            elif idle:
                return


class InMemoryIdempotency(IdempotencyService):
    """Knows no earlier request."""

    def __init__(self) -> None:
        """Without a database."""

    async def begin(self, key_digest: str) -> str | Answer:
        return new_id()

    async def answer(self, key_digest: str, given: Answer) -> None:
        """Keeps nothing."""

    async def release(self, key_digest: str) -> None:
        """Has nothing to let go."""

    async def made_id(self, key_digest: str) -> str | None:
        return None
