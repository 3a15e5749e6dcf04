"""How each change of a run becomes rows and events, inside the transaction that commits it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from sqlalchemy import Connection, update

from app.agent.ports import (
    AttemptVoided,
    Change,
    ControlAdded,
    GenerationOpened,
    ModelUsed,
    OutputsPruned,
    PartClosed,
    PlanChanged,
    ResponseClosed,
    ResultClosed,
    RoundCompleted,
    RoundEnded,
    RungFailed,
    StepClosed,
    StepOpened,
)
from app.db.models import message_parts
from app.db.repositories import messages, sessions, steps
from app.eventlog.log import Appender, StreamItem
from app.events import (
    MessageCreated,
    PlanUpdated,
    ReasoningCompleted,
    SessionEvent,
    StepFinished,
    StepRetrying,
    StepStarted,
    TextCompleted,
    ToolCalled,
    ToolResulted,
)
from app.messages import FinishReason, Message, ReasoningPart, Role, TextPart, ToolCallPart, Usage
from app.runtime import compactions

_EVENTS: dict[type[Change], int] = {GenerationOpened: 0, ResponseClosed: 0, ModelUsed: 0, RoundCompleted: 2}


def events_of(change: Change) -> int:
    """How many events a change has."""
    return _EVENTS.get(type(change), 1)


def commit_changes(
    connection: Connection, session_id: str, epoch: int, changes: Sequence[Change]
) -> tuple[int, list[StreamItem]]:
    """Writes changes with their events; gives the seq of the first event (0 without one) and the events to publish.
    Raises `StaleOwnerError` where the session has another owner by now."""
    appender = Appender(connection, session_id, epoch=epoch)
    first = appender.take(sum(map(events_of, changes)))
    seq = first
    for change in changes:
        seq = ChangeWriter(connection, appender).write(change, seq)
    return first if seq > first else 0, appender.flush()


class ChangeWriter:
    """Writes changes of one session within one transaction."""

    def __init__(self, connection: Connection, appender: Appender) -> None:
        self._connection = connection
        self._appender = appender
        self._session_id = appender.session_id
        self._at = appender.at

    def write(self, change: Change, seq: int) -> int:
        """Writes a change, whose event gets `seq` if it has one; gives the next free seq."""
        match change:
            case GenerationOpened():
                self._generation(change)
            case ResponseClosed():
                self._response(change)
            case ModelUsed():
                self._model_used(change)
            case RungFailed():
                compactions.fail_rung(self._connection, self._appender, seq, change)
            case RoundCompleted():
                compactions.complete_round(self._connection, self._appender, seq, change)
            case RoundEnded():
                compactions.end_round(self._connection, self._appender, seq, change)
            case OutputsPruned():
                compactions.prune(self._connection, self._appender, seq, change)
            case StepOpened():
                self._step_opened(change, seq)
            case PartClosed():
                self._part(change, seq)
            case AttemptVoided():
                self._voided(change, seq)
            case ResultClosed():
                self._result(change, seq)
            case StepClosed():
                self._step_closed(change, seq)
            case ControlAdded():
                self._control(change, seq)
            case PlanChanged():
                sessions.change(self._connection, self._session_id, plan=[item.model_dump() for item in change.items])
                self._emit(seq, PlanUpdated(items=change.items, session_id=self._session_id, at=self._at))
            case _:
                assert_never(change)
        return seq + events_of(change)

    def _emit(self, seq: int, event: SessionEvent, *, closes: str | None = None, voids: str | None = None) -> None:
        self._appender.add(seq, event, closes=closes, voids=voids)

    def _generation(self, change: GenerationOpened) -> None:
        new = change.generation
        steps.add_generation(
            self._connection,
            self._session_id,
            id=new.id,
            number=new.number,
            reason=new.reason,
            model=new.model,
            system=new.system,
            tools=[{"name": t.name, "description": t.description, "parameters": t.parameters} for t in new.tools],
            first_seq=new.first_seq,
            rounds=list(new.rounds),
            pruned=list(change.pruned),
            restored=list(change.restored),
            created_at=self._at,
        )
        sessions.change(self._connection, self._session_id, generation=new.number)

    def _step_opened(self, change: StepOpened, seq: int) -> None:
        message = Message(
            id=change.message_id,
            seq=seq,
            role=Role.ASSISTANT,
            parts=(),
            model=change.model,
            created_at=self._at,
        )
        messages.add(self._connection, self._session_id, message)
        steps.open_step(
            self._connection,
            self._session_id,
            step=change.step,
            attempt=change.attempt,
            message_id=change.message_id,
            generation=change.generation,
            opened_seq=seq,
            model=change.model,
            context=change.context,
            compaction_round=change.compaction_round,
            at=self._at,
        )
        sessions.change(self._connection, self._session_id, steps=change.step, context=change.context.model_dump())
        event = StepStarted(
            session_id=self._session_id,
            at=self._at,
            step=change.step,
            attempt=change.attempt,
            message_id=change.message_id,
            context=change.context,
        )
        self._emit(seq, event)

    def _part(self, change: PartClosed, seq: int) -> None:
        part = change.part
        messages.put_part(self._connection, self._session_id, change.message_id, part, closed=True)
        self._emit(seq, part_event(self._appender, change.message_id, part), closes=part.id)

    def _response(self, change: ResponseClosed) -> None:
        messages.close(
            self._connection,
            self._session_id,
            change.message_id,
            finish_reason=change.finish_reason,
            tokens=change.tokens,
            error=change.error,
        )
        steps.set_usage(
            self._connection, self._session_id, step=change.step, attempt=change.attempt, usage=change.usage
        )
        messages.start_calls(self._connection, self._session_id, change.message_id)

    def _voided(self, change: AttemptVoided, seq: int) -> None:
        messages.void(self._connection, self._session_id, change.message_id, self._at)
        self._connection.execute(
            update(message_parts)
            .where(message_parts.c.session_id == self._session_id, message_parts.c.message_id == change.message_id)
            .values(closed=True)
        )
        steps.close_step(
            self._connection,
            self._session_id,
            step=change.step,
            attempt=change.attempt,
            finish_reason=FinishReason.ERROR,
            context=None,
            duration_ms=None,
        )
        steps.set_usage(
            self._connection, self._session_id, step=change.step, attempt=change.attempt, usage=change.usage
        )
        event = StepRetrying(
            session_id=self._session_id,
            at=self._at,
            message_id=change.message_id,
            attempt=change.attempt,
            delay_ms=change.delay_ms,
            code=change.code,
            detail=change.detail,
        )
        self._emit(seq, event, voids=change.message_id)

    def _result(self, change: ResultClosed, seq: int) -> None:
        part = change.part
        if not messages.exists(self._connection, self._session_id, change.message_id):
            message = Message(id=change.message_id, seq=seq, role=Role.TOOL, parts=(), created_at=self._at)
            messages.add(self._connection, self._session_id, message)
        messages.put_part(
            self._connection, self._session_id, change.message_id, part, closed=True, output_ref=change.output_ref
        )
        messages.add_tokens(self._connection, self._session_id, change.message_id, part.tokens)
        messages.set_call_status(self._connection, self._session_id, part.call_id, part.status)
        event = ToolResulted(
            session_id=self._session_id,
            at=self._at,
            message_id=change.message_id,
            part_id=part.id,
            index=part.index,
            call_id=part.call_id,
            name=part.name,
            status=part.status,
            output=part.output,
            truncated=part.truncated,
            bytes=part.bytes,
            exit_code=part.exit_code,
            duration_ms=part.duration_ms,
        )
        self._emit(seq, event, closes=part.id)

    def _step_closed(self, change: StepClosed, seq: int) -> None:
        steps.close_step(
            self._connection,
            self._session_id,
            step=change.step,
            attempt=change.attempt,
            finish_reason=change.finish_reason,
            context=change.context,
            duration_ms=change.duration_ms,
        )
        self._add_usage(change)
        event = StepFinished(
            session_id=self._session_id,
            at=self._at,
            step=change.step,
            attempt=change.attempt,
            message_id=change.message_id,
            finish_reason=change.finish_reason,
            usage=change.usage,
            context=change.context,
        )
        self._emit(seq, event)

    def _add_usage(self, change: StepClosed) -> None:
        """Adds the step to the totals of its session, its run and its day."""
        row = sessions.row(self._connection, self._session_id)
        sessions.change(
            self._connection,
            self._session_id,
            usage=(Usage(**row.usage) + change.usage).model_dump(),
            run_usage=(Usage(**row.run_usage) + change.usage).model_dump(),
            run_steps=row.run_steps + 1,
            context=change.context.model_dump(),
            recoveries=0,
        )
        day = self._at.date().isoformat()
        steps.add_usage(self._connection, day=day, model=change.model, usage=change.usage)

    def _model_used(self, change: ModelUsed) -> None:
        """Adds a model call outside of the steps to the same totals."""
        row = sessions.row(self._connection, self._session_id)
        sessions.change(
            self._connection,
            self._session_id,
            usage=(Usage(**row.usage) + change.usage).model_dump(),
            run_usage=(Usage(**row.run_usage) + change.usage).model_dump(),
        )
        day = self._at.date().isoformat()
        steps.add_usage(self._connection, day=day, model=change.model, usage=change.usage, steps=0)

    def _control(self, change: ControlAdded, seq: int) -> None:
        message = change.message.model_copy(update={"seq": seq, "created_at": self._at})
        add_message(self._connection, self._appender, message)


def add_message(connection: Connection, appender: Appender, message: Message) -> None:
    """Adds a whole message to the history, under the seq that it carries."""
    messages.add(connection, appender.session_id, message)
    event = MessageCreated(session_id=appender.session_id, at=appender.at, message=message)
    appender.add(message.seq, event)


def part_event(
    appender: Appender, message_id: str, part: TextPart | ReasoningPart | ToolCallPart
) -> TextCompleted | ReasoningCompleted | ToolCalled:
    """The event that closes a part."""
    place = {
        "session_id": appender.session_id,
        "at": appender.at,
        "message_id": message_id,
        "part_id": part.id,
        "index": part.index,
    }
    if isinstance(part, ToolCallPart):
        return ToolCalled(**place, call_id=part.call_id, name=part.name, arguments=part.arguments)
    closed = ReasoningCompleted if isinstance(part, ReasoningPart) else TextCompleted
    return closed(**place, text=part.text, interrupted=part.interrupted)
