"""The checkpoints of workspaces, as the settings say."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from urllib.parse import quote

from sqlalchemy import Connection

from app.db.engine import Database
from app.db.repositories import sessions
from app.runtime.background import in_background
from app.runtime.checkpoints.copies import own_folder
from app.runtime.checkpoints.coverage import CoverageRules
from app.runtime.checkpoints.keeper import Checkpoints
from app.runtime.checkpoints.secrets import read_secrets
from app.runtime.checkpoints.shared import SharedRepositories, Shelf
from app.runtime.checkpoints.taking import TakingRules
from app.runtime.sandboxes.pool import Sandboxes
from app.runtime.vault import Vault
from app.runtime.workspaces.keeper import Workspaces
from app.runtime.workspaces.store import SessionObjects
from app.sessions import SandboxSpec
from app.settings import Settings

PART = "checkpoints/"
"""Where a session has its checkpoints in the store of workspaces."""
STORE, COPIES, ALONE = "checkpoint-store", "checkpoint-copies", "checkpoints"
"""Folders of the data directory: the store of nodes that share it, each server's copies, and the repositories of a
server on its own."""


async def build_checkpoints(
    settings: Settings,
    database: Database,
    sandboxes: Sandboxes,
    workspaces: Workspaces | None,
    vault: Vault,
    instance_id: str,
    stack: AsyncExitStack,
) -> Checkpoints:
    """The checkpoints of this machine, in the data directory; in a cluster, or with a store of workspaces, those of all
    servers. The stack removes this server's copies. Raises `WorkspaceStoreError` without `palimpsest[cluster]`."""
    caches = frozenset(os.fsencode(name) for name in settings.checkpoint_skip)
    coverage = CoverageRules(caches, settings.checkpoint_file_max_mb * 2**20)
    total = settings.checkpoint_max_mb * 2**20
    shared = None
    if settings.temporal is not None or workspaces is not None:
        shelf = await _shelf(settings, workspaces, instance_id)
        folder = own_folder(settings.data_dir / COPIES)
        copies = await asyncio.to_thread(folder.__enter__)
        stack.push_async_callback(asyncio.to_thread, folder.__exit__, None, None, None)
        # A repository may be larger than its limit until the oldest checkpoints are dropped.
        shared = SharedRepositories(database, shelf, copies, settings.data_dir / ALONE, 2 * total)
        if workspaces is not None:
            workspaces.on_restore = shared.use
    checkpoints = Checkpoints(
        sandboxes,
        settings.data_dir / ALONE,
        TakingRules(coverage, total),
        most=settings.checkpoints,
        repository_bytes=total,
        shared=shared,
        workspaces=workspaces,
    )
    checkpoints.secrets = partial(read_secrets, database, vault)
    return checkpoints


async def _shelf(settings: Settings, workspaces: Workspaces | None, instance_id: str) -> Shelf:
    """The store of workspaces; without one, a folder of the data directory that nodes share."""
    if workspaces is not None:
        return Shelf(partial(workspaces.place.objects, part=PART), workspaces.upkeep.check)
    from app.cluster.object_store import open_store

    folder = settings.data_dir.absolute() / STORE
    await asyncio.to_thread(folder.mkdir, mode=0o700, exist_ok=True)
    store = await asyncio.to_thread(open_store, f"file://{quote(str(folder))}")

    async def check() -> None: ...

    async def listed() -> Collection[str]:
        return await store.folders(f"{instance_id}/")

    return Shelf(lambda session_id: SessionObjects(store, instance_id, session_id, PART), check, listed)


@asynccontextmanager
async def recovered_checkpoints(database: Database, checkpoints: Checkpoints) -> AsyncIterator[None]:
    """Removes the repositories of deleted sessions; while entered, completes restorations that were cut off, and
    removes copies that are no longer needed."""
    async with in_background(checkpoints.sweep_regularly(), "checkpoints"):
        await checkpoints.recover(await database.read(lambda c: set(sessions.ids(c))))
        if not checkpoints.interrupted:
            yield
            return

        def query(connection: Connection) -> dict[str, SandboxSpec]:
            return sessions.sandboxes(connection, set(checkpoints.interrupted))

        work = checkpoints.complete_all((await database.read(query)).items())
        async with in_background(work, "restorations"):
            yield
