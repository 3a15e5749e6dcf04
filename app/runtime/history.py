"""What the API shows of a session's past: messages, steps, contexts, tool calls, usage and pages of the log. All of it
reads, in one transaction each."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row

from app.agent.conversation import Conversation, run_off_loop
from app.agent.record import StoredConversation
from app.context.policies import CompactionSettings
from app.context.projection import Transcript
from app.context.prompts import Generation, Notes
from app.context.tokens import estimate_tools
from app.context.validator import repair
from app.db.repositories import compactions, costs, events, messages, parts, sessions, steps
from app.db.repositories.costs import ALL_DAYS, Days
from app.db.repositories.steps import Period
from app.errors import ConflictError, MalformedRequestError, NotFoundError
from app.messages import ToolCallPart, ToolResultPart, Usage
from app.runtime.agents import AgentSetup, generation_of
from app.runtime.mcp.offer import NOTHING, Offer
from app.runtime.owner.notes import are_due as notes_are_due
from app.runtime.transactions import compactions as rounds
from app.runtime.values.history import (
    CompactionList,
    ContextItemView,
    ContextView,
    LogPage,
    MessagePage,
    StepPage,
    StepView,
    StreamItem,
    SystemSection,
    SystemView,
    ToolCallView,
    ToolView,
)
from app.runtime.values.server import METADATA, UsageItem, UsageReport
from app.sessions import ContextState, Session, SessionSort

PAGE_BYTES = 512 * 1024
"""Bytes of messages after which a page is full: it stays in memory until it is sent."""

MAX_BYTES = 512 * 1024
"""Bytes of events after which a page is full: it stays in memory until it is sent."""
SCANNED = 50_000
"""Maximum events scanned for a page of some types, which takes 50 ms of a reading thread's time."""

MILLISECOND = timedelta(milliseconds=1)
MAX_SEQ = 2**62
_PLACE = re.compile(r"(?P<ms>[0-9]{1,15})/(?P<id>[0-9a-f-]{36})")
"""The content of a cursor: when a session was created or changed, in milliseconds, and its id."""


def message_page(connection: Connection, session_id: str, after: int, limit: int) -> MessagePage:
    """Full history, nothing hidden."""
    row = sessions.row(connection, session_id)
    limit = messages.fitting(connection, session_id, after, limit, PAGE_BYTES)
    found = messages.history(connection, session_id, after=after, limit=limit + 1)
    items = found[:limit]
    more = len(found) > limit
    return MessagePage(items=tuple(items), last_seq=row.last_seq, next_cursor=str(items[-1].seq) if more else None)


def step_page(connection: Connection, session_id: str, after: int, limit: int) -> StepPage:
    """Attempts at steps, in order."""
    row = sessions.row(connection, session_id)
    found = steps.page(connection, session_id, after_seq=after, limit=limit + 1)
    items = found[:limit]
    more = len(found) > limit
    waits: dict[str, list[Period]] = {}
    for message_id, period in steps.waits(connection, session_id, [step.message_id for step in items]):
        waits.setdefault(message_id, []).append(period)
    return StepPage(
        items=tuple(_step_view(step, waits.get(step.message_id, ())) for step in items),
        last_seq=row.last_seq,
        next_cursor=str(items[-1].opened_seq) if more else None,
    )


def _step_view(step: Row[Any], waits: Iterable[Period]) -> StepView:
    answered = step.answered_at
    model_ms = None if answered is None else round((answered - step.started_at) / MILLISECOND)
    if model_ms is not None and step.duration_ms is not None:
        # An answer has the time of its commit, by which the end of its step may have been measured.
        model_ms = min(model_ms, step.duration_ms)
    return StepView.of(step, model_ms=model_ms, waiting_ms=covered_ms(waits))


def covered_ms(periods: Iterable[Period]) -> int:
    """How many milliseconds are in at least one of the periods."""
    covered, end = timedelta(), None
    for first, last in sorted(periods):
        start = first if end is None else max(first, end)
        covered += max(last - start, timedelta())
        end = last if end is None else max(last, end)
    return round(covered / MILLISECOND)


def reads_notes(connection: Connection, session_id: str) -> Row[Any] | None:
    """The session's row if its next step starts by reading the workspace's notes, else None."""
    row = sessions.row(connection, session_id)
    has_generation = steps.generation(connection, session_id) is not None
    return row if notes_are_due(row, has_generation=has_generation) else None


