"""The transactions that make and change sessions, and the checks before them."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy import Connection, Row

from app.agent.loop import control_message
from app.context.budget import context_state, make_budget
from app.context.policies import CompactionSettings, resolve
from app.db.repositories import queue, sessions
from app.errors import ConflictError, ForbiddenError, InvalidRequestError, MalformedRequestError, NotSupportedError
from app.eventlog.log import Appender, StreamItem
from app.events import SessionCreated, SessionUpdated
from app.interchange import ImportedHistory, import_history
from app.messages import Message, Usage, new_id, now
from app.runtime import inbox, runs
from app.runtime.changes import add_message
from app.runtime.sandboxes import checked_tools
from app.runtime.session import RuntimeSetup
from app.runtime.transfer import store_history
from app.runtime.values import HistoryImport, LimitsPatch, QueueAdd, SessionCreate, SessionPatch
from app.sessions import Approval, Limits, Outcome, Session, Status

TITLE_CHARS = 80
"""Characters of a task's first line that stand in for a title."""

MAX_METADATA_BYTES = 16 * 1024

_PLACE = re.compile(r"(?P<ms>[0-9]{1,15})/(?P<id>[0-9a-f-]{36})")
"""What a cursor holds: when a session was created, in milliseconds, and its id."""


@dataclass(frozen=True, slots=True)
class ServiceRules:
    """The server's own defaults and bounds: default model, compaction and limits of a session, the most that a session
    may ask for, and how many messages may wait."""

    default_model: str
    compaction: CompactionSettings
    limits: Limits
    most: Limits
    queue_limit: int


@dataclass(frozen=True, slots=True)
class Draft:
    """A session that has been checked and is to be made."""

    session_id: str
    task: str | None
    fingerprint: str
    fields: dict[str, Any]
    history: tuple[Message, ...] = ()


async def draft(body: SessionCreate, setup: RuntimeSetup, rules: ServiceRules) -> Draft:
    """Checks all that a request asks for. Raises the error that says what cannot be had."""
    fields = _checked_fields(body, setup, rules)
    session_id = body.id or new_id()
    if body.history is None:
        return Draft(session_id, body.task, _fingerprint(body), fields)
    # In a thread: a history has up to 64 MiB, and the event loop has others to serve.
    fingerprint, imported = await asyncio.to_thread(_take_over, body, body.history)
    fields["system_prompt"] = imported.system_prompt if body.system_prompt is None else body.system_prompt
    budget = make_budget(setup.agents.model_info(fields["model"]), CompactionSettings(**fields["compaction"]))
    fields["context"] = context_state(budget, imported.tokens, reported=False).model_dump()
    return Draft(session_id, body.task, fingerprint, fields, imported.messages)


def _take_over(body: SessionCreate, history: HistoryImport) -> tuple[str, ImportedHistory]:
    keep_system = body.system_prompt is not None
    return _fingerprint(body), import_history(history.format, history.messages, keep_system=keep_system)


def _checked_fields(body: SessionCreate, setup: RuntimeSetup, rules: ServiceRules) -> dict[str, Any]:
    """The columns of a new session."""
    _check_approval(body.approval)
    model = body.model or rules.default_model
    setup.agents.models.resolve(model)
    limits = _limits(body.limits, rules.limits, rules.most)
    compaction = _compaction(body.compaction, setup, rules)
    sandbox = setup.sandboxes.resolve(body.sandbox)
    info = setup.agents.model_info(model)
    return {
        "title": body.title or _title(body.task),
        "task": body.task,
        "model": model,
        "system_prompt": body.system_prompt,
        "tools": checked_tools(body.tools, setup.agents.registry.names()),
        "sandbox": sandbox.model_dump(),
        "compaction": compaction.model_dump(),
        "limits": limits.model_dump(),
        "approval": (body.approval or Approval()).model_dump(),
        "metadata": _checked_metadata(body.metadata),
        "context": context_state(make_budget(info, compaction), 0, reported=False).model_dump(),
    }


def _fingerprint(body: SessionCreate) -> str:
    asked = body.model_dump(mode="json", exclude={"id"}, exclude_unset=True)
    return hashlib.sha256(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)).hexdigest()


def made_before(connection: Connection, body: SessionCreate) -> Session | None:
    """The session that this request made before. Raises `ConflictError` where its id was used with other content."""
    found = sessions.find(connection, body.id) if body.id is not None else None
    if found is None:
        return None
    if found.fingerprint != _fingerprint(body):
        raise ConflictError(f"Session {found.id} was made with other content.", code="id_in_use")
    return sessions.snapshot(connection, found.id)


def _compaction(asked: str | dict[str, Any] | None, setup: RuntimeSetup, rules: ServiceRules) -> CompactionSettings:
    settings = resolve(asked, rules.compaction)
    if settings.model is not None:
        setup.agents.models.resolve(settings.model)
    return settings


def _title(task: str | None) -> str | None:
    line = next((line.strip() for line in (task or "").splitlines() if line.strip()), None)
    return line if line is None or len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1] + "…"


def _check_approval(approval: Approval | None) -> None:
    if approval is not None and approval.policy != "never":
        raise NotSupportedError("This version asks for no approvals; leave `approval` out.", field="approval")


def _limits(asked: LimitsPatch | None, base: Limits, most: Limits) -> Limits:
    """The limits that a session gets: what it names over what it has, within what the operator allows."""
    changes = asked.model_dump(include=asked.model_fields_set) if asked is not None else {}
    limits = base.model_copy(update=changes)
    for name, bound in most.model_dump().items():
        value = getattr(limits, name)
        if bound is not None and (value is None or value > bound):
            if name in changes:
                raise ForbiddenError(f"limits.{name} may be {bound:g} at most.", code="limit_not_allowed")
            limits = limits.model_copy(update={name: bound})
    return limits


