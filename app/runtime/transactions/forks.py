"""Forks: what is copied from a session into a new one. `lifecycle.fork` stores it.

A fork's messages, parts and calls have the same ids as in its parent, but its log is its own: seq 1 is
`session.created`, then one `message.created` for each message, with the events between them that cleared outputs, made
or reverted rounds of compaction, or changed the plan; those keep their times. So the log contains everything that the
fork knows, and a fork of the fork finds what it needs in the same place. Usage stays with the parent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from app.context.budget import context_state
from app.context.checkpoints import Checkpoint
from app.context.policies import CompactionSettings
from app.context.projection import Transcript
from app.db.repositories import compactions, forks, messages, queue, sessions, steps
from app.db.repositories.events import StoredEvent
from app.errors import ConflictError, NotFoundError
from app.events import MessageCreated
from app.interchange import settled
from app.llm.known_models import binds_thinking
from app.messages import Message, Role, Usage, now
from app.runtime.admission import ServiceRules, approval_within, limits_within
from app.runtime.agents import AgentSetup, generation_of
from app.runtime.setup import RuntimeSetup
from app.runtime.transactions import compactions as rounds
from app.runtime.transactions.fork_state import Numbers, PastEvent, Shape, copied, moved, read_log, renumbered, shape_of
from app.runtime.values.sessions import ForkCreate
from app.sessions import Approval, Limits, SandboxSpec, Status

_COPIED = (
    "model",
    "reasoning_effort",
    "system_prompt",
    "tools",
    "client_tools",
    "mcp_servers",
    "output_format",
    "compaction",
    "metadata",
    "notes",
    "source",
    "source_commit",
)
"""Columns copied from the parent's current row, whatever the fork's starting point; see also `_held_to_bounds`."""


@dataclass(frozen=True, slots=True)
class Fork:
    """The complete content of a fork: columns of its rows, messages and events with its own seqs. `source` is the
    parent's sandbox. `outputs` are the columns with the locations of raw outputs, by call, and `files` maps the keys of
    outputs to be copied to new ones."""

    session_id: str
    parent_id: str
    source: SandboxSpec
    fields: Mapping[str, Any]
    messages: Sequence[Message]
    log: Sequence[StoredEvent]
    outputs: Mapping[str, Mapping[str, Any]]
    files: Mapping[str, str]
    rounds: Sequence[Mapping[str, Any]]
    generation: Mapping[str, Any] | None
    queued: Mapping[str, Any] | None

    @property
    def sandbox(self) -> SandboxSpec:
        return SandboxSpec(**self.fields["sandbox"])


@dataclass(frozen=True, slots=True)
class _Excerpt:
    """The part of a parent's history and log before the fork's starting point, in the parent's seqs. `before` is the
    seq of the first message that is not copied. `generation` is the context's generation there: with it, the parent's
    prompt is found in the provider's cache; None if the next step has to start a new one."""

    row: Row[Any]
    history: Sequence[Message]
    log: Sequence[PastEvent]
    numbers: Numbers
    shape: Shape
    checkpoints: Sequence[Checkpoint]
    before: int | None
    generation: Row[Any] | None


def draft(
    connection: Connection,
    parent_id: str,
    session_id: str,
    body: ForkCreate,
    setup: RuntimeSetup,
    rules: ServiceRules,
) -> Fork:
    """Reads everything that a fork copies, except the workspace. Raises `NotFoundError` for a message that is not in
    the parent's history, `ConflictError` for a message of a step that is still running, and `SandboxUnavailableError`
    if the parent's kind of sandbox is not available."""
    excerpt = _excerpt(connection, parent_id, body.after_message_id)
    history = renumbered(excerpt.history, excerpt.numbers, excerpt.shape, excerpt.checkpoints)
    outputs, files = _outputs(connection, parent_id, session_id, history)
    queued = _first_queued(connection, parent_id, history)
    return Fork(
        session_id,
        parent_id,
        SandboxSpec(**excerpt.row.sandbox),
        _fields(excerpt, queued, body, setup.agents) | _held_to_bounds(excerpt.row, setup, rules),
        history,
        _log(session_id, excerpt, history),
        outputs,
        files,
        _rounds(connection, excerpt),
        _generation(connection, excerpt),
        queued,
    )


def _excerpt(connection: Connection, parent_id: str, after: str | None) -> _Excerpt:
    row = sessions.row(connection, parent_id)
    rows = [m for m in messages.history(connection, parent_id) if m.voided_at is None]
    history = settled(rows) if after is None else _until(rows, after)
    before = rows[len(history)].seq if len(history) < len(rows) else None
    log = read_log(forks.shaping_events(connection, parent_id, before))
    cleared_by = {made.round: made.pruned or () for made in compactions.all_rounds(connection, parent_id)}
    shape = shape_of(log, cleared_by)
    checkpoints = rounds.checkpoints(connection, parent_id, shape.in_force)
    numbers = Numbers([*(message.seq for message in history), *(event.seq for event in log)])
    started = forks.generations_until(connection, parent_id, before)
    generation = next((found for found in started if list(found.rounds or ()) == shape.in_force), None)
    return _Excerpt(row, history, log, numbers, shape, checkpoints, before, generation)


