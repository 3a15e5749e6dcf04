"""Removes raw outputs and whole sessions after the operator's retention period. Running sessions are not touched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

import structlog
from sqlalchemy import Connection

from app.db.repositories import retention as rows
from app.db.repositories import sessions
from app.errors import PalimpsestError, SupersededError
from app.eventlog.log import StreamItem
from app.events import SessionDeleted
from app.messages import now
from app.runtime.background import in_background
from app.runtime.setup import RuntimeSetup
from app.sessions import Session

SWEEP_S = 600.0
"""Seconds between two sweeps: short compared to retention periods of days."""

BATCH = 100
"""Outputs or sessions looked up at a time. Outputs are marked in one write, which takes some milliseconds of the
writer's time; each session is removed in its own write."""

log = structlog.get_logger(__name__)


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
        if self._rules == RetentionRules():
            yield
            return
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

    async def _sweep_outputs(self, kept: timedelta) -> None:
        before, swept = now() - kept, 0
        while found := await self._setup.database.read(lambda c: rows.old_outputs(c, before, BATCH)):
            keys = await self._mark(found)
            # Only outputs marked as removed are deleted, so that no missing output is ever offered.
            await self._outputs.delete(keys)
            swept += len(keys)
            if not keys:
                break  # all of their sessions have started running
        if swept:
            log.info("outputs_swept", count=swept)

    async def _mark(self, found: Sequence[rows.StoredOutput]) -> list[str]:
        def mark(connection: Connection) -> list[str]:
            self._setup.fence(connection)
            return rows.mark_swept(connection, found, now())

        return await self._setup.database.writer.write(mark)

    async def _sweep_sessions(self, kept: timedelta) -> None:
        before, swept = now() - kept, 0
        while found := await self._setup.database.read(lambda c: rows.old_sessions(c, before, BATCH)):
            removed = [await self._remove(session_id, before) for session_id in found]
            swept += sum(removed)
            if not any(removed):
                break
        if swept:
            log.info("sessions_swept", count=swept)

    async def _remove(self, session_id: str, before: datetime) -> bool:
        """Removes a session unless it has become active. Its rows go first, in the write that checks this, so that no
        new message can be lost; after a crash the next start removes the rest."""

        def remove(connection: Connection) -> Session | None:
            self._setup.fence(connection)
            if not rows.is_old(connection, session_id, before):
                return None
            last = sessions.snapshot(connection, session_id)
            sessions.remove(connection, session_id)
            return last

        last = await self._setup.database.writer.write(remove)
        if last is None:
            return False
        event = SessionDeleted(session_id=session_id, at=now(), session=last)
        data = event.__pydantic_serializer__.to_json(event)
        self._setup.bus.delete(session_id, StreamItem(event.type, last.last_seq + 1, data))
        try:
            async with self._setup.sandboxes.removed(session_id, last.sandbox):
                await self._outputs.delete_session(session_id)
        except PalimpsestError as error:
            log.warning("swept_session_left_behind", session_id=session_id, reason=error.detail)
        return True
