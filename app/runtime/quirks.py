"""Persists what was learned about models from refusals."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.dialects.sqlite import insert as upsert

from app.db.engine import Database
from app.db.models import model_quirks
from app.messages import now

BELIEVED_FOR = timedelta(days=30)
"""An updated server may drop a rule, and relearning costs one refused request per rule. Windows are only trusted for a
day, since a wrong one wastes space in every request."""


class LearnedQuirks:
    """The `QuirkMemory` of a server, by base URL and name of a model."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, Mapping[str, Any]] = {}

    async def load(self) -> None:
        """Loads what was learned before a restart and has not expired."""
        since = now() - BELIEVED_FOR

        def read(connection: Connection) -> dict[str, Mapping[str, Any]]:
            rows = connection.execute(select(model_quirks).where(model_quirks.c.learned_at >= since))
            return {row.model: row.quirks for row in rows if isinstance(row.quirks, dict)}

        self._known = await self._database.read(read)

    def recall(self, place: str) -> Mapping[str, Any] | None:
        """What is known of a model; see `QuirkMemory`."""
        return self._known.get(place)

    async def learned(self, place: str, known: Mapping[str, Any]) -> None:
        """Stores what is now known of a model. Raises `StorageError`."""
        self._known[place] = known
        values = {"quirks": dict(known), "learned_at": now()}
        change = upsert(model_quirks).on_conflict_do_update(index_elements=["model"], set_=values)
        await self._database.writer.write(lambda c: (c.execute(change, {"model": place, **values}), None)[1])
