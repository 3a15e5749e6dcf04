"""Puts a session in order whose owner went away in the middle of a run."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row

from app.agent.loop import RunResult
from app.agent.ports import Change, PartClosed, ResponseClosed, ResultClosed, StepClosed
from app.context.tokens import PER_MESSAGE, estimate_part
from app.db.repositories import messages, parts, sessions, steps
from app.errors import UnavailableError
from app.eventlog.log import Appender, StreamItem
from app.events import SessionRecovered, SessionRunning
from app.messages import (
    FinishReason,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolStatus,
    Usage,
    new_id,
)
from app.runtime.changes import events_of, write_changes
from app.sessions import ContextState, Outcome

MAX_RECOVERIES = 3
"""Recoveries without a completed step in between, after which the run is parked: what kills the server is likely to be
in the run itself."""

INTERRUPTED_NOTE = "[interrupted: the service was restarted while this call was open; it may have run in part]"


def is_needed(connection: Connection, row: Row[Any]) -> bool:
    """Whether the run of a session that was just claimed had begun its work under another owner."""
    return (
        row.run_steps > 0
        or _open_step(connection, row) is not None
        or bool(parts.open_parts(connection, row.id))
        or bool(parts.open_calls(connection, row.id))
    )


def recover(connection: Connection, session_id: str, epoch: int) -> tuple[RunResult | None, list[StreamItem]]:
    """Closes what the last owner left open, and says so in the log. The answer is how the run ends, None if it goes
    on."""
    row = sessions.row(connection, session_id)
    open_step = _open_step(connection, row)
    changes, calls = _closing_changes(connection, session_id, open_step)
    result = _verdict(row)
    if result is None and not changes and _had_finished(connection, row):
        result = RunResult(Outcome.COMPLETED)
    appender = Appender(connection, session_id, epoch=epoch)
    events = sum(map(events_of, changes))
    seq = appender.take(events + (2 if result is None else 1))
    seq = write_changes(connection, appender, seq, changes)
    recovered = SessionRecovered(
        session_id=session_id,
        at=appender.at,
        interrupted_step=open_step.step if open_step is not None else None,
        closed_calls=tuple(calls),
    )
    appender.add(seq, recovered)
    if result is None:
        appender.add(seq + 1, SessionRunning(session_id=session_id, at=appender.at, trigger="recovery"))
    sessions.change(connection, session_id, recoveries=row.recoveries + 1, run_trigger="recovery")
    return result, appender.flush()


def _verdict(row: Row[Any]) -> RunResult | None:
    if row.cancel_requested:
        return RunResult(Outcome.CANCELLED)
    if row.recoveries >= MAX_RECOVERIES:
        error = UnavailableError(
            f"The run was interrupted {row.recoveries + 1} times without completing a step; resume it to try again.",
            code="recovery_limit",
        )
        return RunResult(Outcome.INTERRUPTED, error.problem())
    return None


def _had_finished(connection: Connection, row: Row[Any]) -> bool:
    """Whether the run had its final answer, and only its end was not recorded."""
    attempt = steps.last_attempt(connection, row.id, row.steps)
    return (
        attempt is not None
        and attempt.finish_reason == FinishReason.STOP
        and messages.last_id(connection, row.id) == attempt.message_id
    )


def _open_step(connection: Connection, row: Row[Any]) -> Row[Any] | None:
    """The last attempt at a step that has not been finished: one that is open, or one that was void and waited."""
    attempt = steps.last_attempt(connection, row.id, row.steps)
    if attempt is None or attempt.finish_reason is None:
        return attempt
    voided = messages.is_voided(connection, row.id, attempt.message_id)
    return attempt if voided and attempt.duration_ms is None else None


def _closing_changes(
    connection: Connection, session_id: str, open_step: Row[Any] | None
) -> tuple[list[Change], list[str]]:
    """The changes that close parts, calls and step, in their order, and the ids of the calls."""
    changes: list[Change] = []
    partial = parts.open_parts(connection, session_id)
    changes += [PartClosed(row.message_id, _interrupted(row)) for row in partial]
    open_calls = parts.open_calls(connection, session_id)
    if open_step is not None and messages.is_open(connection, session_id, open_step.message_id):
        tokens = PER_MESSAGE + parts.tokens_of(connection, session_id, open_step.message_id)
        tokens += sum(change.part.tokens for change in changes if isinstance(change, PartClosed))
        changes.append(
            ResponseClosed(
                open_step.step,
                open_step.attempt,
                open_step.message_id,
                FinishReason.INTERRUPTED,
                Usage(**open_step.usage),
                tokens,
            )
        )
    changes += _results(connection, session_id, open_calls)
    if open_step is not None:
        changes.append(
            StepClosed(
                step=open_step.step,
                attempt=open_step.attempt,
                message_id=open_step.message_id,
                model=open_step.model,
                finish_reason=FinishReason.INTERRUPTED,
                usage=steps.usage_of(connection, session_id, open_step.step),
                context=ContextState(**open_step.context),
                duration_ms=0,
            )
        )
    return changes, [row.call_id for row in open_calls]


def _interrupted(row: Row[Any]) -> TextPart | ReasoningPart | ToolCallPart:
    """A part as far as it was stored, marked as cut off."""
    part = parts.part_of(row)
    assert isinstance(part, TextPart | ReasoningPart | ToolCallPart)
    update: dict[str, Any] = {"tokens": estimate_part(part)}
    if not isinstance(part, ToolCallPart):
        update["interrupted"] = True
    return part.model_copy(update=update)


def _results(connection: Connection, session_id: str, open_calls: list[Row[Any]]) -> list[Change]:
    """A result for each open call, at its call's place among the calls of its message."""
    if not open_calls:
        return []
    message_id = messages.tool_message_after(connection, session_id, open_calls[0].seq) or new_id()
    order = parts.call_ids(connection, session_id, open_calls[0].message_id)
    return [ResultClosed(message_id, _interrupted_result(row, order.index(row.call_id))) for row in open_calls]


def _interrupted_result(row: Row[Any], index: int) -> ToolResultPart:
    part = ToolResultPart(
        id=new_id(),
        index=index,
        call_id=row.call_id,
        name=row.body["name"],
        output=INTERRUPTED_NOTE,
        status=ToolStatus.INTERRUPTED,
    )
    return part.model_copy(update={"tokens": estimate_part(part)})
