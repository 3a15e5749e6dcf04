"""What model calls have cost: totals of each day, which outlive the sessions, and those of the sessions that there
are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Connection, Row, Table, and_, case, func, literal_column, select, type_coerce

from app.db.dialects import JsonText, json_member, json_number, lock, upsert
from app.db.models import compaction_events, sessions, steps
from app.db.prepared import Prepared
from app.db.server_models import daily_usage
from app.messages import Usage
from app.sessions import SessionKind

TOKENS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
_SUMS = (*TOKENS, "steps", "cost_usd", "unpriced_steps")


@dataclass(frozen=True, slots=True)
class Days:
    """Days in UTC, both included; None has no bound."""

    first: date | None = None
    last: date | None = None


ALL_DAYS = Days()


def _sum(totals: Mapping[str, Any]) -> Usage:
    """Sums of the database as a usage, whose cost is None if a price was unknown."""
    tokens = {name: int(totals[name] or 0) for name in TOKENS}
    return Usage(**tokens, cost_usd=None if totals["unpriced_steps"] else float(totals["cost_usd"] or 0))


_ADD = Prepared(
    upsert(
        daily_usage,
        key=("day", "model"),
        changed=lambda new: {name: daily_usage.c[name] + new[name] for name in _SUMS},
    )
)


def add(connection: Connection, *, day: str, model: str, usage: Usage, steps: int = 1) -> None:
    """Adds a model call to the daily totals; calls outside a step pass `steps=0`."""
    new = {name: getattr(usage, name) for name in TOKENS}
    new |= {"steps": steps, "cost_usd": usage.cost_usd or 0.0, "unpriced_steps": int(usage.cost_usd is None)}
    # The totals are common to all sessions: two that add to two models in different order would wait for each other.
    lock(connection, "daily usage")
    _ADD.run(connection, {"day": day, "model": model, **new})


@dataclass(frozen=True, slots=True)
class DayUsage:
    """The usage of a model on a day, which is `YYYY-MM-DD`."""

    day: str
    model: str
    steps: int
    usage: Usage


def by_day(connection: Connection, days: Days) -> list[DayUsage]:
    """The daily totals, the newest day first, of sessions that were deleted too."""
    query = select(daily_usage).order_by(daily_usage.c.day.desc(), daily_usage.c.model)
    if days.first is not None:
        query = query.where(daily_usage.c.day >= days.first.isoformat())
    if days.last is not None:
        query = query.where(daily_usage.c.day <= days.last.isoformat())
    return [DayUsage(row.day, row.model, row.steps, _sum(row._asdict())) for row in connection.execute(query)]


@dataclass(frozen=True, slots=True)
class MetadataUsage:
    """The usage of the sessions with this value of a key of their metadata, None for those without it."""

    value: Any
    steps: int
    usage: Usage


def by_metadata(connection: Connection, key: str, days: Days) -> list[MetadataUsage]:
    """The usage of all sessions that there are, by the value of a key of their metadata or, for a sub-agent, of its
    parent's; the largest first. Summaries are included, but are no steps."""
    found: dict[str | None, list[Row[Any]]] = {}
    for row in (
        *_sums(connection, steps, steps.c.started_at, key, days),
        *_sums(connection, compaction_events, compaction_events.c.created_at, key, days),
    ):
        found.setdefault(None if row.value == "null" else row.value, []).append(row)
    by_value = {value: (sum(row.steps for row in rows), _total(rows)) for value, rows in found.items()}
    items = [MetadataUsage(orjson.loads(value or "null"), *sums) for value, sums in by_value.items()]
    return sorted(items, key=lambda item: (-item.usage.total_tokens, str(item.value)))


def _total(rows: list[Row[Any]]) -> Usage:
    return sum((_sum(row._asdict()) for row in rows), Usage())


def _sums(
    connection: Connection, table: Table, at: ColumnElement[datetime], key: str, days: Days
) -> Iterator[Row[Any]]:
    parents = sessions.alias()
    is_part = and_(sessions.c.kind == SessionKind.SUBAGENT, parents.c.id == sessions.c.parent_id)
    value = func.coalesce(json_member(sessions.c.metadata, key), json_member(parents.c.metadata, key)).label("value")
    numbers = {name: json_number(type_coerce(table.c.usage, JsonText), literal_column(f"'{name}'")) for name in _PRICED}
    unpriced = func.sum(case((numbers["cost_usd"].is_(None), 1), else_=0))
    columns = [func.sum(number).label(name) for name, number in numbers.items()]
    count = func.count(steps.c.finish_reason) if table is steps else literal_column("0")
    query = (
        select(value, count.label("steps"), unpriced.label("unpriced_steps"), *columns)
        .select_from(table.join(sessions, sessions.c.id == table.c.session_id).outerjoin(parents, is_part))
        .where(table.c.usage.is_not(None))
        .group_by(value)
    )
    if days.first is not None:
        query = query.where(at >= _start(days.first))
    if days.last is not None:
        query = query.where(at < _start(days.last + timedelta(days=1)))
    yield from connection.execute(query)


_PRICED = (*TOKENS, "cost_usd")


def _start(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
