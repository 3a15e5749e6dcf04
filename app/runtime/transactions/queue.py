"""The queue's transactions: accept, edit, withdraw, deliver. Each writes its rows and its events together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row

from app.context.tokens import PER_MESSAGE
from app.db.engine import Database
from app.db.repositories import images, messages, queue, sessions
from app.db.repositories.images import MAX_SESSION_IMAGES
from app.errors import ConflictError, NotFoundError, QueueFullError, TooLargeError
from app.eventlog.log import Appender, StreamItem
from app.events import MessageDequeued, MessageEdited, MessageQueued, MessageWithdrawn
from app.messages import Message, Role, new_id
from app.runtime.content import TakenContent, message_parts, stored_content, unread
from app.runtime.dispatch import Started
from app.runtime.fingerprints import message_fingerprint
from app.runtime.kept import Version
from app.runtime.owner.recorder import Recorder
from app.runtime.transactions import runs
from app.runtime.transactions.changes import add_message
from app.runtime.values.queue import QueueAdd, QueuedMessage, QueueEdit, QueueReceipt
from app.sessions import QueueMode, Status

Check = Callable[[Connection, Row[Any], TakenContent], None]
"""Raises for content that is too large for the session of this row."""


MAX_WAITING_CHARS = 1_000_000
"""Maximum pending characters when another message is accepted: ten thousand for each of a hundred messages. The whole
queue is one response, and a thousand clients may request it."""

MAX_WAITING_IMAGES = 50 * 1024 * 1024
"""Maximum bytes of the pending messages' images when another message is accepted."""


def _accept_any(connection: Connection, row: Row[Any], content: TakenContent) -> None:
    """A check that accepts all content."""


def _check_room(waiting: queue.Size) -> None:
    """Raises `QueueFullError` if the other pending messages have too many characters or too large images."""
    if waiting.chars > MAX_WAITING_CHARS:
        raise QueueFullError(
            f"The pending messages have more than {MAX_WAITING_CHARS:,} characters in total; "
            "try again when some are delivered.",
            limit=MAX_WAITING_CHARS,
        )
    if waiting.image_bytes > MAX_WAITING_IMAGES:
        raise QueueFullError(
            f"The images of the pending messages have more than {MAX_WAITING_IMAGES:,} bytes in total; "
            "try again when some are delivered.",
            limit=MAX_WAITING_IMAGES,
        )


def store_images(connection: Connection, session_id: str, content: TakenContent) -> None:
    """Stores the images of content. Raises `TooLargeError` (code `session_images_full`)."""
    if not content.images:
        return
    if images.total_bytes(connection, session_id) + content.image_bytes > MAX_SESSION_IMAGES:
        detail = f"The images of a session may have at most {MAX_SESSION_IMAGES:,} bytes in total."
        raise TooLargeError(detail, code="session_images_full", limit_bytes=MAX_SESSION_IMAGES)
    images.put(connection, session_id, content.images)


def enqueue(
    connection: Connection,
    session_id: str,
    body: QueueAdd,
    content: TakenContent | None = None,
    *,
    limit: int,
    starter: runs.Starter = runs.ANYONE,
    check: Check = _accept_any,
    at_once: bool = False,
) -> tuple[tuple[QueueReceipt, bool, Started | None], list[StreamItem]]:
    """Accepts a message with `content`, taken from the body, by default its text; also returns whether it is new. It
    starts a run of an idle session, if `starter` may do so; `at_once`, it is also claimed, and the message delivered,
    if the session has had a run before. `check` raises for content that is too large for the session."""
    content = content or unread(body.content)
    row = sessions.row(connection, session_id)
    if (receipt := repeated(connection, session_id, body)) is not None:
        return (receipt, False, None), []
    check(connection, row, content)
    waiting = queue.size(connection, session_id)
    if waiting.messages >= limit:
        raise QueueFullError(f"{limit} messages are already pending; try again when some are delivered.", limit=limit)
    _check_room(waiting)
    if row.status == Status.IDLE:
        starter.check(connection)
    appender = Appender(connection, session_id)
    last_seq = appender.next_seq - 1
    receipt = accept(connection, appender, row, body, content, starter)
    # A first run may have to get files before its message, and a running compaction has an owner.
    if not (at_once and row.status == Status.IDLE and row.steps) or row.compaction_in_progress:
        return (receipt, True, None), appender.flush()
    sessions.claim(connection, session_id)
    delivered = _deliver_due(connection, appender, first=True).messages
    items = appender.flush()
    claimed = sessions.row(connection, session_id)
    return (receipt, True, Started(claimed, delivered, Version(claimed.epoch - 1, last_seq))), items


def accept(
    connection: Connection,
    appender: Appender,
    row: Row[Any],
    body: QueueAdd,
    content: TakenContent,
    starter: runs.Starter = runs.ANYONE,
) -> QueueReceipt:
    """Adds a message to the queue of the session with this row, and starts a run if it is idle."""
    message_id = body.id or new_id()
    idle = row.status == Status.IDLE
    store_images(connection, appender.session_id, content)
    queue.add(
        connection,
        appender.session_id,
        queue.Accepted(
            id=message_id,
            ordinal=appender.next_seq,
            mode=body.mode,
            content=content.text,
            fingerprint=message_fingerprint(body),
            created_at=appender.at,
            output_format=body.output.stored() if body.output is not None else None,
            parts=content.columns,
            image_bytes=content.image_bytes,
            traceparent=starter.traceparent,
        ),
    )
    place = queue.position(connection, appender.session_id, message_id)
    appender.traceparent = starter.traceparent or appender.traceparent
    appender.emit(MessageQueued, message_id=message_id, mode=body.mode, content=content.stored, position=place)
    if idle:
        runs.begin(connection, appender, "message", starter.key, starter.traceparent)
    elif row.queue_held:
        sessions.change(connection, appender.session_id, queue_held=False)
    return QueueReceipt(id=message_id, position=place, mode=body.mode, status="pending")


