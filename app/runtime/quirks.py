"""What refusals have taught about models, kept over restarts."""

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
"""A server that is updated may drop a rule, and to find that out costs one refused request for each rule. Windows, of
which a wrong one costs room in every request, are believed for a day only."""


class LearnedQuirks:
    """The `QuirkMemory` of a server, by base URL and name of a model."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, Mapping[str, Any]] = {}

    async def load(self) -> None:
        """Reads what earlier lives of the server have learned and is believed still."""
        since = now() - BELIEVED_FOR

        def read(connection: Connection) -> dict[str, Mapping[str, Any]]:
            rows = connection.execute(select(model_quirks).where(model_quirks.c.learned_at >= since))
            return {row.model: row.quirks for row in rows if isinstance(row.quirks, dict)}

        self._known = await self._database.read(read)

    def recall(self, place: str) -> Mapping[str, Any] | None:
        """What is known of a model; see `QuirkMemory`."""
        return self._known.get(place)

    async def learned(self, place: str, known: Mapping[str, Any]) -> None:
        """Stores what is known of a model now. Raises `StorageError`."""
        self._known[place] = known
        values = {"quirks": dict(known), "learned_at": now()}
        change = upsert(model_quirks).on_conflict_do_update(index_elements=["model"], set_=values)
        await self._database.writer.write(lambda c: (c.execute(change, {"model": place, **values}), None)[1])
