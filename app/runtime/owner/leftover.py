"""A run that an earlier owner of its session has left: recovered, then read by the owner that continues it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row

from app.agent.approvals import WaitingStep
from app.agent.changes import CallsAwaited, CallsHeld, StepOpened
from app.agent.interrupt import StopReason
from app.agent.loop import RunResult
from app.agent.record import StoredConversation
from app.db.repositories import client_calls, messages, parts, queue, steps, workspaces
from app.db.repositories import steps as approvals
from app.messages import FinishReason, Message, ToolCallPart, ToolStatus, now
from app.runtime.agents import load_conversation
from app.runtime.owner.recorder import Recorder
from app.runtime.owner.state import SessionState
from app.runtime.owner.waits import timeout_s
from app.runtime.setup import RuntimeSetup
from app.runtime.transactions import recovery
from app.runtime.transactions.client_calls import is_left_waiting
from app.runtime.transactions.recovery import left_outputs
from app.sessions import ContextState, Outcome, QueueMode


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
    return CallsHeld(message_id, held, timeout_s(next(iter(rows.values()))))


def _awaited(message_id: str, calls: Collection[ToolCallPart], waits: Collection[Row[Any]]) -> CallsAwaited | None:
    """The calls that a client still has to answer, or whose results the model has not got."""
    timeouts = {row.call_id: timeout_s(row) for row in waits if row.status == ToolStatus.PENDING}
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
