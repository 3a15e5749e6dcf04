"""The transactions that make and change sessions, also from a history that comes from elsewhere, and the pages of an
export."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row

from app.agent.conversation import control_message
from app.agent.limits import UsedUp, used_up
from app.context.images import with_data
from app.context.policies import CompactionSettings
from app.db.repositories import checkpoints, forks, images, messages, queue, secrets, sessions, steps
from app.errors import ConflictError
from app.eventlog.log import Appender, StreamItem
from app.events import MessageCreated, SessionCreated, SessionUpdated
from app.images import MAX_IMAGES_BYTES
from app.interchange import WireFormat, begun_by_user, is_told, page_length, settled, to_wire
from app.messages import ImagePart, Message, Role, Usage, now
from app.runtime.admission import (
    Draft,
    ServiceRules,
    approval_within,
    changed_compaction,
    limits_within,
)
from app.runtime.content import stored_content
from app.runtime.history import PAGE_BYTES
from app.runtime.mcp.config import merged
from app.runtime.mcp.host import NO_DEFAULTS, McpHost
from app.runtime.requested_tools import checked_rules, known_tools
from app.runtime.transactions import queue as inbox
from app.runtime.transactions import runs
from app.runtime.transactions.changes import add_message
from app.runtime.transactions.forks import Fork
from app.runtime.values.history import ExportPage
from app.runtime.values.queue import QueueAdd
from app.runtime.values.sessions import SessionPatch
from app.sessions import Approval, Limits, Outcome, Session, Status

CHUNK = 500
"""Messages per statement: bounds the memory of a statement's parameters, in addition to the messages themselves."""
CHUNK_TOKENS = 250_000
"""Their maximum tokens, about a megabyte of text, not counting the last message."""
GROWTH = 8
"""How much further an export reads, repeatedly, if a page cannot end at its limit."""
_ALL = sys.maxsize
JOINED_BYTES = 4 * PAGE_BYTES
"""Consecutive messages that the format joins are split if they have more bytes, since they are in memory together."""


def made_before(connection: Connection, session_id: str | None, fingerprint: str) -> Session | None:
    """The session that a request with this fingerprint created before. Raises `ConflictError` if its id has different
    content."""
    found = sessions.find(connection, session_id) if session_id is not None else None
    if found is None:
        return None
    if found.fingerprint != fingerprint:
        raise ConflictError(f"Session {found.id} was already created with different content.", code="id_in_use")
    return sessions.snapshot(connection, found.id)


def create(
    connection: Connection, draft: Draft, starter: runs.Starter = runs.ANYONE
) -> tuple[tuple[Session, bool], list[StreamItem]]:
    """Creates a session, with its imported history and its first message if it has a task; or returns the one that this
    request created before. A task starts a run, if `starter` may do so."""
    if (found := made_before(connection, draft.session_id, draft.fingerprint)) is not None:
        return (found, False), []
    starts = draft.task is not None and draft.starts
    if starts:
        starter.check(connection)
    at = now()
    sessions.add(
        connection,
        id=draft.session_id,
        status=Status.IDLE,
        plan=[],
        usage=Usage().model_dump(),
        run_usage=Usage().model_dump(),
        fingerprint=draft.fingerprint,
        created_at=at,
        updated_at=at,
        **draft.fields,
    )
    for name, value in draft.secrets.items():
        secrets.put(connection, draft.session_id, name, value, at)
    appender = Appender(connection, draft.session_id)
    appender.traceparent = starter.traceparent
    appender.emit(SessionCreated, session=appender.session())
    items = [*appender.flush(), *store_history(connection, draft.session_id, draft.history)]
    if draft.task is not None:
        # Not left to its message, which may come later.
        inbox.store_images(connection, draft.session_id, draft.task)
    if starts:
        items += _queue_task(connection, draft.session_id, starter)
    return (sessions.snapshot(connection, draft.session_id), True), items


def begin_task(connection: Connection, session_id: str, starter: runs.Starter) -> tuple[Session, list[StreamItem]]:
    """Queues the task of a session that was created without that; changes nothing if it has been queued."""
    row = sessions.row(connection, session_id)
    if row.task is None or queue.has_any(connection, session_id):
        return sessions.snapshot(connection, session_id), []
    starter.check(connection)
    items = _queue_task(connection, session_id, starter)
    return sessions.snapshot(connection, session_id), items


def _queue_task(connection: Connection, session_id: str, starter: runs.Starter) -> list[StreamItem]:
    """Queues the task in the session's row, whose images are stored."""
    row = sessions.row(connection, session_id)
    task = stored_content(row.task, row.task_parts)
    appender = Appender(connection, session_id)
    # Not validated again: with labels, the text may be longer than one that a user may send.
    inbox.accept(connection, appender, row, QueueAdd.model_construct(content=task.text), task, starter)
    return appender.flush()


