"""What requests have revealed about models: their windows and their quirks, kept across restarts, and how far estimates
of their tokens are off. Nodes of a cluster take over what others have learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, select

from app.context.tokens import Calibration
from app.db.dialects import upsert
from app.db.engine import Database
from app.db.models import model_calibrations, model_quirks, model_windows
from app.errors import UnknownModelError
from app.llm.base import LEAST_WINDOW, MOST_WINDOW, ModelInfo
from app.messages import now

WINDOWS_BELIEVED_FOR = timedelta(hours=24)
"""A provider may raise a model's window, and a refusal may have been a mistake."""
GUESS_SHARE = 0.9
"""Share of a refused request's estimated size that is assumed as the window if the refusal does not name one."""

QUIRKS_BELIEVED_FOR = timedelta(days=30)
"""An updated server may drop a rule, and relearning costs one refused request per rule. Windows are only trusted for a
day, since a wrong one wastes space in every request."""


@dataclass(frozen=True, slots=True)
class _Learned:
    """A window in tokens, when it was learned, and the window known at that time from a setting, the catalog or the
    server; None if an earlier version did not store it."""

    tokens: int
    at: datetime
    known_tokens: int | None
    known_source: str | None

    def holds_for(self, info: ModelInfo) -> bool:
        """Whether it is still trusted: for a day, and as long as the known window is the one that the refusal
        contradicted. A new setting or a new report of the server takes precedence."""
        same = (self.known_tokens, self.known_source) == (info.context_window, info.window_source)
        return same and now() - self.at <= WINDOWS_BELIEVED_FOR


class LearnedWindows:
    """Windows by model name. `key_of` distinguishes models of one name at different base URLs; `info_of` returns what
    is known of a model without what is learned here."""

    def __init__(self, database: Database, key_of: Callable[[str], str], info_of: Callable[[str], ModelInfo]) -> None:
        self._database = database
        self._key_of = key_of
        self._info_of = info_of
        self._known: dict[str, _Learned] = {}
        self._accepted: dict[str, int] = {}

    async def load(self) -> None:
        """Loads what was learned before a restart, and what other nodes have learned since."""
        self.adopt(await self._database.read(self.rows))

    @staticmethod
    def rows(connection: Connection) -> Mapping[str, _Learned]:
        """What is in the database, for `adopt`."""
        rows = connection.execute(select(model_windows))
        return {row.model: _Learned(row.tokens, row.learned_at, row.known_tokens, row.known_source) for row in rows}

    def adopt(self, stored: Mapping[str, _Learned]) -> None:
        """Adopts what is newer. What was learned here in the meantime may not be stored yet."""
        for key, learned in stored.items():
            if (own := self._known.get(key)) is None or own.at < learned.at:
                self._known[key] = learned

    def get(self, model: str) -> int | None:
        """The window in tokens, None if none is known or trusted."""
        key = self._key_of(model)
        learned = self._known.get(key)
        if learned is None or learned.tokens <= self._accepted.get(key, 0):
            return None
        return learned.tokens if learned.holds_for(self._info_of(model)) else None

    def accepted(self, model: str, prompt_tokens: int) -> None:
        """A prompt of this size was answered, so the window is not smaller."""
        key = self._key_of(model)
        if prompt_tokens > self._accepted.get(key, 0):
            self._accepted[key] = prompt_tokens

    async def cut(self, model: str, answered: int, estimate: int) -> None:
        """A request of about `estimate` tokens was silently truncated; `answered` tokens, prompt and answer, are known
        to fit. If a prompt as large was accepted before, the count has another meaning and is ignored."""
        accepted = self._accepted.get(self._key_of(model), 0)
        if accepted < estimate:
            await self.refused(model, max(answered, accepted + 1), estimate)

    async def refused(self, model: str, named: int | None, estimate: int) -> None:
        """A request of about `estimate` tokens did not fit; `named` is the window that the provider named. An
        implausible number is ignored."""
        tokens = named if named is not None else int(estimate * GUESS_SHARE)
        key = self._key_of(model)
        if not LEAST_WINDOW <= tokens <= MOST_WINDOW or tokens <= self._accepted.get(key, 0):
            return
        info = self._info_of(model)
        learned = _Learned(tokens, now(), info.context_window, info.window_source)
        self._known[key] = learned
        values = {
            "tokens": learned.tokens,
            "learned_at": learned.at,
            "known_tokens": learned.known_tokens,
            "known_source": learned.known_source,
        }
        change = upsert(model_windows, key=("model",), changed=lambda _: values)
        await self._database.writer.write(lambda c: (c.execute(change, {"model": key, **values}), None)[1])


