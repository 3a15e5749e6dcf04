"""Gives requests that are repeated with an `Idempotency-Key` the answer that the first one got."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

from sqlalchemy import Connection

from app.db.repositories import idempotency
from app.db.repositories.idempotency import Answer as Answer
from app.errors import ConflictError
from app.messages import new_id, now
from app.runtime.setup import RuntimeSetup

T = TypeVar("T")
KEPT = timedelta(hours=24)
"""How long a request can be repeated with its `Idempotency-Key`."""

ABANDONED_AFTER = timedelta(minutes=2)
"""How long until a request that another node of a cluster has not answered counts as lost with that node; longer than
any answer takes. Without a cluster, the server that holds the database is the only one that answers."""


class IdempotencyService:
    """Keeps requests with their answers."""

    def __init__(self, setup: RuntimeSetup) -> None:
        self._setup = setup
        self._holder = new_id()

    async def begin(self, key_digest: str) -> str | Answer:
        """The answer to an earlier request with this key or, for one that is to be answered now, the id for what it
        creates: the same as before if a server died while it was answering. Raises `ConflictError` while another one is
        being answered."""
        at, made_id = now(), new_id()

        def write(connection: Connection) -> str | Answer:
            self._setup.fence(connection)
            idempotency.forget(connection, at - KEPT)
            found = idempotency.claim(connection, key_digest, self._holder, made_id, at)
            if found.answer is not None:
                return found.answer
            if found.made_id != made_id:
                is_elsewhere = self._setup.node is not None and found.created_at > at - ABANDONED_AFTER
                if found.holder == self._holder or is_elsewhere:
                    detail = "A request with this Idempotency-Key is still being answered; try again."
                    raise ConflictError(detail, code="idempotency_key_in_use")
                idempotency.take_over(connection, key_digest, self._holder, at)
            return found.made_id

        return await self._setup.database.writer.write(write)

    async def answer(self, key_digest: str, given: Answer) -> None:
        """Stores the answer for those who repeat the request."""
        await self._setup.database.writer.write(lambda c: idempotency.answer(c, key_digest, given))

    async def release(self, key_digest: str) -> None:
        """Forgets a request that has made nothing."""
        await self._setup.database.writer.write(lambda c: idempotency.release(c, key_digest))