def forked_before(connection: Connection, parent_id: str, fork_id: str) -> Session | None:
    """The fork with this id that a request has made of a session."""
    found = sessions.find(connection, fork_id)
    return sessions.snapshot(connection, fork_id) if found is not None and found.parent_id == parent_id else None


def fork(connection: Connection, made: Fork) -> tuple[Session, list[StreamItem]]:
    """Stores a fork after its workspace and outputs. Raises `NotFoundError` if its parent has been deleted."""
    sessions.row(connection, made.parent_id)
    at = now()
    sessions.add(connection, id=made.session_id, created_at=at, updated_at=at, **made.fields)
    appender = Appender(connection, made.session_id)
    # The events that follow contain the rounds one by one.
    found = appender.session()
    before = found.compaction.model_copy(update={"count": 0, "last_at": None})
    appender.emit(SessionCreated, session=found.model_copy(update={"compaction": before}))
    items = appender.flush()
    for start in range(0, len(made.messages), CHUNK):
        messages.add_all(connection, made.session_id, made.messages[start : start + CHUNK], made.outputs)
    for start in range(0, len(made.log), CHUNK):
        for event in made.log[start : start + CHUNK]:
            appender.copy(event)
        items += appender.flush()
    forks.add_rounds(connection, made.session_id, made.rounds)
    if made.generation is not None:
        steps.add_generation(connection, made.session_id, made.generation)
    if made.queued is not None:
        forks.add_queued(connection, made.session_id, made.queued)
    digests = {p.digest for message in made.messages for p in message.parts if isinstance(p, ImagePart) and p.digest}
    images.copy(connection, made.parent_id, made.session_id, digests)
    checkpoints.copy(connection, made.parent_id, made.session_id, {message.id for message in made.messages})
    return sessions.snapshot(connection, made.session_id), items


def patch(
    connection: Connection,
    session_id: str,
    body: SessionPatch,
    fields: dict[str, Any],
    rules: ServiceRules,
    tools: Sequence[str] = (),
    mcp: McpHost = NO_DEFAULTS,
) -> tuple[tuple[Session, Row[Any]], list[StreamItem]]:
    """Changes a session's row; returns the session and the row. `tools` are the names of the built-in ones. Raises the
    errors of `checked_patch`."""
    row = sessions.row(connection, session_id)
    checked_rules(body.approval, known_tools(tools, fields.get("client_tools", row.client_tools)))
    if "limits" in body.model_fields_set:
        base = rules.limits if body.limits is None else Limits(**row.limits)
        fields = {**fields, "limits": limits_within(body.limits, base, rules.most).model_dump()}
    if "compaction" in body.model_fields_set:
        settings = changed_compaction(body.compaction, CompactionSettings(**row.compaction), rules)
        fields = {**fields, "compaction": settings.model_dump()}
    if "approval" in body.model_fields_set:
        own = rules.approval if body.approval is None else Approval(**row.approval)
        fields = {**fields, "approval": approval_within(body.approval, own, rules.approval).model_dump()}
    if "mcp_servers" in body.model_fields_set:
        fields = {**fields, "mcp_servers": merged(row.mcp_servers, body.mcp_servers, mcp.defaults)}
    if not fields:
        return (sessions.snapshot(connection, session_id), row), []
    appender = Appender(connection, session_id)
    sessions.change(connection, session_id, **fields)
    session = appender.session()
    appender.emit(SessionUpdated, session=session)
    items = appender.flush()
    return (session, sessions.row(connection, session_id)), items


def cancel(connection: Connection, session_id: str, *, clear_queue: bool) -> tuple[Session, list[StreamItem]]:
    """Requests the end of the run and holds pending messages; the request is stored, so that it survives a crash."""
    row = sessions.row(connection, session_id)
    items: list[StreamItem] = []
    if clear_queue and (pending := queue.pending(connection, session_id)):
        appender = Appender(connection, session_id)
        inbox.withdraw_rows(connection, appender, pending)
        items = appender.flush()
    if row.status != Status.IDLE:
        sessions.change(connection, session_id, cancel_requested=True, queue_held=True)
    elif row.compaction_in_progress:
        sessions.change(connection, session_id, cancel_requested=True)
    return sessions.snapshot(connection, session_id), items


def resume(
    connection: Connection, session_id: str, starter: runs.Starter = runs.ANYONE
) -> tuple[Session, list[StreamItem]]:
    """Starts a run after one that did not complete, with a control message that says so, if `starter` may do
    so. Raises `ConflictError`."""
    row = sessions.row(connection, session_id)
    if row.status != Status.IDLE:
        raise ConflictError("The session is running.", code="session_running")
    if row.outcome is None:
        raise ConflictError("The session has not run yet: post a message.", code="nothing_to_resume")
    if row.outcome == Outcome.COMPLETED:
        raise ConflictError("Nothing to resume: the last run completed.", code="nothing_to_resume")
    _refuse_used_up(connection, row)
    starter.check(connection)
    appender = Appender(connection, session_id)
    runs.begin(connection, appender, "resume", starter.key, starter.traceparent or row.run_traceparent)
    add_message(connection, appender, control_message("limit" if row.outcome == Outcome.LIMIT_REACHED else "resume"))
    items = appender.flush()
    return sessions.snapshot(connection, session_id), items


