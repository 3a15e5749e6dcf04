"""What services and the owners of sessions share; with the fence that stops a server once another has taken over the
database, and work in the background."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection, Row

from app.agent.protocols import Collector
from app.context.validator import Repair
from app.db.engine import Database
from app.db.repositories import deletions, messages, ownership, server_wide, sessions
from app.db.repositories.deletions import LastEvent
from app.errors import StorageError, SupersededError
from app.eventlog.bus import Bus
from app.eventlog.log import StreamItem
from app.events import SessionDeleted
from app.messages import new_id, now
from app.runtime.agents import AgentSetup
from app.runtime.background import in_background
from app.runtime.checkpoints.keeper import Checkpoints
from app.runtime.commands import BackgroundCommands
from app.runtime.images import ImageCache
from app.runtime.kept import KeptConversations
from app.runtime.mcp.host import McpHost
from app.runtime.sandboxes.pool import Sandboxes
from app.runtime.sources import Sources
from app.runtime.transactions import claims
from app.runtime.vault import Vault
from app.runtime.webhooks.deletions import session_deleted
from app.runtime.workspaces.keeper import Workspaces
from app.sandbox.base import Stream
from app.sessions import Status
from app.tools.output import OutputLimit

T = TypeVar("T")
LARGE_HISTORY_BYTES = 2 * 1024 * 1024
"""Bytes of stored messages of which only one history is read whole at a time; what is read has about 13 times as many
in memory."""

log = structlog.get_logger(__name__)
LOOK_S = 1.0
"""How often a server checks whether it still holds the database, in seconds; its runs should end within two more. A
check reads one row."""


@dataclass(slots=True)
class OwnerCounts:
    """What happens to owners on this server: sessions that it took over from other nodes of a cluster, and owners whose
    write was refused since another one had taken over. `waited` gets the seconds that a run waited for its owner,
    `client_waited` those that a call waited for a client, and how that ended."""

    take_overs: int = 0
    refused: int = 0
    waited: Callable[[float], None] = lambda _: None
    client_waited: Callable[[str, float], None] = lambda _, __: None


@dataclass(slots=True)
class Subagents:
    """How the owner of a session reaches the owners of its sub-agents, which run in the same process; set by what runs
    them. All take the ids of the session and of the sub-agent: `wake`, also with the key of the run, is for a new
    sub-agent; `resume` for one that works, and that an earlier owner may have left; `cancel` ends its run."""

    wake: Callable[[str, str, str | None], None] = lambda _, __, ___: None
    resume: Callable[[str, str], None] = lambda _, __: None
    cancel: Callable[[str, str], None] = lambda _, __: None


@dataclass(frozen=True, slots=True)
class RuntimeSetup:
    """One for the whole server. `collector` creates a call's collector from session id, call id and the live callback;
    `output_path` returns the file of a raw output by its key. `repaired` is called with stored repairs of contexts.
    `fence` raises `SupersededError` in a write if the server no longer holds the database; `to_park` are the sessions
    whose interrupted runs this server must not continue. `large_reads` is for `reading_whole`. `node` identifies this
    server in a cluster; None outside of one. `workspaces` stores workspaces for other machines, None if there is no
    store; `checkpoints` keeps them as they were, None if workspaces move between machines; `counts` is for the
    metrics, `sources` clones repositories; `vault` encrypts the secrets of sessions, `mcp` is for their MCP servers,
    `commands` are those in the background, `subagents` reaches the owners of sub-agents."""

    database: Database
    bus: Bus
    sandboxes: Sandboxes
    agents: AgentSetup
    collector: Callable[[str, str, Callable[[Stream, str, int], None], OutputLimit], Collector]
    output_path: Callable[[str], Path] | None = None
    repaired: Callable[[Sequence[Repair]], None] = lambda _: None
    fence: Callable[[Connection], None] = lambda _: None
    to_park: set[str] = field(default_factory=set)
    large_reads: asyncio.Lock = field(default_factory=asyncio.Lock)
    node: str | None = None
    workspaces: Workspaces | None = None
    checkpoints: Checkpoints | None = None
    counts: OwnerCounts = field(default_factory=OwnerCounts)
    sources: Sources | None = None
    vault: Vault = field(default_factory=lambda: Vault(None, None))
    image_cache: ImageCache = field(default_factory=ImageCache)
    kept: KeptConversations = field(default_factory=KeptConversations)
    mcp: McpHost = field(default_factory=McpHost)
    commands: BackgroundCommands = field(default_factory=BackgroundCommands)
    subagents: Subagents = field(default_factory=Subagents)

    async def write(
        self,
        session_id: str,
        work: Callable[[Connection], tuple[T, list[StreamItem]]],
        *,
        to_subagent: bool = False,
        committed: Callable[[], None] = lambda: None,
    ) -> T:
        """Commits a write to a session on behalf of others than its owner, and publishes its events. `committed` is
        called before the result of any later write of the session is known. Raises `SupersededError`, and
        `ConflictError` (code `subagent_session`) for a sub-agent unless that is allowed."""

        def nudging(connection: Connection) -> tuple[T, list[StreamItem]]:
            if not to_subagent:
                sessions.refuse_subagent(connection, session_id)
            result = work(connection)
            if self.node is not None:
                ownership.nudge(connection, session_id)
            return result

        return await self._write(session_id, nudging, committed)

    async def _write(
        self,
        session_id: str,
        work: Callable[[Connection], tuple[T, list[StreamItem]]],
        committed: Callable[[], None] = lambda: None,
    ) -> T:
        def fenced(connection: Connection) -> tuple[T, list[StreamItem]]:
            self.fence(connection)
            return work(connection)

        def publish(result: tuple[T, list[StreamItem]]) -> None:
            self.bus.publish(session_id, result[1])
            committed()

        value, _ = await self.database.writer.write(fenced, publish, session_id=session_id)
        return value

    def remove(self, connection: Connection, session_id: str) -> tuple[str, StreamItem]:
        """Deletes a session and all its rows; returns its id and its last event, which is in no log: its seq is the
        next. It is kept for a while for readers on other nodes and for those that reconnect. Raises `NotFoundError`."""
        last = sessions.remove(connection, session_id)
        event = SessionDeleted(session_id=last.id, at=now(), session=last)
        item = StreamItem(event.type, last.last_seq + 1, event.__pydantic_serializer__.to_json(event))
        session_deleted(connection, session_id, item.type, last.last_seq + 1, item.data.decode(), event.at)
        deletions.add(connection, LastEvent(session_id, last.last_seq + 1, item.data.decode()))
        return session_id, item

    def removed(self, session_id: str, last: StreamItem) -> None:
        """The removal of a session is committed: ends its streams after its last event."""
        self.kept.drop(session_id)
        self.bus.delete(session_id, last)

    @asynccontextmanager
    async def reading_whole(self, session_id: str) -> AsyncIterator[None]:
        """Has those who read a large history whole for a request wait for each other."""
        async with AsyncExitStack() as turn:
            if await self.database.read(lambda c: messages.has_more(c, session_id, LARGE_HISTORY_BYTES)):
                await turn.enter_async_context(self.large_reads)
            yield

    async def claim(self, session_id: str, after: int | None = None) -> Row[Any] | None:
        """Makes this server the session's owner; see `claims.claim`. Raises `SupersededError`."""

        def work(connection: Connection) -> tuple[tuple[Row[Any] | None, str | None], list[StreamItem]]:
            former = None if self.node is None else ownership.owner_of(connection, session_id)
            row, items = claims.claim(connection, session_id, self.node, after)
            return (row, former), items

        row, former = await self._write(session_id, work)
        if row is not None:
            self.note_claim(row, former)
        return row

    def note_claim(self, claimed: Row[Any], former: str | None = None) -> None:
        """Counts a claim for the metrics; `former` is the node that had the session."""
        if former not in (None, self.node):
            self.counts.take_overs += 1
        elif claimed.status == Status.RUNNING and claimed.run_steps == claimed.recoveries == 0:
            # Not negative, if the clock of the node that accepted the run is ahead.
            self.counts.waited(max(0.0, (now() - claimed.run_started_at).total_seconds()))

    async def still_owns(self, session_id: str, epoch: int) -> bool:
        """Whether this server still holds the database, and the session with this epoch; for operations that do not
        write to it. See `holds`."""

        def check(connection: Connection) -> None:
            self.fence(connection)
            if self.node is not None:
                version = ownership.versions(connection, [session_id]).get(session_id)
                if version is None or version.epoch != epoch:
                    raise SupersededError("Another node has taken over the session.")

        return await holds(self.database, check)


