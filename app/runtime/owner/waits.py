"""Where a run waits for a person, a client or a sub-agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, Row

from app.agent.protocols import ClientAnswer, Decision
from app.db.repositories import client_calls
from app.db.repositories import steps as approvals
from app.eventlog.log import Appender, StreamItem
from app.messages import now
from app.runtime.owner.recorder import Recorder
from app.runtime.owner.subagents import SessionSubagents
from app.runtime.transactions.runs import end_client_calls, has_expired, resolve_approvals, withdraw_waits
from app.sessions import ApprovalEnd

T = TypeVar("T")
RECHECK_S = 10.0
"""How often, in seconds, a wait checks the wall clock for what has expired: that clock may be set, and it advances
while the machine sleeps, unlike the clock of timers."""
Settle = Callable[[Connection, Appender], tuple[T | None, datetime | None]]
"""Checks whether a wait is over: returns what it ended with, or None and the time at which to check again, if any."""


class StoredWaits:
    """The waits of one owner of one session: decisions and results of clients are stored in the database, so they
    survive a restart. `ring` signals that there may be a new one."""

    def __init__(
        self,
        recorder: Recorder,
        session_id: str,
        epoch: int,
        rest: Callable[[bool], None],
        waited: Callable[[str, float], None] = lambda _, __: None,
        subagents: SessionSubagents | None = None,
    ) -> None:
        """`rest` is called with True when the run starts to wait, so that it can release what it does not need, and
        with False when it continues. `waited` gets how the wait for a client ended, and its seconds. Without
        `subagents` no call waits for one."""
        self._recorder = recorder
        self._rest = rest
        self._waited = waited
        self._subagents = subagents
        self._session_id = session_id
        self._epoch = epoch
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self._rung.set()

    async def decisions(self, message_id: str) -> Mapping[str, Decision]:
        """See `CallGate.decisions`."""

        def settle(connection: Connection, appender: Appender) -> tuple[dict[str, Decision] | None, datetime | None]:
            rows = approvals.approvals_of_message(connection, self._session_id, message_id)
            late = [row for row in rows if row.decision is None and has_expired(row, appender.at)]
            if late:
                resolve_approvals(connection, appender, late, "deny", "timeout")
                rows = approvals.approvals_of_message(connection, self._session_id, message_id)
            waiting = [row for row in rows if row.decision is None]
            if waiting:
                return None, _first_end(waiting)
            return {row.call_id: Decision(row.decision, row.decided_by, row.reason) for row in rows}, None

        return await self._settled(settle)

    async def answers(self, message_id: str, calls: Collection[str]) -> Mapping[str, ClientAnswer]:
        """See `CallGate.answers`."""

        def settle(connection: Connection, appender: Appender) -> tuple[list[Row[Any]] | None, datetime | None]:
            rows = client_calls.of_message(connection, self._session_id, message_id)
            late = [row.call_id for row in rows if row.ended_by is None and has_expired(row, appender.at)]
            if late:
                end_client_calls(connection, appender, late, "timeout")
                rows = client_calls.of_message(connection, self._session_id, message_id)
            if self._subagents is not None:
                self._subagents.settle(connection, appender, rows)
                rows = client_calls.of_message(connection, self._session_id, message_id)
            ended = [row for row in rows if row.call_id in calls and row.ended_by is not None]
            return ended or None, _first_end([row for row in rows if row.ended_by is None])

        rows = await self._settled(settle)
        answers = {row.call_id: _answer(row) for row in rows}
        for row in rows:
            if row.child_id is None:
                self._waited(row.ended_by, answers[row.call_id].waited_s)
        return answers

    async def _settled(self, settle: Settle[T]) -> T:
        """Checks again at each ring, and when something expires, until a wait is over."""

        def work(connection: Connection) -> tuple[tuple[T | None, datetime | None], list[StreamItem]]:
            appender = Appender(connection, self._session_id, epoch=self._epoch)
            found = settle(connection, appender)
            return found, appender.flush()

        try:
            while True:
                # Cleared before reading: a later decision sets it again.
                self._rung.clear()
                found, expires_at = await self._recorder.submit(work, self._committed)
                if found is not None:
                    return found
                self._rest(True)
                await self._wait_until(expires_at)
        finally:
            # Before any call starts.
            self._rest(False)

    async def _wait_until(self, moment: datetime | None) -> None:
        """Waits for `ring`, or until `moment`."""
        if moment is None:
            await self._rung.wait()
            return
        while (left := (moment - now()).total_seconds()) > 0:
            # No `wait_for`: before Python 3.12 it loses a cancellation that comes together with the ring.
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, RECHECK_S)):
                    await self._rung.wait()
                    return

    def withdraw(self, by: ApprovalEnd) -> None:
        """See `CallGate.withdraw`."""

        def work(connection: Connection) -> tuple[None, list[StreamItem]]:
            appender = Appender(connection, self._session_id, epoch=self._epoch)
            if self._subagents is not None:
                self._subagents.withdraw(connection)
            withdraw_waits(connection, appender, by)
            return None, appender.flush()

        self._recorder.submit(work, self._committed)

    def _committed(self) -> None:
        if self._subagents is not None:
            self._subagents.committed()


def _first_end(rows: Collection[Row[Any]]) -> datetime | None:
    return min((row.expires_at for row in rows if row.expires_at), default=None)


def timeout_s(row: Row[Any]) -> float | None:
    """How long a call that waits, or waited, was given, in seconds."""
    return (row.expires_at - row.requested_at).total_seconds() if row.expires_at is not None else None


def _answer(row: Row[Any]) -> ClientAnswer:
    waited_s = max(0.0, (row.ended_at - row.requested_at).total_seconds())
    text = (row.output or "") if row.ended_by in ("client", "subagent") else None
    return ClientAnswer(text, row.is_error, waited_s, timeout_s(row))