_RAISE_IT = "Raise that limit with PATCH /v1/sessions/{id}, then resume."


def _refuse_used_up(connection: Connection, row: Row[Any]) -> None:
    """Raises `ConflictError` for a session that has reached one of its limits: a run would end at once."""
    usage = Usage(**row.usage)
    cost = steps.known_cost_usd(connection, row.id) if usage.cost_usd is None else usage.cost_usd
    match used_up(Limits(**row.limits), usage.total_tokens, cost):
        case UsedUp("max_tokens", limit, used):
            raise ConflictError(
                f"The session has used {used:,} of {limit:,} tokens (limits.max_tokens). {_RAISE_IT}",
                code="max_tokens",
                limit=limit,
                used=used,
            )
        case UsedUp("max_cost_usd", limit, used):
            raise ConflictError(
                f"The session has cost {used:,.10g} of {limit:,.10g} US dollars (limits.max_cost_usd). {_RAISE_IT}",
                code="max_cost_usd",
                limit=limit,
                used=round(used, 10),
            )


def store_history(connection: Connection, session_id: str, history: Iterable[Message]) -> list[StreamItem]:
    """Adds imported messages in order, each with its event; returns the events to publish after the commit, without
    their data: together they are larger than the history, and readers find them in the log."""
    items: list[StreamItem] = []
    for chunk in _chunks(history):
        appender = Appender(connection, session_id)
        stored = [
            message.model_copy(update={"seq": seq, "created_at": appender.at})
            for seq, message in enumerate(chunk, start=appender.next_seq)
        ]
        messages.add_all(connection, session_id, stored)
        for message in stored:
            appender.emit(MessageCreated, message=message)
        items += [replace(item, data=b"") for item in appender.flush()]
    return items


def _chunks(history: Iterable[Message]) -> Iterator[list[Message]]:
    """Up to `CHUNK` messages each, fewer if they are large."""
    chunk: list[Message] = []
    tokens = 0
    for message in history:
        chunk.append(message)
        tokens += message.tokens
        if len(chunk) == CHUNK or tokens > CHUNK_TOKENS:
            yield chunk
            chunk, tokens = [], 0
    if chunk:
        yield chunk


def export_page(connection: Connection, session_id: str, format: WireFormat, after: int, limit: int) -> ExportPage:
    """A page of the history in a wire format, of about `limit` stored messages: fewer if they are large, a few more to
    keep a call with its results, and what the format joins in one message of up to `JOINED_BYTES`. A running
    step is left out until it has ended; summaries are always left out, since the messages they replace are included."""
    last_seq = sessions.row(connection, session_id).last_seq
    begins = after == 0
    after = _start(connection, session_id, after)
    limit = messages.fitting(connection, session_id, after, limit, PAGE_BYTES)
    limit = messages.fitting_images(connection, session_id, after, limit, MAX_IMAGES_BYTES)
    most = messages.fitting(connection, session_id, after, _ALL, JOINED_BYTES) + 1
    size = limit + 1
    while True:
        rows = messages.history(connection, session_id, after=after, limit=size)
        ends_here = len(rows) < size
        live = [row for row in (settled(rows) if ends_here else rows) if is_told(row)]
        length = page_length(live, limit, format)
        if length is None and size >= most:
            # A call and its results are not parted, whatever they have; in this format, all else is.
            length = page_length(live, limit, "openai")
        if length is not None or ends_here:
            break
        size = min(GROWTH * size, most) if size < most else GROWTH * size
    page = live if length is None else live[:length]
    cursor = None if length is None else str(page[-1].seq)
    wires = to_wire(with_images(connection, session_id, page), format)
    if begins:
        wires = begun_by_user(wires, format)
    return ExportPage(items=tuple(wires), last_seq=last_seq, next_cursor=cursor)


def with_images(connection: Connection, session_id: str, page: Sequence[Message]) -> list[Message]:
    """The messages with the data of their images."""
    digests = {p.digest for message in page for p in message.parts if isinstance(p, ImagePart) and p.digest}
    found = images.of(connection, session_id, digests) if digests else {}
    loaded = {digest: base64.b64encode(image.data).decode() for digest, image in found.items()}
    return [with_data(message, loaded) for message in page]


def _start(connection: Connection, session_id: str, after: int) -> int:
    """Where a page after `after` starts: before the calls, if their results come next."""
    following = messages.history(connection, session_id, after=after, limit=1)
    if not following or following[0].role is not Role.TOOL:
        return after
    answer = messages.last_answer(connection, session_id, following[0].seq)
    return after if answer is None else answer - 1
