"""The column types of the tables, and the metadata that Alembic compares with the database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy import BigInteger, Column, Dialect, ForeignKey, MetaData, String, Text, TypeDecorator


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

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else orjson.dumps(value).decode()

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else orjson.loads(value)


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def session_id() -> Column[str]:
    """The foreign key of rows that belong to a session and are deleted with it."""
    return Column("session_id", String(36), ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True)
