"""Cleans up and resumes after a restart, before the server accepts work."""

from __future__ import annotations

import structlog
from sqlalchemy import Connection

from app.db.repositories import sessions
from app.errors import SandboxUnavailableError
from app.runtime import compactions
from app.runtime.registry import Registry
from app.runtime.setup import RuntimeSetup
from app.sessions import Status
from app.tools import FileOutputStore

log = structlog.get_logger(__name__)


async def take_up(setup: RuntimeSetup, registry: Registry, store: FileOutputStore, *, parks: bool) -> None:
    """Removes leftovers of deleted sessions, then resumes interrupted runs, or `parks` them."""
    database = setup.database

    def query(connection: Connection) -> tuple[set[str], list[str]]:
        busy = (Status.RUNNING, Status.AWAITING_APPROVAL)
        return set(sessions.ids(connection)), [id for status in busy for id in sessions.ids(connection, status=status)]

    known, running = await database.read(query)
    await store.remove_orphans(known)
    await _recover_sandboxes(setup, known)
    await database.writer.write(compactions.abandon_all)
    setup.to_park.update(running if parks else ())
    for session_id in running:
        registry.wake(session_id)


async def _recover_sandboxes(setup: RuntimeSetup, known: set[str]) -> None:
    """Removes sandboxes whose sessions are not `known`, and adopts the others that still run."""
    sandboxes = setup.sandboxes
    try:
        removed = await sandboxes.remove_orphans(known)
        left = await sandboxes.running()
        sandboxes.adopt(await setup.database.read(lambda c: sessions.sandboxes(c, left)))
    except SandboxUnavailableError as error:
        log.warning("orphan_removal_failed", reason=error.detail)
    else:
        if removed:
            log.info("orphans_removed", names=removed)
