"""Recovers a session whose owner went away in the middle of a run, with what its calls had printed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Row

from app.agent.changes import Change, PartClosed, ResponseClosed, ResultClosed, StepClosed
from app.agent.conversation import is_last_word
from app.agent.loop import RunResult
from app.context.tokens import PER_MESSAGE, estimate_part
from app.db.repositories import client_calls, events, messages, parts, queue, sessions, steps, workspaces
from app.db.repositories import steps as approvals
from app.errors import NotFoundError, UnavailableError
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
from app.runtime.transactions.changes import write_change
from app.runtime.transactions.client_calls import is_left_waiting, would_continue
from app.runtime.transactions.runs import end_waits, resolve_approvals
from app.sessions import ContextState, Outcome, QueueMode
from app.tools.submit import OutputFormat
from app.tools.terminal import folded

MAX_RECOVERIES = 3
"""Recoveries without a completed step in between, after which the run is parked: the run itself is likely to crash the
server."""
INTERRUPTED_NOTE = "[interrupted: the service was restarted while this call was open; it may have run in part]"
NOT_STARTED_NOTE = "[interrupted: the service was restarted before this call was started]"

SHOWN_BYTES = 4096
"""Bytes shown of such an output, half from its start and half from its end; `recall` returns the rest."""


def is_needed(connection: Connection, row: Row[Any]) -> bool:
    """Whether the run of a just claimed session had started its work under another owner."""
    return (
        row.run_steps > 0
        or _open_step(connection, row) is not None
        or bool(parts.open_parts(connection, row.id))
        or bool(parts.open_calls(connection, row.id))
    )


def recover(
    connection: Connection,
    session_id: str,
    epoch: int,
    *,
    outputs: Mapping[str, LeftOutput] = MappingProxyType({}),
    parks: bool = False,
) -> tuple[RunResult | None, list[StreamItem]]:
    """Closes what the last owner left open, and records that in the event log. Returns how the run ends, None if it
    continues. `outputs` are the stored outputs of open calls, by id. With `parks` the run waits for a resume, unless it
    waits for a person or a client anyway."""
    row = sessions.row(connection, session_id)
    open_step = _open_step(connection, row)
    held = open_step is not None and is_left_waiting(connection, session_id, open_step.message_id)
    if held and not (parks and would_continue(connection, session_id)):
        return None, report_recovery(connection, session_id, epoch)
    if held and open_step is not None:
        outputs = {**outputs, **_posted(connection, session_id, open_step.message_id)}
    changes, calls = _closing_changes(connection, session_id, open_step, outputs)
    result = _verdict(row)
    if result is None and not changes and _had_finished(connection, row):
        result = RunResult(Outcome.COMPLETED)
    if result is None and parks:
        result = parked()
    step, calls = (open_step.step, calls) if open_step is not None else _parked_step(connection, row, calls)
    if _is_stopped_by_user(connection, row):
        step = None
    appender = Appender(connection, session_id, epoch=epoch)
    if held:
        resolve_approvals(connection, appender, approvals.open_approvals(connection, session_id), "deny", "timeout")
        end_waits(connection, appender, "timeout")
    for change in changes:
        write_change(connection, appender, change)
    as_of = workspaces.take_restored(connection, session_id)
    appender.emit(SessionRecovered, interrupted_step=step, closed_calls=tuple(calls), workspace_as_of=as_of)
    if result is None:
        appender.emit(SessionRunning, trigger="recovery")
    sessions.change(connection, session_id, recoveries=row.recoveries + 1, run_trigger="recovery")
    return result, appender.flush()


def report_recovery(connection: Connection, session_id: str, epoch: int) -> list[StreamItem]:
    """Leaves a waiting step, or a run that has not begun, unchanged. Nothing was interrupted, so it does not count as a
    recovery: a run may wait through any number of restarts."""
    appender = Appender(connection, session_id, epoch=epoch)
    appender.emit(SessionRecovered, workspace_as_of=workspaces.take_restored(connection, session_id))
    return appender.flush()


def _verdict(row: Row[Any]) -> RunResult | None:
    if row.cancel_requested:
        return RunResult(Outcome.CANCELLED)
    if row.recoveries >= MAX_RECOVERIES:
        error = UnavailableError(
            f"The run was interrupted {row.recoveries + 1} times without completing a step; resume it to retry.",
            code="recovery_limit",
        )
        return RunResult(Outcome.INTERRUPTED, error.problem())
    return None


def parked() -> RunResult:
    """The result of a run that is parked after a restart, according to the operator's setting."""
    error = UnavailableError(
        "The service was restarted in the middle of the run; resume it to continue.", code="run_parked"
    )
    return RunResult(Outcome.INTERRUPTED, error.problem())


