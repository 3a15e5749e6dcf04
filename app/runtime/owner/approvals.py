"""Where a run waits for a person, a client or a sub-agent, and a run that an earlier owner of its session has left:
recovered, then read by the owner that continues it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, Row

from app.agent.approvals import WaitingStep
from app.agent.changes import CallsAwaited, CallsHeld, StepOpened
from app.agent.interrupt import StopReason
from app.agent.loop import RunResult
from app.agent.protocols import ClientAnswer, Decision
from app.agent.record import StoredConversation
from app.db.repositories import client_calls, messages, parts, queue, steps, workspaces
from app.db.repositories import steps as approvals
from app.eventlog.log import Appender, StreamItem
from app.messages import FinishReason, Message, ToolCallPart, ToolStatus, now
from app.runtime.agents import load_conversation
from app.runtime.owner.recorder import Recorder
from app.runtime.owner.state import SessionState
from app.runtime.owner.subagents import SessionSubagents
from app.runtime.setup import RuntimeSetup
from app.runtime.transactions import recovery
from app.runtime.transactions.client_calls import is_left_waiting
from app.runtime.transactions.recovery import left_outputs
from app.runtime.transactions.runs import end_client_calls, has_expired, resolve_approvals, withdraw_waits
from app.sessions import ApprovalEnd, ContextState, Outcome, QueueMode

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


def _timeout_s(row: Row[Any]) -> float | None:
    """How long a call that waits, or waited, was given, in seconds."""
    return (row.expires_at - row.requested_at).total_seconds() if row.expires_at is not None else None


def _answer(row: Row[Any]) -> ClientAnswer:
    waited_s = max(0.0, (row.ended_at - row.requested_at).total_seconds())
    text = (row.output or "") if row.ended_by in ("client", "subagent") else None
    return ClientAnswer(text, row.is_error, waited_s, _timeout_s(row))


def waiting_step(connection: Connection, row: Row[Any]) -> WaitingStep | None:
    """The step whose calls waited when a session's previous owner left, and have not started; None without one."""
    attempt = steps.last_attempt(connection, row.id, row.steps)
    if attempt is None or attempt.finish_reason is not None:
        return None
    if not is_left_waiting(connection, row.id, attempt.message_id):
        return None
    calls = parts.calls(connection, row.id, attempt.message_id)
    waits = client_calls.of_message(connection, row.id, attempt.message_id)
    usage = steps.usage_of(connection, row.id, attempt.step)
    # If a session's total cost is unknown, the known part is read from its steps, including this one.
    known = row.usage["cost_usd"] is not None
    return WaitingStep(
        opened=_opened(attempt),
        finish_reason=messages.finish_reason(connection, row.id, attempt.message_id) or FinishReason.TOOL_CALLS,
        calls=calls,
        # Approvals come before all waits for clients.
        held=None if waits else _held(connection, row.id, attempt.message_id, calls),
        awaited=_awaited(attempt.message_id, calls, waits),
        parked=bool(waits),
        results=_results_so_far(connection, row.id, attempt.message_id) if waits else None,
        usage=usage,
        known_cost_usd=(usage.cost_usd or 0.0) if known else 0.0,
        elapsed_s=max(0.0, (now() - attempt.started_at).total_seconds()),
    )


def _held(connection: Connection, session_id: str, message_id: str, calls: Collection[ToolCallPart]) -> CallsHeld:
    rows = {each.call_id: each for each in approvals.approvals_of_message(connection, session_id, message_id)}
    held = tuple(call for call in calls if call.call_id in rows)
    return CallsHeld(message_id, held, _timeout_s(next(iter(rows.values()))))


def _awaited(message_id: str, calls: Collection[ToolCallPart], waits: Collection[Row[Any]]) -> CallsAwaited | None:
    """The calls that a client still has to answer, or whose results the model has not got."""
    timeouts = {row.call_id: _timeout_s(row) for row in waits if row.status == ToolStatus.PENDING}
    left = tuple((call, timeouts[call.call_id]) for call in calls if call.call_id in timeouts)
    return CallsAwaited(message_id, left) if left else None


def _results_so_far(connection: Connection, session_id: str, message_id: str) -> Message | None:
    """The tool message with the results of calls that ended before the wait."""
    asked = messages.named(connection, session_id, [message_id])[0]
    found = messages.tool_message_after(connection, session_id, asked.seq)
    return messages.named(connection, session_id, [found])[0] if found is not None else None


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
    setup: RuntimeSetup, session: SessionState, recorder: Recorder, claimed: Row[Any], *, is_new: bool = False
) -> tuple[RunResult | None, StoredConversation | None]:
    """Recovers the state left by the previous owner; returns a result if the run ends with that, and the conversation
    if nothing had to be changed. `claimed` is the session's row at the takeover; a run that `is_new` has no previous
    owner."""

    def look(connection: Connection) -> tuple[StoredConversation | None, bool]:
        if not is_new and recovery.is_needed(connection, claimed):
            return None, False
        moves = setup.workspaces is not None
        return load_conversation(connection, session.id), moves and workspaces.is_restored(connection, session.id)

    stored, is_restored = await session.read_with_secrets(look)
    parks = session.id in setup.to_park
    setup.to_park.discard(session.id)
    if stored is not None:
        if claimed.cancel_requested:
            return RunResult(Outcome.CANCELLED), stored
        if is_restored:
            await recorder.submit(lambda c: (None, recovery.report_recovery(c, session.id, claimed.epoch)))
            await session.read()
        return recovery.parked() if parks else None, stored
    calls = await setup.database.read(lambda c: recovery.open_calls(c, session.id))
    outputs = await left_outputs(session.id, calls, setup.output_path)
    result = await recorder.submit(
        lambda c: recovery.recover(c, session.id, claimed.epoch, outputs=outputs, parks=parks)
    )
    await session.read()
    return result, None


def read_interrupted(
    connection: Connection, row: Row[Any]
) -> tuple[StoredConversation, WaitingStep | None, StopReason | None]:
    """The conversation; a step that is waiting, and the reason to end it, if any."""
    stored, waiting = load_conversation(connection, row.id), waiting_step(connection, row)
    if waiting is not None and (results := waiting.results) is not None:
        # It follows when it is complete.
        stored = replace(stored, history=[message for message in stored.history if message.id != results.id])
    return stored, waiting, ended_by(connection, row)