def sent_context(connection: Connection, session_id: str, step: int) -> ContextView:
    """What a step has sent, rebuilt from stored data. Raises `NotFoundError`."""
    row = sessions.row(connection, session_id)
    attempt = steps.last_attempt(connection, session_id, step)
    if attempt is None:
        raise NotFoundError(f"The session has no step {step}.", code="step_not_found")
    stored = steps.generation(connection, session_id, attempt.generation)
    assert stored is not None
    generation = generation_of(stored)
    transcript = Transcript(
        generation,
        messages.history(connection, session_id, before=attempt.opened_seq),
        rounds.checkpoints(connection, session_id, generation.rounds),
        compactions.pruned_in(connection, session_id, generation.number),
        per_message=CompactionSettings(**row.compaction).per_message,
    )
    transcript.settle()
    return _view(row, step, transcript, ContextState(**attempt.context))


async def next_context(
    row: Row[Any],
    stored: StoredConversation,
    agents: AgentSetup,
    notes: Notes | None = None,
    offer: Callable[[int], Offer] = lambda _: NOTHING,
) -> ContextView:
    """What the next step would send; `notes` replace the stored ones, `offer` is as in `AgentSetup.config`. After an
    answer the next step sends one more message: the one that triggers it."""
    conversation = await run_off_loop(stored.history, agents.conversation, stored, row)
    config = agents.config(row, notes, offer)
    await conversation.refresh(config)
    await _settle(conversation)
    state = conversation.state(config.budget)
    return await run_off_loop(conversation.rows, _view, row, None, conversation.transcript, state)


async def _settle(conversation: Conversation) -> None:
    """Repairs the conversation as its next step would, except for an answer at its end: the step after it comes with a
    new message, so the control message that would have to follow the answer now is not needed. If that is the only
    repair, none is made, and the size reported by the last step still applies."""
    transcript = conversation.transcript
    messages = transcript.messages
    _, repairs = await run_off_loop(messages, repair, messages, transcript.generation.reasoning)
    ends_with_answer = bool(repairs) and repairs[-1].kind == "last_message"
    if ends_with_answer and len(repairs) == 1:
        return
    await conversation.settle()
    if ends_with_answer:
        conversation.transcript.drop_last()


def _view(row: Row[Any], step: int | None, transcript: Transcript, state: ContextState) -> ContextView:
    generation = transcript.generation
    return ContextView.of(
        state,
        session_id=row.id,
        last_seq=row.last_seq,
        step=step,
        generation=generation.number,
        model=generation.model,
        system=_system(generation),
        tools=tuple(ToolView.of(tool, tokens=estimate_tools([tool])) for tool in generation.tools),
        messages=tuple(map(ContextItemView.of, transcript.items)),
    )


def _system(generation: Generation) -> SystemView:
    sections = SystemSection.all_of(generation.system)
    return SystemView(text=generation.system, tokens=generation.system_tokens, sections=sections)


def round_list(connection: Connection, session_id: str) -> CompactionList:
    """All rounds of compaction, oldest first."""
    row = sessions.row(connection, session_id)
    found = compactions.all_rounds(connection, session_id)
    return CompactionList(items=tuple(map(compactions.view, found)), last_seq=row.last_seq)


def tool_call(connection: Connection, session_id: str, call_id: str) -> ToolCallView:
    """A call and its result. Raises `NotFoundError`."""
    call, result = _call_rows(connection, session_id, call_id)
    call_part = parts.part_of(call)
    assert isinstance(call_part, ToolCallPart)
    result_part = parts.part_of(result) if result is not None else None
    assert result_part is None or isinstance(result_part, ToolResultPart)
    return ToolCallView(
        message_id=call.message_id,
        call=call_part,
        result_message_id=result.message_id if result is not None else None,
        result=result_part,
    )


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """A raw output: `ref` is its key in the store, None if `text` is complete; `swept_at` is when it was removed."""

    text: bytes
    ref: str | None
    swept_at: datetime | None


def stored_output(connection: Connection, session_id: str, call_id: str) -> StoredOutput:
    """The location of a call's raw output. Raises `NotFoundError`, or `ConflictError` while the call is open."""
    _, result = _call_rows(connection, session_id, call_id)
    if result is None:
        raise ConflictError(f"Call {call_id} has no result yet.", code="call_open")
    # A short raw output is the start of the shown one; only notes added by Palimpsest follow.
    text = result.body["output"].encode()[: result.body["bytes"]]
    return StoredOutput(text, result.output_ref, result.output_swept_at)


