"""Calls that clients carry out."""

from __future__ import annotations

from app.runtime.dispatch import Dispatch
from app.runtime.setup import RuntimeSetup
from app.runtime.transactions import client_calls
from app.runtime.values.client_calls import PendingToolCalls, ToolCallAnswer


class ClientCallService:
    """Stores the results that clients post and notifies the owners of their sessions; a result is committed when
    `answer` returns."""

    def __init__(self, setup: RuntimeSetup, registry: Dispatch) -> None:
        self._setup = setup
        self._registry = registry

    async def pending(self, session_id: str) -> PendingToolCalls:
        """The calls that wait for a client."""
        return await self._setup.database.read(lambda c: client_calls.pending(c, session_id))

    async def answer(self, session_id: str, call_id: str, posted: ToolCallAnswer) -> None:
        """Takes the result of a call. Raises `NotFoundError` (code `call_not_found`) and `ConflictError`
        (`call_resolved`, `call_not_waiting`)."""
        await self._setup.write(session_id, lambda c: client_calls.answer(c, session_id, call_id, posted))
        self._registry.take_decision(session_id)
