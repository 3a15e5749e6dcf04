"""The transactions of steps: what one sends, how it opens, ends, is tried again, what it has used, and the size of the
context that the session shows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row

from app.agent.changes import AttemptVoided, GenerationOpened, ResponseClosed, StepClosed, StepOpened
from app.db.dialects import lock_session
from app.db.repositories import compactions, costs, messages, parts, sessions, steps
from app.eventlog.log import Appender
from app.events import StepFinished, StepRetrying, StepStarted
from app.messages import FinishReason, Message, Role, Usage
from app.sessions import ContextState, Limits, SessionKind


def open_generation(connection: Connection, appender: Appender, change: GenerationOpened) -> None:
    """Stores a generation of the context, which the next steps send; there is no event."""
    columns = asdict(change)
    columns |= columns.pop("generation") | {"repairs": columns["repairs"] or None, "created_at": appender.at}
    steps.add_generation(connection, appender.session_id, columns)
    sessions.change(connection, appender.session_id, generation=change.generation.number)


def open_step(connection: Connection, appender: Appender, change: StepOpened) -> None:
    """Starts an attempt at a step, with the message of its answer."""
    session_id, seq, at = appender.session_id, appender.next_seq, appender.at
    message = Message(id=change.message_id, seq=seq, role=Role.ASSISTANT, parts=(), model=change.model, created_at=at)
    messages.add(connection, session_id, message)
    steps.open_attempt(connection, session_id, **asdict(change), opened_seq=seq, started_at=at)
    context = with_reverts(connection, session_id, change.context)
    sessions.change(connection, session_id, steps=change.step, context=context.model_dump())
    appender.emit(StepStarted, change, context=context)


def close_response(connection: Connection, appender: Appender, change: ResponseClosed) -> None:
    """Ends the model's answer, whose calls run from now on; its parts already had events."""
    session_id = appender.session_id
    messages.close(connection, session_id, change.message_id, change.finish_reason, change.tokens, change.error)
    _end_answer(connection, appender, change)
    parts.start_calls(connection, session_id, change.message_id)


def void_attempt(connection: Connection, appender: Appender, change: AttemptVoided) -> None:
    """Ends an attempt that will be retried; its message is void."""
    session_id = appender.session_id
    messages.void(connection, session_id, change.message_id, appender.at)
    parts.close_all(connection, session_id, change.message_id)
    steps.close_step(connection, session_id, change.step, change.attempt, FinishReason.ERROR)
    _end_answer(connection, appender, change)
    appender.emit(StepRetrying, change, voids=change.message_id)


def _end_answer(connection: Connection, appender: Appender, change: ResponseClosed | AttemptVoided) -> None:
    step, attempt, usage = change.step, change.attempt, change.usage
    steps.end_answer(connection, appender.session_id, step=step, attempt=attempt, usage=usage, at=appender.at)


def close_step(connection: Connection, appender: Appender, change: StepClosed) -> None:
    """Ends a step and adds it to the totals of its session, its run and its day. The step stores the size of its own
    request and answer; if a round was reverted meanwhile, the session's size, which is in the event, differs."""
    session_id = appender.session_id
    ended = (change.finish_reason, change.context, change.duration_ms)
    steps.close_step(connection, session_id, change.step, change.attempt, *ended)
    row = sessions.row(connection, session_id)
    context = with_reverts(connection, session_id, change.context)
    run = {"run_steps": row.run_steps + 1, "context": context.model_dump(), "recoveries": 0}
    _add(connection, row, change.usage, **run)
    day = appender.at.date().isoformat()
    costs.add(connection, day=day, model=change.model, usage=change.usage)
    transformations = change.input_transformations or None
    appender.emit(StepFinished, change, context=context, input_transformations=transformations)


def add_to_session(connection: Connection, appender: Appender, model: str, usage: Usage) -> None:
    """Adds a model call outside a step to the same totals."""
    row = sessions.row(connection, appender.session_id)
    _add(connection, row, usage)
    day = appender.at.date().isoformat()
    costs.add(connection, day=day, model=model, usage=usage, steps=0)


