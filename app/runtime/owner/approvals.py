"""Where a run waits for a person, and a run that an earlier owner of its session has left: recovered, then read by the
owner that continues it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from app.agent.approvals import WaitingStep
from app.agent.changes import CallsHeld, StepOpened
from app.agent.interrupt import StopReason
from app.agent.loop import RunResult
from app.agent.protocols import Decision
from app.agent.record import StoredConversation
from app.db.repositories import messages, parts, queue, steps
from app.db.repositories import steps as approvals
from app.eventlog.log import Appender, StreamItem
from app.messages import FinishReason, now
from app.runtime.agents import load_conversation
from app.runtime.owner.recorder import Recorder
from app.runtime.owner.state import SessionState
from app.runtime.setup import RuntimeSetup
from app.runtime.transactions import recovery
from app.runtime.transactions.recovery import left_outputs
from app.runtime.transactions.runs import has_expired, resolve_approvals, withdraw_approvals
from app.sessions import ApprovalEnd, ContextState, Outcome, QueueMode

RECHECK_S = 10.0
"""How often, in seconds, a wait checks the wall clock for expired approvals: that clock may be set, and it advances
while the machine sleeps, unlike the clock of timers."""


class StoredApprovals:
    """The approvals of one owner of one session: decisions are stored in the database, so they survive a restart.
    `ring` signals that there may be a new decision."""

    def __init__(self, recorder: Recorder, session_id: str, epoch: int, rest: Callable[[bool], None]) -> None:
        """`rest` is called with True when the run starts to wait, so that it can release what it does not need, and
        with False when it continues."""
        self._recorder = recorder
        self._rest = rest
        self._session_id = session_id
        self._epoch = epoch
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self._rung.set()

    async def decisions(self, message_id: str) -> Mapping[str, Decision]:
        """See `ports.ApprovalDesk.decisions`."""
        try:
            while True:
                # Cleared before reading: a later decision sets it again.
                self._rung.clear()
                rows = await self._recorder.submit(lambda c: self._settle(c, message_id))
                waiting = [row for row in rows if row.decision is None]
                if not waiting:
                    return {row.call_id: Decision(row.decision, row.decided_by, row.reason) for row in rows}
                self._rest(True)
                await self._wait_until(min((row.expires_at for row in waiting if row.expires_at), default=None))
        finally:
            # Before any approved call starts.
            self._rest(False)

    def _settle(self, connection: Connection, message_id: str) -> tuple[Sequence[Row[Any]], list[StreamItem]]:
        """Denies expired approvals; returns all approvals of the message."""
        appender = Appender(connection, self._session_id, epoch=self._epoch)
        rows = approvals.approvals_of_message(connection, self._session_id, message_id)
        late = [row for row in rows if row.decision is None and has_expired(row, appender.at)]
        if late:
            resolve_approvals(connection, appender, late, "deny", "timeout")
            rows = approvals.approvals_of_message(connection, self._session_id, message_id)
        return rows, appender.flush()

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
        """See `ports.ApprovalDesk.withdraw`."""

        def work(connection: Connection) -> tuple[None, list[StreamItem]]:
            appender = Appender(connection, self._session_id, epoch=self._epoch)
            withdraw_approvals(connection, appender, by)
            return None, appender.flush()

        self._recorder.submit(work)


def waiting_step(connection: Connection, row: Row[Any]) -> WaitingStep | None:
    """The step whose calls were held by a session's previous owner and not started, None without one."""
    attempt = steps.last_attempt(connection, row.id, row.steps)
    if attempt is None or attempt.finish_reason is not None:
        return None
    if not approvals.are_held(connection, row.id, attempt.message_id):
        return None
    held = approvals.approvals_of_message(connection, row.id, attempt.message_id)
    calls = parts.calls(connection, row.id, attempt.message_id)
    waited = {each.call_id for each in held}
    first = held[0]
    timeout_s = (first.expires_at - first.requested_at).total_seconds() if first.expires_at is not None else None
    usage = steps.usage_of(connection, row.id, attempt.step)
    # If a session's total cost is unknown, the known part is read from its steps, including this one.
    known = row.usage["cost_usd"] is not None
    return WaitingStep(
        opened=_opened(attempt),
        finish_reason=messages.finish_reason(connection, row.id, attempt.message_id) or FinishReason.TOOL_CALLS,
        calls=calls,
        held=CallsHeld(attempt.message_id, tuple(call for call in calls if call.call_id in waited), timeout_s),
        usage=usage,
        known_cost_usd=(usage.cost_usd or 0.0) if known else 0.0,
        elapsed_s=max(0.0, (now() - attempt.started_at).total_seconds()),
    )


def _opened(attempt: Row[Any]) -> StepOpened:
    return StepOpened(
        attempt.step,
        attempt.attempt,
        attempt.message_id,
        attempt.model,
        attempt.generation,
        ContextState(**attempt.context),
        attempt.compaction_round,
    )


def ended_by(connection: Connection, row: Row[Any]) -> StopReason | None:
    """The reason to end the waiting step, if one arrived before the restart."""
    if row.cancel_requested:
        return "cancel"
    modes = {message.mode for message in queue.pending(connection, row.id)}
    return "interrupt" if QueueMode.INTERRUPT in modes else None


async def recover_interrupted(
    setup: RuntimeSetup, session: SessionState, recorder: Recorder, claimed: Row[Any]
) -> tuple[RunResult | None, StoredConversation | None]:
    """Recovers the state left by the previous owner; returns a result if the run ends with that, and the conversation
    if nothing had to be changed. `claimed` is the session's row at the takeover."""

    def look(connection: Connection) -> StoredConversation | None:
        return None if recovery.is_needed(connection, claimed) else load_conversation(connection, session.id)

    stored = await setup.database.read(look)
    parks = session.id in setup.to_park
    setup.to_park.discard(session.id)
    if stored is not None:
        if claimed.cancel_requested:
            return RunResult(Outcome.CANCELLED), stored
        if session.restored_as_of is not None:
            await recorder.submit(
                lambda c: (None, recovery.report_recovery(c, session.id, claimed.epoch, session.restored_as_of))
            )
            await session.read()
        return recovery.parked() if parks else None, stored
    calls = await setup.database.read(lambda c: recovery.open_calls(c, session.id))
    outputs = await left_outputs(session.id, calls, setup.output_path)
    result = await recorder.submit(
        lambda c: recovery.recover(
            c, session.id, claimed.epoch, outputs=outputs, parks=parks, workspace_as_of=session.restored_as_of
        )
    )
    await session.read()
    return result, None


def read_interrupted(
    connection: Connection, row: Row[Any]
) -> tuple[StoredConversation, WaitingStep | None, StopReason | None]:
    """The conversation; a step that is waiting for approval, and the reason to end it, if any."""
    return load_conversation(connection, row.id), waiting_step(connection, row), ended_by(connection, row)
