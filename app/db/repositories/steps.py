"""Steps, context generations, and usage by day and model."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Connection, Row, bindparam, func, insert, select, type_coerce, update
from sqlalchemy.dialects.sqlite import insert as upsert

from app.db.models import daily_usage, generations, steps
from app.messages import FinishReason, Usage
from app.sessions import ContextState

TOKEN_COLUMNS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")


def add_generation(connection: Connection, session_id: str, **fields: Any) -> None:
    connection.execute(insert(generations).values(session_id=session_id, **fields))


def generation(connection: Connection, session_id: str, number: int | None = None) -> Row[Any] | None:
    """A generation by its number, or the newest."""
    query = select(generations).where(generations.c.session_id == session_id)
    if number is not None:
        query = query.where(generations.c.number == number)
    return connection.execute(query.order_by(generations.c.number.desc()).limit(1)).first()


def repairs(connection: Connection, session_id: str) -> list[dict[str, Any]]:
    """All repairs ever made in the session's contexts, oldest first."""
    query = select(generations.c.repairs).where(generations.c.session_id == session_id)
    found = connection.execute(query.order_by(generations.c.number)).scalars()
    return [repair for repairs in found for repair in repairs or ()]


_OPEN = insert(steps)


def open_step(
    connection: Connection,
    session_id: str,
    *,
    step: int,
    attempt: int,
    message_id: str,
    generation: int,
    opened_seq: int,
    model: str,
    context: ContextState,
    compaction_round: int,
    at: datetime,
) -> None:
    row = {
        "session_id": session_id,
        "step": step,
        "attempt": attempt,
        "message_id": message_id,
        "generation": generation,
        "opened_seq": opened_seq,
        "model": model,
        "usage": Usage().model_dump(),
        "context": context.model_dump(),
        "compaction_round": compaction_round,
        "started_at": at,
    }
    connection.execute(_OPEN, row)


_CHANGE = update(steps).where(
    steps.c.session_id == bindparam("sid"), steps.c.step == bindparam("number"), steps.c.attempt == bindparam("try")
)


def close_step(
    connection: Connection,
    session_id: str,
    *,
    step: int,
    attempt: int,
    finish_reason: FinishReason,
    context: ContextState | None,
    duration_ms: int | None,
) -> None:
    """Records how an attempt ended; without a context the one of its start stays."""
    values: dict[str, Any] = {"finish_reason": finish_reason, "duration_ms": duration_ms}
    if context is not None:
        values["context"] = context.model_dump()
    connection.execute(_CHANGE, {"sid": session_id, "number": step, "try": attempt, **values})


def set_usage(connection: Connection, session_id: str, *, step: int, attempt: int, usage: Usage) -> None:
    """Records the usage of an attempt, as soon as it is known."""
    key = {"sid": session_id, "number": step, "try": attempt}
    connection.execute(_CHANGE, {**key, "usage": usage.model_dump()})


def usage_of(connection: Connection, session_id: str, step: int) -> Usage:
    """The total usage of all attempts at a step."""
    query = select(steps.c.usage).where(steps.c.session_id == session_id, steps.c.step == step)
    return sum((Usage(**usage) for usage in connection.execute(query).scalars()), Usage())


def known_cost_usd(connection: Connection, session_id: str) -> float:
    """The total cost of the attempts with a known price, in US dollars."""
    cost = func.coalesce(func.sum(type_coerce(steps.c.usage, JSON)["cost_usd"].as_float()), 0.0)
    return float(connection.execute(select(cost).where(steps.c.session_id == session_id)).scalar_one())


def last_attempt(connection: Connection, session_id: str, step: int) -> Row[Any] | None:
    query = select(steps).where(steps.c.session_id == session_id, steps.c.step == step)
    return connection.execute(query.order_by(steps.c.attempt.desc()).limit(1)).first()


def page(connection: Connection, session_id: str, *, after_seq: int, limit: int) -> Sequence[Row[Any]]:
    """Attempts in the order of their start."""
    query = select(steps).where(steps.c.session_id == session_id, steps.c.opened_seq > after_seq)
    return connection.execute(query.order_by(steps.c.opened_seq).limit(limit)).all()


def newest(connection: Connection, session_id: str) -> Row[Any] | None:
    """The newest attempt."""
    query = select(steps).where(steps.c.session_id == session_id)
    return connection.execute(query.order_by(steps.c.step.desc(), steps.c.attempt.desc()).limit(1)).first()


def last_closed(connection: Connection, session_id: str) -> Row[Any] | None:
    """The newest attempt that has ended."""
    query = select(steps).where(steps.c.session_id == session_id, steps.c.finish_reason.is_not(None))
    return connection.execute(query.order_by(steps.c.step.desc(), steps.c.attempt.desc()).limit(1)).first()


_ADD_USAGE = upsert(daily_usage)
_ADD_USAGE = _ADD_USAGE.on_conflict_do_update(
    index_elements=["day", "model"],
    set_={
        name: daily_usage.c[name] + _ADD_USAGE.excluded[name]
        for name in (*TOKEN_COLUMNS, "steps", "cost_usd", "unpriced_steps")
    },
)


def add_usage(connection: Connection, *, day: str, model: str, usage: Usage, steps: int = 1) -> None:
    """Adds a model call to the daily totals, which outlive the session; calls outside a step pass `steps=0`."""
    new = {name: getattr(usage, name) for name in TOKEN_COLUMNS}
    new |= {"steps": steps, "cost_usd": usage.cost_usd or 0.0, "unpriced_steps": int(usage.cost_usd is None)}
    connection.execute(_ADD_USAGE, {"day": day, "model": model, **new})


def usage_by_day(connection: Connection) -> Sequence[Row[Any]]:
    return connection.execute(select(daily_usage).order_by(daily_usage.c.day.desc(), daily_usage.c.model)).all()


def count(connection: Connection, session_id: str) -> int:
    query = select(func.count()).select_from(steps).where(steps.c.session_id == session_id)
    return connection.execute(query).scalar_one()
