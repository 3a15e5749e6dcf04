"""The secrets that must be in no checkpoint: those of the session, and of the sessions that it is a fork of, whose
files it has."""

from __future__ import annotations

from dataclasses import dataclass

from app.db.engine import Database
from app.db.repositories import secrets
from app.runtime.vault import Vault, read_masking
from app.tools.masking import MaskedStream, Masking


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
    rows = await database.read(lambda c: secrets.of_line(c, session_id))
    values: list[tuple[str, str]] = []
    ids: set[str] = set()
    for row in rows:
        for named in (await read_masking(vault, [row], row.session_id)).values.items():
            values.append(named)
            ids.add(f"{row.session_id} {row.name} {row.updated_at}")
    return Secrets(Masking({}, others=values), frozenset(ids))