def _parked_step(connection: Connection, row: Row[Any], calls: list[str]) -> tuple[int | None, list[str]]:
    """The step that the last owner closed at shutdown, and the calls closed with it; excludes what an earlier recovery
    has already reported."""
    attempt = steps.last_attempt(connection, row.id, row.steps)
    if attempt is None or attempt.finish_reason != FinishReason.INTERRUPTED:
        return None, calls
    told = events.last_of_type(connection, row.id, "session.recovered")
    if told is not None and told.seq > attempt.opened_seq:
        return None, calls
    cut_off = parts.by_message(connection, row.id, [attempt.message_id]).get(attempt.message_id, ())
    calls = [part.call_id for part in cut_off if isinstance(part, ToolCallPart) and part.status == "interrupted"]
    return attempt.step, calls


def _is_stopped_by_user(connection: Connection, row: Row[Any]) -> bool:
    """Whether a request was about to end the step anyway: a cancel, or a message that is delivered next."""
    return row.cancel_requested or any(m.mode == QueueMode.INTERRUPT for m in queue.pending(connection, row.id))


def _had_finished(connection: Connection, row: Row[Any]) -> bool:
    """Whether the run had its final answer and only its end was not recorded. The answer of the closing step at a limit
    does not count: the loop finds the limit again."""
    attempt = steps.last_attempt(connection, row.id, row.steps)
    # A run that has to submit its output does not end with a text.
    if attempt is None or attempt.finish_reason != FinishReason.STOP or OutputFormat.of_session(row) is not None:
        return False
    if messages.last_id(connection, row.id) != attempt.message_id:
        return False
    before = messages.last_before(connection, row.id, attempt.opened_seq)
    return before is None or not is_last_word(before)


def _open_step(connection: Connection, row: Row[Any]) -> Row[Any] | None:
    """The last attempt at an unfinished step: one that is open, or a void one that waited for its retry."""
    attempt = steps.last_attempt(connection, row.id, row.steps)
    if attempt is None or attempt.finish_reason is None:
        return attempt
    voided = messages.is_voided(connection, row.id, attempt.message_id)
    return attempt if voided and attempt.duration_ms is None else None


