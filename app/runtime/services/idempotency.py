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
most answers take. Without a cluster, the server that holds the database is the only one that answers."""


class IdempotencyService:
    """Keeps requests with their answers."""

    def __init__(self, setup: RuntimeSetup) -> None:
        self._setup = setup
        self._holder = new_id()
        self._in_progress: set[str] = set()

    async def begin(self, key_digest: str) -> str | Answer:
        """The answer to an earlier request with this key or, for one that is to be answered now, the id for what it
        creates: the same as before if that one ended without a stored answer. `answer` or `release` must follow. Raises
        `ConflictError` while another one is being answered."""
        if key_digest in self._in_progress:
            found = await self._setup.database.read(lambda c: idempotency.find(c, key_digest))
            if found is None or found.answer is None:
                raise _in_use()
            return found.answer
        self._in_progress.add(key_digest)
        first: str | Answer | None = None
        try:
            first = await self._claim(key_digest)
            return first
        finally:
            if not isinstance(first, str):
                self._in_progress.discard(key_digest)

    async def _claim(self, key_digest: str) -> str | Answer:
        at, made_id = now(), new_id()

        def write(connection: Connection) -> str | Answer:
            self._setup.fence(connection)
            idempotency.forget(connection, at - KEPT)
            found = idempotency.claim(connection, key_digest, self._holder, made_id, at)
            if found.answer is not None:
                return found.answer
            if found.made_id != made_id:
                # One that was held here and is not in progress could not be released.
                is_over = self._setup.node is None or found.holder in (idempotency.NOBODY, self._holder)
                if not is_over and found.created_at > at - ABANDONED_AFTER:
                    raise _in_use()
                if not idempotency.take_over(connection, key_digest, found.holder, self._holder, at):
                    raise _in_use()
            return found.made_id

        return await self._setup.database.writer.write(write)

    async def answer(self, key_digest: str, given: Answer) -> None:
        """Stores the answer for those who repeat the request."""
        await self._setup.database.writer.write(lambda c: idempotency.answer(c, key_digest, self._holder, given))
        self._in_progress.discard(key_digest)

    async def release(self, key_digest: str) -> None:
        """Ends a request without an answer. It may have made something: whoever repeats it gets the same id for it."""
        try:
            await self._setup.database.writer.write(lambda c: idempotency.release(c, key_digest, self._holder))
        finally:
            self._in_progress.discard(key_digest)

    async def made_id(self, key_digest: str) -> str | None:
        """The id for what a request makes that another node has claimed and forwarded."""
        found = await self._setup.database.read(lambda c: idempotency.find(c, key_digest))
        return None if found is None else found.made_id


def _in_use() -> ConflictError:
    detail = "A request with this Idempotency-Key is still being answered; try again."
    return ConflictError(detail, code="idempotency_key_in_use")
