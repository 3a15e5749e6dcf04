"""Adds a kind of sandbox that was not available when the server started."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

import structlog

from app.db.engine import Database
from app.db.repositories import sessions
from app.errors import PalimpsestError
from app.runtime.background import in_background
from app.runtime.sandboxes import Sandboxes
from app.sandbox.base import SandboxFactory

LOOK_AGAIN_S = 2.0
"""Seconds between checks."""

log = structlog.get_logger(__name__)

Find = Callable[[], Awaitable[Mapping[str, SandboxFactory]]]


@asynccontextmanager
async def looking_for_sandboxes(sandboxes: Sandboxes, find: Find, database: Database) -> AsyncIterator[None]:
    """While entered, checks with `find` until the expected kinds are available."""
    if not sandboxes.expected:
        yield
        return
    async with in_background(_search(sandboxes, find, database), "looking-for-sandboxes"):
        yield


async def _search(sandboxes: Sandboxes, find: Find, database: Database) -> None:
    while sandboxes.expected:
        await asyncio.sleep(LOOK_AGAIN_S)
        try:
            found = await find()
        except Exception:
            # Any error: retry, since without a sandbox the server would never become ready.
            log.exception("sandbox_search_crashed")
            continue
        for factory in found.values():
            try:
                await _add(sandboxes, factory, database)
            except PalimpsestError as error:
                log.warning("sandbox_add_failed", reason=error.detail)
                await factory.aclose()


async def _add(sandboxes: Sandboxes, factory: SandboxFactory, database: Database) -> None:
    """Adds a kind of sandbox after removing leftovers of deleted sessions; later sandboxes belong to sessions that are
    not in the list read here."""
    known = await database.read(lambda c: set(sessions.ids(c)))
    removed = await factory.remove_orphans(known)
    left = await database.read(partial(sessions.sandboxes, session_ids=await factory.running()))
    sandboxes.add(factory)
    sandboxes.adopt(left)
    log.info("sandbox_found", sandbox=factory.describe(), orphans_removed=removed)
