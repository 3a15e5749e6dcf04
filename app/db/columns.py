"""The types of columns that SQLAlchemy does not have: moments and JSON, stored as integers and text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy import BigInteger, Dialect, TypeDecorator

from app.db.dialects import JsonText


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
