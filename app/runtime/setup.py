"""Shared by services and the owners of sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Row

from app.agent.collecting import Collector
from app.context.validator import Repair
from app.db.engine import Database
from app.eventlog.bus import Bus
from app.eventlog.log import StreamItem
from app.runtime import compactions
from app.runtime.agents import AgentSetup
from app.runtime.fence import holds
from app.runtime.sandboxes import Sandboxes
from app.sandbox.base import Stream
from app.tools.output import OutputLimit

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RuntimeSetup:
    """One for the whole server. `collector` creates a call's collector from session id, call id and the live callback;
    `output_path` returns the file of a raw output by its key. `repaired` is called with stored repairs of contexts.
    `fence` raises `SupersededError` in a write if the server no longer holds the database; `to_park` are the sessions
    whose interrupted runs this server must not continue."""

    database: Database
    bus: Bus
    sandboxes: Sandboxes
    agents: AgentSetup
    collector: Callable[[str, str, Callable[[Stream, str, int], None], OutputLimit], Collector]
    output_path: Callable[[str], Path] | None = None
    repaired: Callable[[Sequence[Repair]], None] = lambda _: None
    fence: Callable[[Connection], None] = lambda _: None
    to_park: set[str] = field(default_factory=set)

    async def write(self, session_id: str, work: Callable[[Connection], tuple[T, list[StreamItem]]]) -> T:
        """Commits a write to a session on behalf of others than its owner, and publishes its events. Raises
        `SupersededError`."""

        def fenced(connection: Connection) -> tuple[T, list[StreamItem]]:
            self.fence(connection)
            return work(connection)

        value, _ = await self.database.writer.write(fenced, lambda result: self.bus.publish(session_id, result[1]))
        return value

    async def claim(self, session_id: str) -> Row[Any] | None:
        """Makes this server the session's owner; see `compactions.claim`. Raises `SupersededError`."""
        return await self.write(session_id, lambda c: compactions.claim(c, session_id))

    async def holds_database(self) -> bool:
        """Whether this server still holds the database; for operations that do not write to it. See `fence.holds`."""
        return await holds(self.database, self.fence)
