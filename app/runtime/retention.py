"""Removes what the operator no longer keeps: old raw outputs, those beyond a session's size, and old sessions; and what
is left of deleted ones. Nothing that a run needs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

import orjson
import structlog
from sqlalchemy import Connection

from app.db.repositories import deletions, sessions
from app.errors import PalimpsestError, SupersededError
from app.eventlog.log import StreamItem
from app.messages import now
from app.runtime.background import in_background
from app.runtime.setup import RuntimeSetup
from app.runtime.telemetry.tracing import news
from app.sessions import SandboxSpec

SWEEP_S = 600.0
"""Seconds between two sweeps: short compared to retention periods of days."""
BATCH = 100
"""Outputs or sessions looked up at a time. Outputs are marked in one write, which takes some milliseconds of the
writer's time; each session is removed in its own write."""
log = structlog.get_logger(__name__)

BLOCK_BYTES = 4096
"""Disk space that a common file system uses for the smallest file."""
MARKED_AT_ONCE = 100
"""Outputs marked in one write, which takes some milliseconds of the writer's time."""
LEFT_BEHIND = timedelta(days=1)
"""How far back a start looks for outputs marked as removed just before a crash, for any reason."""


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """How long raw outputs are kept after their call, and sessions after their last activity; None is forever."""

    outputs: timedelta | None = None
    sessions: timedelta | None = None


class StoredOutputs(Protocol):
    """The files of raw outputs."""

    async def delete(self, keys: Iterable[str]) -> None:
        """Removes the outputs with these keys; missing ones are ignored."""
        ...

    async def delete_session(self, session_id: str) -> None:
        """Removes the outputs of a session."""
        ...


class Retention:
    """Sweeps in the background, in small writes, so that others do not wait long for the writer."""

    def __init__(self, setup: RuntimeSetup, outputs: StoredOutputs, rules: RetentionRules) -> None:
        self._setup = setup
        self._outputs = outputs
        self._rules = rules

    @asynccontextmanager
    async def sweeping(self) -> AsyncIterator[None]:
        """Sweeps at once and then periodically, while the context lasts."""
        async with in_background(self._run(), "retention"):
            yield

    async def _run(self) -> None:
        while True:
            try:
                await self.sweep()
            except SupersededError:
                return
            except PalimpsestError as error:
                log.warning("sweep_failed", reason=error.detail)
            except Exception:
                log.exception("sweep_crashed")
            await asyncio.sleep(SWEEP_S)

    async def sweep(self) -> None:
        """Removes everything that has expired. Raises `SupersededError` if another server has the database."""
        if self._rules.sessions is not None:
            await self._sweep_sessions(self._rules.sessions)
        if self._rules.outputs is not None:
            await self._sweep_outputs(self._rules.outputs)
        await self._setup.database.writer.write(self._remove_last_events)

    def _remove_last_events(self, connection: Connection) -> None:
        self._setup.fence(connection)
        deletions.remove_old(connection)

    async def _sweep_outputs(self, kept: timedelta) -> None:
        before, swept = now() - kept, 0
        while found := await self._setup.database.read(lambda c: sessions.old_outputs(c, before, BATCH)):
            keys = await self._mark(found)
            # Only outputs marked as removed are deleted, so that no missing output is ever offered.
            await self._outputs.delete(keys)
            swept += len(keys)
            if not keys:
                break  # all of their sessions have started running
        if swept:
            log.info("outputs_swept", count=swept)

    async def _mark(self, found: Sequence[sessions.StoredOutput]) -> list[str]:
        def mark(connection: Connection) -> list[str]:
            self._setup.fence(connection)
            return sessions.mark_swept(connection, found, now())

        return await self._setup.database.writer.write(mark)

    async def _sweep_sessions(self, kept: timedelta) -> None:
        before, swept = now() - kept, 0
        while found := await self._setup.database.read(lambda c: sessions.old_sessions(c, before, BATCH)):
            removed = [await self._remove(session_id, before) for session_id in found]
            swept += sum(removed)
            if not any(removed):
                break
        if swept:
            log.info("sessions_swept", count=swept)

    async def _remove(self, session_id: str, before: datetime) -> bool:
        """Removes a session with its sub-agents unless it has become active. Its rows go first, in the write that
        checks this, so that no new message can be lost; after a crash the next start removes the rest."""

        def remove(connection: Connection) -> tuple[SandboxSpec, list[tuple[str, StreamItem]]] | None:
            self._setup.fence(connection)
            if not sessions.is_old(connection, session_id, before):
                return None
            sandbox = SandboxSpec(**sessions.row(connection, session_id).sandbox)
            gone = [*sessions.child_ids(connection, session_id), session_id]
            return sandbox, [self._setup.remove(connection, each) for each in gone]

        removed = await self._setup.database.writer.write(remove, session_id=session_id)
        if removed is None:
            return False
        sandbox, gone = removed
        for last in gone:
            self._setup.removed(*last)
        try:
            async with self._setup.sandboxes.removed(session_id, sandbox):
                for removed_id, _ in gone:
                    await self._outputs.delete_session(removed_id)
        except PalimpsestError as error:
            log.warning("swept_session_left_behind", session_id=session_id, reason=error.detail)
        return True


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
            if item.type in ("tool.result", "command.ended"):
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
        await self._outputs.delete(await self._setup.database.read(lambda c: sessions.swept_since(c, since)))

    async def enforce(self, session_id: str) -> None:
        """Removes a session's oldest outputs until the rest is within the bound. Raises `SupersededError` if another
        server has the database."""
        stored = await self._setup.database.read(lambda c: sessions.outputs_of(c, session_id))
        sizes = await self._outputs.sizes([output.key for output in stored])
        total, due = sum(sizes), []
        # The newest is always kept: a file on disk is slightly larger than its bound.
        for output, size in zip(stored[:-1], sizes[:-1], strict=True):
            if total <= self._most:
                break
            due.append(output)
            total -= size
        for start in range(0, len(due), MARKED_AT_ONCE):
            await self._remove(session_id, due[start : start + MARKED_AT_ONCE])
        if session_id in self._room:
            self._room[session_id] = self._most - total
        if due:
            log.info("outputs_over_bound_removed", session_id=session_id, count=len(due))

    async def _remove(self, session_id: str, due: Sequence[sessions.StoredOutput]) -> None:
        def mark(connection: Connection) -> list[str]:
            self._setup.fence(connection)
            return sessions.mark_removed(connection, due, now())

        # Marked first, so that no missing output is ever offered.
        keys = await self._setup.database.writer.write(mark, session_id=session_id)
        await self._outputs.delete(keys)