def _until(rows: Sequence[Message], message_id: str) -> list[Message]:
    """The history up to a message, including the results of its calls."""
    place = next((place for place, message in enumerate(rows) if message.id == message_id), None)
    if place is None:
        raise NotFoundError(f"The session's history has no message {message_id}.", code="message_not_found")
    end = place + 1
    while end < len(rows) and rows[end].role is Role.TOOL:
        end += 1
    if len(settled(rows[:end])) < end:
        raise ConflictError(f"The step of message {message_id} is still running.", code="message_open")
    return list(rows[:end])


def _generation(connection: Connection, excerpt: _Excerpt) -> dict[str, Any] | None:
    """The fork's first generation. Its history is its parent's, so a provider that verifies thinking is
    asked to drop unknown thinking rather than to refuse it."""
    row = excerpt.generation
    if row is None:
        return None
    return {
        **row._mapping,
        "number": 1,
        "first_seq": excerpt.numbers.at(row.first_seq),
        "pruned": sorted(compactions.pruned_in(connection, excerpt.row.id, row.number)),
        "restored": [],
        "repairs": steps.repairs(connection, excerpt.row.id) or None,
        "drop_block": bool(row.drop_block) or binds_thinking(row.model),
    }


def _outputs(
    connection: Connection, parent_id: str, session_id: str, history: Sequence[Message]
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """The columns of the fork's raw outputs, and the files to copy."""
    calls = {result.call_id for message in history for result in message.tool_results}
    found = {call: place for call, place in forks.outputs(connection, parent_id).items() if call in calls}
    own = {call: {**place, "output_ref": f"{session_id}/{call}"} for call, place in found.items()}
    there = (call for call, place in found.items() if place["output_swept_at"] is None)
    return own, {found[call]["output_ref"]: own[call]["output_ref"] for call in there}


def _first_queued(connection: Connection, parent_id: str, history: Sequence[Message]) -> dict[str, Any] | None:
    """The row of the message with the parent's task, if the fork includes it."""
    row = forks.first_queued(connection, parent_id)
    message = next((m for m in history if row is not None and m.id == row.id), None)
    if row is None or message is None:
        return None
    return {**row._mapping, "ordinal": message.seq, "status": queue.DELIVERED}


def _rounds(connection: Connection, excerpt: _Excerpt) -> list[dict[str, Any]]:
    """The rows of the ended rounds, in their state at that point and with their ranges in the fork's seqs; their cost
    was the parent's."""
    shape = excerpt.shape
    return [
        {
            **row._mapping,
            "status": "completed" if row.round in shape.made and row.round not in shape.reverted else row.status,
            "checkpoint": moved(row.checkpoint, excerpt.numbers) if row.checkpoint is not None else None,
            "usage": Usage().model_dump(),
        }
        for row in compactions.all_rounds(connection, excerpt.row.id)
        if row.round in shape.ended
    ]


def _log(session_id: str, excerpt: _Excerpt, history: Sequence[Message]) -> list[StoredEvent]:
    found = [_created(session_id, message) for message in history]
    found += [copied(event, session_id, excerpt.numbers) for event in excerpt.log]
    return sorted(found)


def _created(session_id: str, message: Message) -> StoredEvent:
    event = MessageCreated(session_id=session_id, at=message.created_at, message=message)
    return StoredEvent(message.seq, event.type, event.__pydantic_serializer__.to_json(event).decode())


def _fields(
    excerpt: _Excerpt, queued: Mapping[str, Any] | None, body: ForkCreate, agents: AgentSetup
) -> dict[str, Any]:
    """The columns of the new session, which has no usage and no runs yet."""
    row, made = excerpt.row, excerpt.shape.made
    request = f"fork {row.id} {now().isoformat()} {body.model_dump_json()}"
    return {
        **{name: getattr(row, name) for name in _COPIED},
        "title": body.title or row.title,
        "task": row.task if queued is not None else None,
        "status": Status.IDLE,
        "plan": excerpt.shape.plan,
        "parent_id": row.id,
        "usage": Usage().model_dump(),
        "run_usage": Usage().model_dump(),
        "context": context_state(agents.config(row).budget, _tokens(excerpt, agents), reported=False).model_dump(),
        "compaction_count": len(made),
        "compaction_last_at": max(made.values(), default=None),
        "generation": 0 if excerpt.generation is None else 1,
        "fingerprint": hashlib.sha256(request.encode()).hexdigest(),
    }


def _held_to_bounds(row: Row[Any], setup: RuntimeSetup, rules: ServiceRules) -> dict[str, Any]:
    """The columns copied from the parent within the bounds for a new session, which may have become stricter since the
    parent was created."""
    return {
        "sandbox": setup.sandboxes.kinds.within(SandboxSpec(**row.sandbox)).model_dump(),
        "limits": limits_within(None, Limits(**row.limits), rules.most).model_dump(),
        "approval": approval_within(None, Approval(**row.approval), rules.approval).model_dump(),
    }


def _tokens(excerpt: _Excerpt, agents: AgentSetup) -> int:
    """The size of the fork's context: the parent's last report if the contexts are the same, else an estimate."""
    if excerpt.before is None:
        return int(excerpt.row.context["tokens"])
    if excerpt.generation is None:
        return sum(message.tokens for message in excerpt.history)
    shown = Transcript(
        generation_of(excerpt.generation),
        excerpt.history,
        excerpt.checkpoints,
        excerpt.shape.cleared.keys(),
        per_message=CompactionSettings(**excerpt.row.compaction).per_message,
    )
    return agents.calibration(excerpt.generation.model).apply(shown.request_tokens)
