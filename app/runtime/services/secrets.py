"""The secrets of a session: set, listed by name, removed. Its owner reads them before the next step."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from app.db.repositories import secrets, sessions
from app.errors import ConflictError, NotFoundError
from app.eventlog.log import StreamItem
from app.messages import now
from app.runtime.dispatch import Dispatch
from app.runtime.setup import RuntimeSetup
from app.runtime.values.secrets import MAX_SECRETS, SecretInfo, SecretList, SecretPut


class SecretService:
    """Every write is committed when a method returns; none has an event."""

    def __init__(self, setup: RuntimeSetup, registry: Dispatch) -> None:
        self._setup = setup
        self._registry = registry

    async def list(self, session_id: str) -> SecretList:
        """Names and times."""

        def query(connection: Connection) -> Any:
            sessions.row(connection, session_id)
            return secrets.of_session(connection, session_id)

        rows = await self._setup.database.read(query)
        return SecretList(items=tuple(SecretInfo.of(row) for row in rows))

    async def put(self, session_id: str, name: str, body: SecretPut) -> None:
        """Sets a secret, for the steps that follow. Raises `ConflictError` (code `too_many_secrets`), and
        `UnavailableError` (code `secret_key_missing`) if the server has no key."""
        value = await self._setup.vault.encrypt(session_id, name, body.value.get_secret_value())

        def work(connection: Connection) -> tuple[None, list[StreamItem]]:
            sessions.row(connection, session_id)
            if secrets.count_others(connection, session_id, name) >= MAX_SECRETS:
                raise ConflictError(f"A session may have at most {MAX_SECRETS} secrets.", code="too_many_secrets")
            secrets.put(connection, session_id, name, value, now())
            return None, []

        await self._setup.write(session_id, work)
        if self._setup.checkpoints is not None:
            await self._setup.checkpoints.use(session_id)
        self._registry.take_secrets(session_id)

    async def remove(self, session_id: str, name: str) -> None:
        """Removes a secret. Raises `NotFoundError` (code `secret_not_found`)."""

        def work(connection: Connection) -> tuple[None, list[StreamItem]]:
            sessions.row(connection, session_id)
            if not secrets.remove(connection, session_id, name):
                raise NotFoundError(f"The session has no secret {name}.", code="secret_not_found")
            return None, []

        await self._setup.write(session_id, work)
        self._registry.take_secrets(session_id)
