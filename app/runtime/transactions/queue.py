"""The queue's transactions: accept, edit, withdraw, deliver. Each writes its rows and its events together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row

from app.context.tokens import PER_MESSAGE, estimate_text
from app.db.engine import Database
from app.db.repositories import messages, queue, sessions
from app.errors import ConflictError, NotFoundError, QueueFullError
from app.eventlog.log import Appender, StreamItem
from app.events import MessageDequeued, MessageEdited, MessageQueued, MessageWithdrawn
from app.messages import Message, Role, TextPart, new_id
from app.runtime.fingerprints import message_fingerprint
from app.runtime.owner.recorder import Recorder
from app.runtime.transactions import runs
from app.runtime.transactions.changes import add_message
from app.runtime.values.queue import QueueAdd, QueuedMessage, QueueEdit, QueueReceipt
from app.sessions import QueueMode, Status

Check = Callable[[Row[Any], str], None]
"""Raises for a text that is too large for the session of this row."""


MAX_WAITING_CHARS = 1_000_000
"""Maximum pending characters when another message is accepted: ten thousand for each of a hundred messages. The whole
queue is one response, and a thousand clients may request it."""


def _accept_any(row: Row[Any], content: str) -> None:
    """A check that accepts every text."""


def _check_room(chars: int) -> None:
    """Raises `QueueFullError` if the other pending messages have too many characters."""
    if chars > MAX_WAITING_CHARS:
        raise QueueFullError(
            f"The pending messages have more than {MAX_WAITING_CHARS:,} characters in total; "
            "try again when some are delivered.",
            limit=MAX_WAITING_CHARS,
        )


def enqueue(
    connection: Connection,
    session_id: str,
    body: QueueAdd,
    *,
    limit: int,
    starter: runs.Starter = runs.ANYONE,
    check: Check = _accept_any,
) -> tuple[tuple[QueueReceipt, bool], list[StreamItem]]:
    """Accepts a message; also returns whether it is new. It starts a run of an idle session, if `starter`
    may do so. `check` raises for a text that is too large for the session."""
    row = sessions.row(connection, session_id)
    if body.id is not None and (receipt := _repeated(connection, session_id, body.id, body)) is not None:
        return (receipt, False), []
    check(row, body.content)
    waiting, chars = queue.size(connection, session_id)
    if waiting >= limit:
        raise QueueFullError(f"{limit} messages are already pending; try again when some are delivered.", limit=limit)
    _check_room(chars)
    if row.status == Status.IDLE:
        starter.check(connection)
    appender = Appender(connection, session_id)
    receipt = accept(connection, appender, row, body, starter.key)
    return (receipt, True), appender.flush()


def accept(
    connection: Connection, appender: Appender, row: Row[Any], body: QueueAdd, key: str | None = None
) -> QueueReceipt:
    """Adds a message to the queue of the session with this row, and starts a run of this key if it is idle."""
    message_id = body.id or new_id()
    idle = row.status == Status.IDLE
    queue.add(
        connection,
        appender.session_id,
        queue.Accepted(
            id=message_id,
            ordinal=appender.next_seq,
            mode=body.mode,
            content=body.content,
            fingerprint=message_fingerprint(body),
            created_at=appender.at,
            output_format=body.output.stored() if body.output is not None else None,
        ),
    )
    place = queue.position(connection, appender.session_id, message_id)
    appender.emit(MessageQueued, message_id=message_id, mode=body.mode, content=body.content, position=place)
    if idle:
        runs.begin(connection, appender, "message", key)
    elif row.queue_held:
        sessions.change(connection, appender.session_id, queue_held=False)
    return QueueReceipt(id=message_id, position=place, mode=body.mode, status="pending")


def _repeated(connection: Connection, session_id: str, message_id: str, body: QueueAdd) -> QueueReceipt | None:
    """The receipt of a message that was posted before, None for a new one."""
    known = queue.get(connection, session_id, message_id)
    if known is None:
        if messages.exists(connection, session_id, message_id):
            raise ConflictError(f"The id {message_id} is used by another message.", code="id_in_use")
        return None
    if known.fingerprint != message_fingerprint(body):
        raise ConflictError(f"Message {message_id} was already posted with different content.", code="id_in_use")
    return _receipt(connection, known)


def _receipt(connection: Connection, row: Row[Any]) -> QueueReceipt:
    place = queue.position(connection, row.session_id, row.id)
    return QueueReceipt.of(row, position=place)


def _pending(connection: Connection, session_id: str, message_id: str) -> Row[Any]:
    """The row of a message that may still be changed."""
    sessions.row(connection, session_id)
    found = queue.get(connection, session_id, message_id)
    if found is None:
        raise NotFoundError(f"There is no queued message {message_id}.", code="message_not_found")
    if found.status != queue.PENDING:
        raise ConflictError(f"Message {message_id} is already {found.status}.", code="message_not_pending")
    return found


def edit(
    connection: Connection,
    session_id: str,
    message_id: str,
    body: QueueEdit,
    *,
    check: Check = _accept_any,
) -> tuple[QueuedMessage, list[StreamItem]]:
    """Changes a pending message's content or mode; it keeps its place in the order of acceptance. `check` raises for a
    text that is too large for the session."""
    old = _pending(connection, session_id, message_id)
    if body.content is not None:
        check(sessions.row(connection, session_id), body.content)
    if body.content is not None and len(body.content) > len(old.content):
        _check_room(queue.size(connection, session_id)[1] - len(old.content))
    mode = body.mode or QueueMode(old.mode)
    content = old.content if body.content is None else body.content
    queue.edit(connection, session_id, message_id, content=content, mode=mode)
    place = queue.position(connection, session_id, message_id)
    appender = Appender(connection, session_id)
    appender.emit(MessageEdited, message_id=message_id, mode=mode, content=content, position=place)
    new = _pending(connection, session_id, message_id)
    return QueuedMessage.of(new, position=place), appender.flush()


def withdraw(connection: Connection, session_id: str, message_id: str) -> tuple[None, list[StreamItem]]:
    """Withdraws a pending message."""
    _pending(connection, session_id, message_id)
    appender = Appender(connection, session_id)
    withdraw_rows(connection, appender, [_pending(connection, session_id, message_id)])
    return None, appender.flush()


def withdraw_rows(connection: Connection, appender: Appender, rows: Sequence[Row[Any]]) -> None:
    """Withdraws pending messages, each with its event."""
    queue.set_status(connection, appender.session_id, [row.id for row in rows], queue.WITHDRAWN)
    for row in rows:
        appender.emit(MessageWithdrawn, message_id=row.id, mode=QueueMode(row.mode))


class Delivery(NamedTuple):
    """Delivered messages, and whether they change what the run has to submit."""

    messages: list[Message]
    changes_output: bool


def deliver(connection: Connection, session_id: str, epoch: int, *, first: bool) -> tuple[Delivery, list[StreamItem]]:
    """Moves messages from the queue into the history: all steers and interrupts, in order; if there are none at the
    `first` delivery of a run, one follow-up. The newest of them that says what the run has to submit decides that."""
    rows = queue.pending(connection, session_id)
    due = [row for row in rows if row.mode != QueueMode.FOLLOW_UP]
    if first and not due:
        due = list(rows[:1])
    appender = Appender(connection, session_id, epoch=epoch)
    queue.set_status(connection, session_id, [row.id for row in due], queue.DELIVERED)
    delivered = [_deliver_one(connection, appender, row) for row in due]
    if formats := [row.output_format for row in due if row.output_format is not None]:
        sessions.change(connection, session_id, run_output_format=formats[-1])
    return Delivery(delivered, bool(formats)), appender.flush()


def _deliver_one(connection: Connection, appender: Appender, row: Row[Any]) -> Message:
    appender.emit(MessageDequeued, message_id=row.id, mode=QueueMode(row.mode))
    part = TextPart(id=new_id(), index=0, text=row.content, tokens=estimate_text(row.content))
    message = Message(
        id=row.id,
        seq=appender.next_seq,
        role=Role.USER,
        parts=(part,),
        tokens=PER_MESSAGE + part.tokens,
        created_at=appender.at,
    )
    return add_message(connection, appender, message)


class StoredMessages:
    """The queue as a run sees it. `ring` signals that there may be messages; `delivered` remembers delivered ones, so
    that a late interrupt for one does no harm. `changed` is awaited after a delivery that changes what the run has
    to submit."""

    def __init__(
        self, recorder: Recorder, session_id: str, epoch: int, changed: Callable[[], Awaitable[object]]
    ) -> None:
        self._changed = changed
        self._recorder = recorder
        self._session_id = session_id
        self._epoch = epoch
        self._first = True
        self._rung = True
        self.delivered: set[str] = set()

    def ring(self) -> None:
        self._rung = True

    def begin_run(self, *, takes_follow_up: bool) -> None:
        """The next delivery is the first of a run; a run that continues earlier work leaves follow-ups to later
        runs."""
        self._first = takes_follow_up
        self._rung = True

    @property
    def waiting(self) -> bool:
        return self._rung

    async def deliver(self) -> Sequence[Message]:
        # Cleared before the queue is read: a later message sets it again.
        self._rung = False
        first, self._first = self._first, False
        done = await self._recorder.submit(lambda c: deliver(c, self._session_id, self._epoch, first=first))
        self.delivered.update(message.id for message in done.messages)
        if done.changes_output:
            await self._changed()
        return done.messages


async def read_queue(database: Database, session_id: str) -> tuple[list[QueuedMessage], int]:
    """Pending messages in delivery order, and the session's last seq, from one transaction."""

    def query(connection: Connection) -> tuple[list[QueuedMessage], int]:
        row = sessions.row(connection, session_id)
        rows = queue.pending(connection, session_id)
        return [QueuedMessage.of(row, position=place) for place, row in enumerate(rows, 1)], row.last_seq

    return await database.read(query)
