"""The start and end of a run: the only places that change a session's status, except `approvals`, where a run waits."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Literal

import orjson
from sqlalchemy import Connection, Row

from app.agent.limits import SESSION_LIMITS
from app.agent.loop import RunResult
from app.db.repositories import events, queue, sessions
from app.eventlog.log import Appender, StreamItem
from app.events import SessionIdle, SessionRunning
from app.messages import Usage
from app.runtime import approvals
from app.sessions import Outcome, QueueMode, Status

Trigger = Literal["message", "resume", "recovery"]


def begin(connection: Connection, appender: Appender, seq: int, trigger: Trigger) -> None:
    """Starts a run, in the transaction that accepted its work; the event gets `seq`."""
    sessions.change(
        connection,
        appender.session_id,
        status=Status.RUNNING,
        outcome=None,
        error=None,
        queue_held=False,
        run_trigger=trigger,
        run_started_at=appender.at,
        run_steps=0,
        run_usage=Usage().model_dump(),
        recoveries=0,
    )
    appender.add(seq, SessionRunning(session_id=appender.session_id, at=appender.at, trigger=trigger))


def finish(connection: Connection, session_id: str, epoch: int, result: RunResult) -> tuple[bool, list[StreamItem]]:
    """Ends a run. If a deliverable message is pending, the next run starts in the same transaction and True is
    returned, so that the session is never idle with work to do."""
    row = sessions.row(connection, session_id)
    result = _as_recorded(connection, row, result)
    modes = {QueueMode(waiting.mode) for waiting in queue.pending(connection, session_id)}
    held = row.queue_held or _holds(result, modes)
    goes_on = not held and bool(modes)
    appender = Appender(connection, session_id, epoch=epoch)
    if row.status == Status.AWAITING_APPROVAL:
        # A run that crashed: its held calls will not run.
        approvals.withdraw(connection, appender, "error")
    seq = appender.take(2 if goes_on else 1)
    _end(connection, appender, row, seq, result, held=held)
    if goes_on:
        begin(connection, appender, seq + 1, "message")
    return goes_on, appender.flush()


def _as_recorded(connection: Connection, row: Row[Any], result: RunResult) -> RunResult:
    """The result to record for the session. A run that did nothing keeps the outcome of the previous run; one that had
    its answer when a cancel held the queue counts as cancelled, so that a resume can deliver pending messages."""
    if result.void:
        before = events.last_of_type(connection, row.id, "session.idle")
        if before is None:
            return result
        ended = orjson.loads(before.data)
        return RunResult(Outcome(ended["outcome"]), ended["error"])
    if row.cancel_requested and result.outcome is Outcome.COMPLETED and queue.count(connection, row.id) > 0:
        return RunResult(Outcome.CANCELLED)
    return result


def _holds(result: RunResult, modes: Set[QueueMode]) -> bool:
    """Whether pending messages are held until a resume: a parked run must not start by itself, and a run that can make
    no step would use them up. Follow-ups are meant for the end of a successful run, so they are held after a failed
    one; the same failure would likely repeat for each of them."""
    code = (result.error or {}).get("code")
    if result.outcome is Outcome.FAILED and modes == {QueueMode.FOLLOW_UP}:
        return True
    return result.outcome is Outcome.INTERRUPTED or code in SESSION_LIMITS


def _end(connection: Connection, appender: Appender, row: Row[Any], seq: int, result: RunResult, *, held: bool) -> None:
    sessions.change(
        connection,
        appender.session_id,
        status=Status.IDLE,
        outcome=result.outcome,
        error=result.error,
        cancel_requested=False,
        queue_held=held,
    )
    event = SessionIdle(
        session_id=appender.session_id,
        at=appender.at,
        outcome=result.outcome,
        error=result.error,
        usage=Usage(**row.run_usage),
        steps=row.run_steps,
    )
    appender.add(seq, event)