def repeated(connection: Connection, session_id: str, body: QueueAdd) -> QueueReceipt | None:
    """The receipt of a message that was posted before, None for a new one. Raises `ConflictError` if its id was used
    for another one."""
    if (message_id := body.id) is None:
        return None
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
    content: TakenContent | None = None,
    *,
    check: Check = _accept_any,
) -> tuple[QueuedMessage, list[StreamItem]]:
    """Changes a pending message's mode and content, which was taken from the body, as for `enqueue`; it keeps its place
    in the order of acceptance. `check` raises for content that is too large for the session."""
    if content is None and body.content is not None:
        content = unread(body.content)
    old = _pending(connection, session_id, message_id)
    mode = body.mode or QueueMode(old.mode)
    if content is not None:
        check(connection, sessions.row(connection, session_id), content)
        _check_edit(queue.size(connection, session_id), old, content)
        store_images(connection, session_id, content)
        columns = {"content": content.text, "parts": content.columns, "image_bytes": content.image_bytes}
        queue.edit(connection, session_id, message_id, **columns)
    queue.edit(connection, session_id, message_id, mode=mode)
    place = queue.position(connection, session_id, message_id)
    appender = Appender(connection, session_id)
    new = _view(_pending(connection, session_id, message_id), place)
    appender.emit(MessageEdited, message_id=message_id, mode=mode, content=new.content, position=place)
    return new, appender.flush()


def _check_edit(waiting: queue.Size, old: Row[Any], content: TakenContent) -> None:
    """Refuses content that is larger than the old one if the other messages leave no room for it."""
    chars, image_bytes = len(old.content), old.image_bytes
    others = queue.Size(
        waiting.messages,
        waiting.chars - chars if len(content.text) > chars else 0,
        waiting.image_bytes - image_bytes if content.image_bytes > image_bytes else 0,
    )
    _check_room(others)


def _view(row: Row[Any], place: int) -> QueuedMessage:
    return QueuedMessage.of(row, position=place, content=stored_content(row.content, row.parts).stored)


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
    """Delivered messages, and whether they change the run: what it has to submit, or its trace."""

    messages: list[Message]
    changes_run: bool


def deliver(connection: Connection, session_id: str, epoch: int, *, first: bool) -> tuple[Delivery, list[StreamItem]]:
    """Moves messages from the queue into the history: all steers and interrupts, in order; if there are none at the
    `first` delivery of a run, one follow-up. The newest of them that says what the run has to submit decides that, as
    the newest one with a trace decides the run's."""
    appender = Appender(connection, session_id, epoch=epoch)
    return _deliver_due(connection, appender, first=first), appender.flush()


def _deliver_due(connection: Connection, appender: Appender, *, first: bool) -> Delivery:
    session_id = appender.session_id
    due = queue.due(queue.pending(connection, session_id), first=first)
    changes: dict[str, Any] = {}
    if (traceparent := queue.trace_of(due)) not in (None, appender.traceparent):
        changes["run_traceparent"] = appender.traceparent = traceparent
    queue.set_status(connection, session_id, [row.id for row in due], queue.DELIVERED)
    delivered = [_deliver_one(connection, appender, row) for row in due]
    if formats := [row.output_format for row in due if row.output_format is not None]:
        changes["run_output_format"] = formats[-1]
    if changes:
        sessions.change(connection, session_id, **changes)
    return Delivery(delivered, bool(changes))


def _deliver_one(connection: Connection, appender: Appender, row: Row[Any]) -> Message:
    appender.emit(MessageDequeued, message_id=row.id, mode=QueueMode(row.mode))
    parts = message_parts(stored_content(row.content, row.parts).stored)
    message = Message(
        id=row.id,
        seq=appender.next_seq,
        role=Role.USER,
        parts=parts,
        tokens=PER_MESSAGE + sum(part.tokens for part in parts),
        created_at=appender.at,
    )
    return add_message(connection, appender, message)


class StoredMessages:
    """The queue as a run sees it. `ring` signals that there may be messages; `delivered` remembers delivered ones, so
    that a late interrupt for one does no harm. `changed` is awaited after a delivery that changes the run."""

    def __init__(
        self,
        recorder: Recorder,
        session_id: str,
        epoch: int,
        changed: Callable[[], Awaitable[object]],
        delivered: frozenset[str] = frozenset(),
    ) -> None:
        """`delivered` are the messages with which the first run has begun."""
        self._changed = changed
        self._recorder = recorder
        self._session_id = session_id
        self._epoch = epoch
        self._first = self._rung = not delivered
        self.delivered = set(delivered)

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
        if done.changes_run:
            await self._changed()
        return done.messages


async def read_queue(database: Database, session_id: str) -> tuple[list[QueuedMessage], int]:
    """Pending messages in delivery order, and the session's last seq, from one transaction."""

    def query(connection: Connection) -> tuple[list[QueuedMessage], int]:
        row = sessions.row(connection, session_id)
        rows = queue.pending(connection, session_id)
        return [_view(row, place) for place, row in enumerate(rows, 1)], row.last_seq

    return await database.read(query)