def _add(connection: Connection, row: Row[Any], usage: Usage, **more: Any) -> None:
    """Adds to the totals of a session, and in the same transaction to those of the session that a sub-agent works for,
    so that each call of a model counts once whatever crashes. `more` are other changes of the session."""
    sessions.change(connection, row.id, **_totals(row, usage), **more)
    if row.kind == SessionKind.SUBAGENT:
        # After its own session, as everywhere: no two transactions wait for each other.
        lock_session(connection, row.parent_id)
        if (parent := sessions.find(connection, row.parent_id)) is not None:
            sessions.change(connection, parent.id, **_totals(parent, usage))


def _totals(row: Row[Any], usage: Usage) -> dict[str, Any]:
    """The usage of a session and its run, plus this."""
    return {
        "usage": (Usage(**row.usage) + usage).model_dump(),
        "run_usage": (Usage(**row.run_usage) + usage).model_dump(),
    }


def note_size(connection: Connection, session_id: str, tokens: int, *, counted: bool = False) -> None:
    """Sets the context's size until the next step's report; `counted` if the provider counted it."""
    state = _sized(connection, session_id, tokens)
    if counted and state.source == "estimated":
        state = state.model_copy(update={"source": "reported"})
    sessions.change(connection, session_id, context=state.model_dump())


def note_owners_size(connection: Connection, session_id: str, tokens: int) -> None:
    """Sets the size reported by the session's owner; see `with_reverts`."""
    state = with_reverts(connection, session_id, _sized(connection, session_id, tokens))
    sessions.change(connection, session_id, context=state.model_dump())


def with_reverts(connection: Connection, session_id: str, state: ContextState) -> ContextState:
    """Corrects the owner's report for rounds reverted since its generation started: the owner applies them only before
    its next step, when the context is as large as without them."""
    saved = compactions.saved_by_reverted(connection, session_id)
    if not saved:
        return state
    generation = steps.generation(connection, session_id)
    known = generation.rounds or () if generation is not None else ()
    back = sum(tokens for round, tokens in saved.items() if round in known)
    return _estimated(state, state.tokens + back) if back else state


def _sized(connection: Connection, session_id: str, tokens: int) -> ContextState:
    return _estimated(ContextState(**sessions.row(connection, session_id).context), tokens)


def _estimated(context: ContextState, tokens: int) -> ContextState:
    """An estimate of the size; an assumed window stays assumed."""
    source: Literal["estimated", "assumed"] = "assumed" if context.source == "assumed" else "estimated"
    return context.model_copy(update={"tokens": max(0, tokens), "source": source})


@dataclass(frozen=True, slots=True)
class Totals:
    """What a session has used, with its sub-agents: its usage, and the part of its cost, in US dollars, with a known
    price. `limits` are those of tokens and cost that apply to it now."""

    usage: Usage
    cost_usd: float
    limits: Limits


def totals(connection: Connection, session_id: str) -> Totals:
    """What counts against a session's limits. A sub-agent may use what is left of its parent's limits, which its
    siblings use too."""
    row = sessions.row(connection, session_id)
    usage, cost = _used(connection, row)
    limits = Limits(**row.limits)
    if row.kind != SessionKind.SUBAGENT:
        return Totals(usage, cost, limits)
    parent = sessions.row(connection, row.parent_id)
    most, (all_usage, all_cost) = Limits(**parent.limits), _used(connection, parent)
    left: dict[str, float | None] = {}
    if most.max_tokens is not None:
        left["max_tokens"] = max(0, usage.total_tokens + most.max_tokens - all_usage.total_tokens)
    if most.max_cost_usd is not None:
        left["max_cost_usd"] = max(0.0, cost + most.max_cost_usd - all_cost)
    return Totals(usage, cost, limits.model_copy(update=left))


def _used(connection: Connection, row: Row[Any]) -> tuple[Usage, float]:
    usage = Usage(**row.usage)
    return usage, steps.known_cost_usd(connection, row.id) if usage.cost_usd is None else usage.cost_usd
