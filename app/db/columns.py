"""What the tables are made of: the types of columns that SQLAlchemy does not have (moments and JSON, stored as integers
and text), the columns and indexes that several tables share, and the metadata that has all tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Dialect,
    ForeignKey,
    MetaData,
    String,
    TextClause,
    TypeDecorator,
)

from app.db.dialects import JsonText

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def only_where(condition: ColumnElement[bool] | TextClause) -> dict[str, Any]:
    """The arguments that limit an index to the rows that meet a condition."""
    return {"sqlite_where": condition, "postgresql_where": condition}


def session_id() -> Column[str]:
    """The foreign key of rows that are deleted with their session."""
    return Column("session_id", String(36), ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True)


class UtcTime(TypeDecorator[datetime]):
    """A moment in UTC as milliseconds since 1970."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else round(value.timestamp() * 1000)

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        seconds, ms = divmod(value, 1000)
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=ms * 1000)


class Json(TypeDecorator[Any]):
    """A JSON value as text."""

    impl = JsonText
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else orjson.dumps(value).decode()

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else orjson.loads(value)
