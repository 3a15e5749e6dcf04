"""Bounds the total size of each session's raw outputs: the oldest are removed to make room for newer ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Protocol

import orjson
import structlog
from sqlalchemy import Connection

from app.db.repositories import retention as rows
from app.errors import PalimpsestError
from app.eventlog.log import StreamItem
from app.messages import now
from app.runtime.background import in_background
from app.runtime.observed import news
from app.runtime.setup import RuntimeSetup

BLOCK_BYTES = 4096
"""Disk space that a common file system uses for the smallest file."""

BATCH = 100
"""Outputs marked in one write, which takes some milliseconds of the writer's time."""

LEFT_BEHIND = timedelta(days=1)
"""How far back a start looks for outputs marked as removed just before a crash, for any reason."""

log = structlog.get_logger(__name__)


class SizedOutputs(Protocol):
    """The files of raw outputs and their sizes."""

    async def sizes(self, keys: Sequence[str]) -> list[int]:
        """Bytes on disk for each of these keys, 0 for missing files."""
        ...

    async def delete(self, keys: Iterable[str]) -> None:
        """Removes the outputs with these keys; missing ones are ignored."""
        ...


class OutputBound:
    """Observes results of calls, and removes a session's oldest raw outputs if their total size is too large. Outputs
    of running calls are not counted: each has its own bound."""

    def __init__(self, setup: RuntimeSetup, outputs: SizedOutputs, most: int) -> None:
        """`most` is the maximum size in bytes of one session's outputs."""
        self._setup = setup
        self._outputs = outputs
        self._most = most
        self._room: dict[str, int] = {}
        """Bytes that a running session may still print before its outputs are checked again."""
        self._due: set[str] = set()
        self._has_due = asyncio.Event()

    def observe(self, items: Sequence[StreamItem]) -> None:
        """Handles committed events."""
        for item in news(items):
            if item.type == "tool.result":
                data = orjson.loads(item.data)
                self._grow(data["session_id"], data["bytes"])
            elif item.type in ("session.idle", "session.deleted"):
                self._room.pop(orjson.loads(item.data)["session_id"], None)

    def _grow(self, session_id: str, size: int) -> None:
        self._room[session_id] = self._room.get(session_id, 0) - size - BLOCK_BYTES
        if self._room[session_id] < 0:
            self._due.add(session_id)
            self._has_due.set()

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Removes excess outputs in the background while the context lasts."""
        async with in_background(self._run(), "output-bound"):
            yield

    async def _run(self) -> None:
        await self._attempt(self._remove_left_behind())
        while True:
            await self._has_due.wait()
            self._has_due.clear()
            while self._due:
                await self._attempt(self.enforce(self._due.pop()))

    async def _attempt(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs `work` and logs errors: the next result of the session retries."""
        try:
            await work
        except PalimpsestError as error:
            log.warning("output_removal_failed", reason=error.detail)
        except Exception:
            log.exception("output_bound_crashed")

    async def _remove_left_behind(self) -> None:
        since = now() - LEFT_BEHIND
        await self._outputs.delete(await self._setup.database.read(lambda c: rows.swept_since(c, since)))

    async def enforce(self, session_id: str) -> None:
        """Removes a session's oldest outputs until the rest is within the bound. Raises `SupersededError` if another
        server has the database."""
        stored = await self._setup.database.read(lambda c: rows.outputs_of(c, session_id))
        sizes = await self._outputs.sizes([output.key for output in stored])
        total, due = sum(sizes), []
        # The newest is always kept: a file on disk is slightly larger than its bound.
        for output, size in zip(stored[:-1], sizes[:-1], strict=True):
            if total <= self._most:
                break
            due.append(output)
            total -= size
        for start in range(0, len(due), BATCH):
            await self._remove(due[start : start + BATCH])
        if session_id in self._room:
            self._room[session_id] = self._most - total
        if due:
            log.info("outputs_over_bound_removed", session_id=session_id, count=len(due))

    async def _remove(self, due: Sequence[rows.StoredOutput]) -> None:
        def mark(connection: Connection) -> list[str]:
            self._setup.fence(connection)
            return rows.mark_removed(connection, due, now())

        # Marked first, so that no missing output is ever offered.
        await self._outputs.delete(await self._setup.database.writer.write(mark))