def _closing_changes(
    connection: Connection, session_id: str, open_step: Row[Any] | None, outputs: Mapping[str, LeftOutput]
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
    changes += _results(connection, session_id, open_calls, outputs)
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
    """A part with the stored text, marked as interrupted."""
    part = parts.part_of(row)
    assert isinstance(part, TextPart | ReasoningPart | ToolCallPart)
    update: dict[str, Any] = {"tokens": estimate_part(part)}
    if not isinstance(part, ToolCallPart):
        update["interrupted"] = True
    return part.model_copy(update=update)


def open_calls(connection: Connection, session_id: str) -> list[str]:
    """The ids of the calls that the last owner left open."""
    return [row.call_id for row in parts.open_calls(connection, session_id)]


def _results(
    connection: Connection, session_id: str, open_calls: list[Row[Any]], outputs: Mapping[str, LeftOutput]
) -> list[Change]:
    """A result for each open call, at the call's position in its message."""
    if not open_calls:
        return []
    message_id = messages.tool_message_after(connection, session_id, open_calls[0].seq) or new_id()
    order = parts.call_ids(connection, session_id, open_calls[0].message_id)
    return [_interrupted_result(message_id, row, order.index(row.call_id), outputs) for row in open_calls]


def _interrupted_result(message_id: str, row: Row[Any], index: int, outputs: Mapping[str, LeftOutput]) -> ResultClosed:
    left = outputs.get(row.call_id)
    part = ToolResultPart(
        id=new_id(),
        index=index,
        call_id=row.call_id,
        name=row.body["name"],
        output=NOT_STARTED_NOTE if row.status == ToolStatus.PENDING else INTERRUPTED_NOTE,
        status=ToolStatus.INTERRUPTED,
    )
    if left is not None:
        output = "\n".join(filter(None, (left.shown, INTERRUPTED_NOTE, left.note)))
        part = part.model_copy(update={"output": output, "truncated": left.is_clipped, "bytes": left.size})
    part = part.model_copy(update={"tokens": estimate_part(part)})
    is_posted = left is not None and left.key is None
    return ResultClosed(message_id, part, left.key if left is not None else None, is_posted)


def _posted(connection: Connection, session_id: str, message_id: str) -> dict[str, LeftOutput]:
    """What a client has posted for calls whose results the model has not got."""
    rows = client_calls.of_message(connection, session_id, message_id)
    found = {row.call_id: row.output.encode() for row in rows if row.output is not None}
    half = SHOWN_BYTES // 2
    return {
        call_id: LeftOutput(None, call_id, len(data), data[:half], data[max(half, len(data) - half) :])
        for call_id, data in found.items()
    }


@dataclass(frozen=True, slots=True)
class LeftOutput:
    """The stored output of a call that was never finished. `key` is the store's, None for what a client has posted;
    `size` in bytes."""

    key: str | None
    call_id: str
    size: int
    head: bytes
    tail: bytes

    @property
    def is_clipped(self) -> bool:
        return self.size > len(self.head) + len(self.tail)

    @property
    def shown(self) -> str:
        """The part of it that the model sees; of a command, as a terminal shows it."""
        text = _text if self.key is None else _folded
        if not self.is_clipped:
            return text(self.head + self.tail).removesuffix("\n")
        missing = self.size - len(self.head) - len(self.tail)
        return f"{text(self.head)}\n[… {missing:,} bytes left out here …]\n{text(self.tail)}".removesuffix("\n")

    @property
    def note(self) -> str:
        """The note that tells the model how to read it; empty if nothing more is stored."""
        if self.key is None:
            return ""
        return (
            f"[its output until shortly before is kept, {self.size:,} bytes:"
            f' recall("{self.call_id}") returns it, by lines or by grep]'
        )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\x00", "\ufffd")


def _folded(data: bytes) -> str:
    return folded(_text(data))


async def left_outputs(
    session_id: str, call_ids: Sequence[str], output_path: Callable[[str], Path] | None
) -> Mapping[str, LeftOutput]:
    """The stored outputs of these calls, by id; calls without stored output are left out."""
    if not call_ids or output_path is None:
        return {}
    return await asyncio.to_thread(_read_all, session_id, call_ids, output_path)


def _read_all(session_id: str, call_ids: Sequence[str], output_path: Callable[[str], Path]) -> Mapping[str, LeftOutput]:
    found: dict[str, LeftOutput] = {}
    for call_id in call_ids:
        key = f"{session_id}/{call_id}"
        try:
            left = _read(key, call_id, output_path(key))
        except (NotFoundError, OSError):
            continue
        if left.size:
            found[call_id] = left
    return found


def _read(key: str, call_id: str, path: Path) -> LeftOutput:
    half = SHOWN_BYTES // 2
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        head = file.read(half)
        file.seek(max(half, size - half))
        return LeftOutput(key, call_id, size, head, file.read(half))
