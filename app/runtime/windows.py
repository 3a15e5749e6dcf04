"""The windows of models as their providers have named them in a refusal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import Connection, select
from sqlalchemy.dialects.sqlite import insert as upsert

from app.db.engine import Database
from app.db.models import model_windows
from app.llm.base import LEAST_WINDOW, MOST_WINDOW
from app.messages import now

BELIEVED_FOR = timedelta(hours=24)
"""A provider may raise a model's window, and a refusal may have been a mistake."""

GUESS_SHARE = 0.9
"""Share of a refused request's own estimate that stands in for a window that the refusal does not name."""


class LearnedWindows:
    """By model name. `key_of` tells models of one name at different base URLs apart."""

    def __init__(self, database: Database, key_of: Callable[[str], str]) -> None:
        self._database = database
        self._key_of = key_of
        self._known: dict[str, tuple[int, datetime]] = {}
        self._accepted: dict[str, int] = {}

    async def load(self) -> None:
        """Reads what an earlier life of the server has learnt."""

        def read(connection: Connection) -> dict[str, tuple[int, datetime]]:
            return {row.model: (row.tokens, row.learned_at) for row in connection.execute(select(model_windows))}

        self._known = await self._database.read(read)

    def get(self, model: str) -> int | None:
        """The window in tokens, None where nothing is known that is still believed."""
        key = self._key_of(model)
        tokens, learned_at = self._known.get(key, (0, now()))
        if not tokens or now() - learned_at > BELIEVED_FOR or tokens <= self._accepted.get(key, 0):
            return None
        return tokens

    def accepted(self, model: str, prompt_tokens: int) -> None:
        """A prompt of this size was answered: the window is not smaller."""
        key = self._key_of(model)
        if prompt_tokens > self._accepted.get(key, 0):
            self._accepted[key] = prompt_tokens

    async def cut(self, model: str, answered: int, estimate: int) -> None:
        """A request of about `estimate` tokens was cut off without a word; `answered` tokens, prompt and answer, are
        known to fit. Where as large a prompt was taken whole before, the count means something else and teaches
        nothing."""
        accepted = self._accepted.get(self._key_of(model), 0)
        if accepted < estimate:
            await self.refused(model, max(answered, accepted + 1), estimate)

    async def refused(self, model: str, named: int | None, estimate: int) -> None:
        """A request of about `estimate` tokens did not fit; `named` is the window that the provider named. A number
        that can be no window's teaches nothing."""
        tokens = named if named is not None else int(estimate * GUESS_SHARE)
        key = self._key_of(model)
        if not LEAST_WINDOW <= tokens <= MOST_WINDOW or tokens <= self._accepted.get(key, 0):
            return
        at = now()
        self._known[key] = (tokens, at)
        row = {"model": key, "tokens": tokens, "learned_at": at}
        insert = upsert(model_windows)
        change = insert.on_conflict_do_update(index_elements=["model"], set_={"tokens": tokens, "learned_at": at})
        await self._database.writer.write(lambda c: (c.execute(change, row), None)[1])