def _call_rows(connection: Connection, session_id: str, call_id: str) -> tuple[Row[Any], Row[Any] | None]:
    sessions.row(connection, session_id)
    by_type = {row.type: row for row in parts.of_call(connection, session_id, call_id)}
    if "tool_call" not in by_type:
        raise NotFoundError(f"There is no tool call {call_id[:100]}.", code="call_not_found")
    return by_type["tool_call"], by_type.get("tool_result")


def usage_report(connection: Connection, days: Days = ALL_DAYS, group_by: str | None = None) -> UsageReport:
    """Tokens and cost of all sessions on these days, by model and day, or only by `day` or `model`, also of deleted
    sessions; or of the sessions that there are by `metadata.KEY`. A sum with an unpriced step has no cost."""
    items: list[UsageItem]
    if group_by is not None and group_by.startswith(METADATA):
        found = costs.by_metadata(connection, group_by.removeprefix(METADATA), days)
        items = [UsageItem(metadata=each.value, steps=each.steps, usage=each.usage) for each in found]
    else:
        items = _by_day(costs.by_day(connection, days), group_by)
    return UsageReport(total=sum((item.usage for item in items), Usage()), items=tuple(items))


def _by_day(found: Iterable[costs.DayUsage], group_by: str | None) -> list[UsageItem]:
    items: dict[tuple[str | None, str | None], UsageItem] = {}
    for each in found:
        key = (None if group_by == "day" else each.model, None if group_by == "model" else each.day)
        before = items.get(key) or UsageItem(model=key[0], day=key[1], steps=0, usage=Usage())
        update = {"steps": before.steps + each.steps, "usage": before.usage + each.usage}
        items[key] = before.model_copy(update=update)
    return list(items.values())


def log_page(
    connection: Connection,
    session_id: str,
    *,
    after: int | None,
    limit: int,
    types: Collection[str] = (),
    newest_first: bool = False,
) -> LogPage:
    """Events after a seq in the order of reading, only of `types`, if any are given. Raises `NotFoundError`."""
    last_seq = sessions.row(connection, session_id).last_seq
    if newest_first:
        last = last_seq if after is None else min(after - 1, last_seq)
        first = max(last - SCANNED + 1, 1)
    else:
        first = (after or 0) + 1
        last = min(first + SCANNED - 1, last_seq)
    items, size = [], 0
    # How far the log was read, with or without results.
    reached = first if newest_first else last
    for event in events.between(connection, session_id, first, last, types, newest_first=newest_first):
        data = event.data.encode()
        items.append(StreamItem(event.type, event.seq, data))
        size += len(data)
        if len(items) == limit or size >= MAX_BYTES:
            reached = event.seq
            break
    at_end = reached <= 1 if newest_first else reached >= last_seq
    return LogPage(tuple(items), last_seq, None if at_end else str(reached))


def session_cursor(session: Session, sort: SessionSort) -> str:
    """An opaque cursor for the end of a page of sessions in this order."""
    return place_cursor(session.created_at if sort == "created" else session.updated_at, session.id)


def place_cursor(at: datetime, id_: str) -> str:
    """An opaque cursor for the end of a page of what is listed by a time."""
    place = f"{round(at.timestamp() * 1000)}/{id_}"
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def read_place(text: str | None) -> tuple[datetime, str] | None:
    """The place in a cursor. Raises `MalformedRequestError`."""
    if text is None:
        return None
    try:
        place = _PLACE.fullmatch(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode())
        if place is None:
            raise ValueError("not a place in the list")
        seconds, rest = divmod(int(place["ms"]), 1000)
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1000), place["id"]
    except (ValueError, binascii.Error, OverflowError, OSError) as error:
        raise MalformedRequestError("The cursor is invalid.", code="malformed_cursor") from error


def read_seq(text: str | None) -> int:
    """A place in the history. Raises `MalformedRequestError` (code `malformed_cursor`)."""
    if text is None:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) < MAX_SEQ):
        raise MalformedRequestError("`after` must be a seq or a `next_cursor`.", code="malformed_cursor")
    return int(text)