async def holds(database: Database, check: Callable[[Connection], None]) -> bool:
    """Whether a server still holds its database, according to its `Fence.check`. True if that cannot be read: every
    write is checked separately."""
    try:
        await database.read(check)
    except SupersededError:
        return False
    except StorageError:
        return True
    return True


CLUSTER = "cluster"
"""The holder that all nodes of a cluster are together."""


class Fence:
    """A server's hold on its database, from `take` until another one takes it. The nodes of a cluster share one."""

    def __init__(self, database: Database, holder: str | None = None) -> None:
        """`holder` is who takes it, by default this server alone."""
        self._database = database
        self._holder = holder or new_id()

    async def take(self) -> None:
        """Takes over the database."""
        await self._database.writer.write(lambda c: server_wide.take_hold(c, self._holder))

    def check(self, connection: Connection) -> None:
        """Raises `SupersededError` if another server holds the database; called inside a write, so that only the holder
        writes."""
        if server_wide.current_holder(connection) != self._holder:
            raise SupersededError("Another server was started on this database and has taken over the sessions.")

    @asynccontextmanager
    async def watched(self, on_loss: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        """Checks the hold while the context lasts; `on_loss` is awaited once it is lost."""
        async with in_background(self._watch(on_loss), "fence"):
            yield

    async def _watch(self, on_loss: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(LOOK_S)  # what was written since it was taken has checked it
        while await holds(self._database, self.check):  # noqa: ASYNC110 - the other server is another process
            await asyncio.sleep(LOOK_S)
        log.error(
            "server_superseded",
            detail="Another server was started on this database. This one has ended its runs and accepts no more work;"
            " stop it, or restart it to take the sessions back.",
        )
        await on_loss()