def _checked_metadata(metadata: dict[str, Any] | None) -> dict[str, Any]:
    if metadata and len(orjson.dumps(metadata)) > MAX_METADATA_BYTES:
        raise InvalidRequestError(f"metadata may have {MAX_METADATA_BYTES:,} bytes.", code="metadata_too_large")
    return metadata or {}


def create(connection: Connection, body: SessionCreate, draft: Draft) -> tuple[tuple[Session, bool], list[StreamItem]]:
    """Makes a session, with the history that it goes on from and its first message if it has a task; or finds the one
    that this request made before."""
    if (found := made_before(connection, body)) is not None:
        return (found, False), []
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
    appender = Appender(connection, draft.session_id)
    seq = appender.take()
    session = sessions.snapshot(connection, draft.session_id)
    appender.add(seq, SessionCreated(session_id=draft.session_id, at=appender.at, session=session))
    items = [*appender.flush(), *store_history(connection, draft.session_id, draft.history)]
    if draft.task is not None:
        row = sessions.row(connection, draft.session_id)
        appender = Appender(connection, draft.session_id)
        inbox.accept(connection, appender, row, QueueAdd(content=draft.task))
        items += appender.flush()
    return (sessions.snapshot(connection, draft.session_id), True), items


def checked_patch(body: SessionPatch, setup: RuntimeSetup, rules: ServiceRules) -> dict[str, Any]:
    """The columns that a patch sets, limits apart, since they are changed one by one. Raises as `draft` does."""
    _check_approval(body.approval)
    given = body.model_fields_set
    fields: dict[str, Any] = {}
    if "model" in given:
        fields["model"] = body.model or rules.default_model
        setup.agents.models.resolve(fields["model"])
    if "compaction" in given:
        fields["compaction"] = _compaction(body.compaction, setup, rules).model_dump()
    if "tools" in given:
        fields["tools"] = checked_tools(body.tools, setup.agents.registry.names())
    if "metadata" in given:
        fields["metadata"] = _checked_metadata(body.metadata)
    if "approval" in given:
        fields["approval"] = (body.approval or Approval()).model_dump()
    return fields | {name: getattr(body, name) for name in ("title", "system_prompt") if name in given}


def patch(
    connection: Connection, session_id: str, body: SessionPatch, fields: dict[str, Any], rules: ServiceRules
) -> tuple[tuple[Session, Row[Any]], list[StreamItem]]:
    """Changes a session's row; gives the session and the row."""
    row = sessions.row(connection, session_id)
    if "limits" in body.model_fields_set:
        base = rules.limits if body.limits is None else Limits(**row.limits)
        fields = {**fields, "limits": _limits(body.limits, base, rules.most).model_dump()}
    if not fields:
        return (sessions.snapshot(connection, session_id), row), []
    appender = Appender(connection, session_id)
    seq = appender.take()
    sessions.change(connection, session_id, **fields)
    session = sessions.snapshot(connection, session_id)
    appender.add(seq, SessionUpdated(session_id=session_id, at=appender.at, session=session))
    return (session, sessions.row(connection, session_id)), appender.flush()


def cancel(connection: Connection, session_id: str, *, clear_queue: bool) -> tuple[Session, list[StreamItem]]:
    """Asks for the end of the run and holds what is pending; the wish itself is stored, so that a crash does not lose
    it."""
    row = sessions.row(connection, session_id)
    appender = Appender(connection, session_id)
    if clear_queue:
        inbox.withdraw_rows(connection, appender, queue.pending(connection, session_id))
    if row.status != Status.IDLE:
        sessions.change(connection, session_id, cancel_requested=True, queue_held=True)
    items = appender.flush()
    return sessions.snapshot(connection, session_id), items


def resume(connection: Connection, session_id: str) -> tuple[Session, list[StreamItem]]:
    """Sets a session running again after a run that did not complete, with a control message that says so."""
    row = sessions.row(connection, session_id)
    if row.status != Status.IDLE:
        raise ConflictError("The session is running.", code="session_running")
    if row.outcome is None:
        raise ConflictError("The session has not run yet: post a message.", code="nothing_to_resume")
    if row.outcome == Outcome.COMPLETED:
        raise ConflictError("The last run completed: there is nothing to resume.", code="nothing_to_resume")
    appender = Appender(connection, session_id)
    seq = appender.take(2)
    runs.begin(connection, appender, seq, "resume")
    message = control_message("limit" if row.outcome == Outcome.LIMIT_REACHED else "resume")
    add_message(connection, appender, message.model_copy(update={"seq": seq + 1}))
    items = appender.flush()
    return sessions.snapshot(connection, session_id), items


def cursor(session: Session) -> str:
    """Where a page of sessions ended, in a form that clients need not understand."""
    place = f"{round(session.created_at.timestamp() * 1000)}/{session.id}"
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def read_cursor(text: str | None) -> tuple[datetime, str] | None:
    """The place that a cursor names. Raises `MalformedRequestError`."""
    if text is None:
        return None
    try:
        place = _PLACE.fullmatch(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode())
        if place is None:
            raise ValueError("not a place in the list")
        seconds, rest = divmod(int(place["ms"]), 1000)
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1000), place["id"]
    except (ValueError, binascii.Error, OverflowError, OSError) as error:
        raise MalformedRequestError("The cursor is not one of this server's.", code="malformed_cursor") from error