class LearnedQuirks:
    """The `QuirkMemory` of a server, by base URL and name of a model."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, Mapping[str, Any]] = {}
        self._stored: dict[str, Mapping[str, Any]] = {}
        """What is known to be in the database."""

    async def load(self) -> None:
        """Loads what was learned before a restart and has not expired, and what other nodes have learned since."""
        self.adopt(await self._database.read(self.rows))

    @staticmethod
    def rows(connection: Connection) -> Mapping[str, Mapping[str, Any]]:
        """What is in the database and has not expired, for `adopt`."""
        since = now() - QUIRKS_BELIEVED_FOR
        rows = connection.execute(select(model_quirks).where(model_quirks.c.learned_at >= since))
        return {row.model: row.quirks for row in rows if isinstance(row.quirks, dict)}

    def adopt(self, stored: Mapping[str, Mapping[str, Any]]) -> None:
        """Adopts what is new. What was learned here in the meantime may not be stored yet."""
        for place, quirks in stored.items():
            if quirks != self._stored.get(place):
                self._known[place] = self._stored[place] = quirks

    def recall(self, place: str) -> Mapping[str, Any] | None:
        """What is known of a model; see `QuirkMemory`."""
        return self._known.get(place)

    async def learned(self, place: str, known: Mapping[str, Any]) -> None:
        """Stores what is now known of a model. Raises `StorageError`."""
        self._known[place] = known
        values = {"quirks": dict(known), "learned_at": now()}
        change = upsert(model_quirks, key=("model",), changed=lambda _: values)
        await self._database.writer.write(lambda c: (c.execute(change, {"model": place, **values}), None)[1])
        # Another node's may have been loaded meanwhile, which this has replaced.
        self._known[place] = self._stored[place] = known


class LearnedCalibrations:
    """How far estimates are off, by model; of nodes that learn at the same time, the last one counts."""

    def __init__(self, database: Database | None = None, key_of: Callable[[str], str] = str) -> None:
        """`key_of` is as for `LearnedWindows`. Without a database nothing is exchanged."""
        self._database = database
        self._key_of = key_of
        self._known: dict[str, Calibration] = {}
        self._stored: dict[str, float] = {}

    def get(self, model: str) -> Calibration | None:
        key = self._key(model)
        return None if key is None else self._known.get(key)

    def update(self, learned: Mapping[str, Calibration]) -> None:
        """Keeps what was learned here."""
        for model, calibration in learned.items():
            if (key := self._key(model)) is not None:
                self._known[key] = calibration

    def _key(self, model: str) -> str | None:
        """None for a model whose provider is no longer configured: a session may still have it."""
        try:
            return self._key_of(model)
        except UnknownModelError:
            return None

    async def store(self) -> None:
        """Stores what was learned here."""
        if self._database is None:
            return
        own = {key: known.factor for key, known in self._known.items() if self._stored.get(key) != known.factor}
        change = upsert(model_calibrations, key=("model",), changed=lambda new: {"factor": new.factor})

        def store(connection: Connection) -> None:
            connection.execute(change, [{"model": key, "factor": factor} for key, factor in own.items()])

        if own:
            await self._database.writer.write(store)
            self._stored |= own

    @staticmethod
    def rows(connection: Connection) -> Mapping[str, float]:
        """What is in the database, for `adopt`."""
        return {row.model: row.factor for row in connection.execute(select(model_calibrations))}

    def adopt(self, stored: Mapping[str, float]) -> None:
        """Adopts what other nodes have learned."""
        for key, factor in stored.items():
            if self._stored.get(key) != factor:
                self._stored[key] = factor
                self._known[key] = Calibration(factor)
