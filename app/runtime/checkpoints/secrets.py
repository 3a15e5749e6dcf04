"""The secrets that must be in no checkpoint: those of the session, and of the sessions that it is a fork of, whose
files it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from app.db.engine import Database
from app.db.repositories import secrets, sessions
from app.runtime.vault import Vault, read_masking
from app.tools.masking import MaskedStream, Masking

FORKS = 100
"""Sessions of which a fork's line is followed."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """`ids` tells the values from later ones."""

    masking: Masking
    ids: frozenset[str]

    def are_in(self, data: bytes | bytearray) -> bool:
        return self.masking.is_in(data)

    def mask(self, path: bytes) -> bytes:
        return MaskedStream(self.masking).feed(path, final=True)


NO_SECRETS = Secrets(Masking({}), frozenset())


async def no_secrets(_: str) -> Secrets:
    return NO_SECRETS


async def read_secrets(database: Database, vault: Vault, session_id: str) -> Secrets:
    """What a session's checkpoints must not contain. Without the key the session has no secrets, and what was looked at
    meanwhile is looked at again later."""
    rows = await database.read(lambda c: _of_line(c, session_id))
    values: dict[str, str] = {}
    ids: set[str] = set()
    for row in rows:
        for name, value in (await read_masking(vault, [row])).values.items():
            values[name if row.session_id == session_id else f"{name} of {row.session_id}"] = value
            ids.add(f"{row.session_id} {row.name} {row.updated_at}")
    return Secrets(Masking(values), frozenset(ids))


def _of_line(connection: Connection, session_id: str) -> list[Row[Any]]:
    found: list[Row[Any]] = []
    next_id: str | None = session_id
    for _ in range(FORKS):
        row = None if next_id is None else sessions.find(connection, next_id)
        if row is None:
            break
        found += secrets.of_session(connection, row.id)
        next_id = row.parent_id
    return found
