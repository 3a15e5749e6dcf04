"""The store of workspaces, if the settings name one."""

from __future__ import annotations

import asyncio

from app.db.engine import Database
from app.runtime.sandboxes.pool import Sandboxes
from app.runtime.workspaces.cache import TreeCache, machine_id
from app.runtime.workspaces.held import Place
from app.runtime.workspaces.keeper import Workspaces
from app.settings import Settings

MIN_STORE_S = 10.0
"""Least seconds at shutdown for the last snapshots."""


async def open_workspaces(
    settings: Settings, database: Database, sandboxes: Sandboxes, instance_id: str, node: str | None
) -> Workspaces | None:
    """None without a store. `node` is this server's id in a cluster. A store that does not answer yet is no error.
    Raises `WorkspaceStoreError` for an invalid setting, and if `palimpsest[cluster]` is not installed."""
    if settings.workspace_store is None:
        return None
    from app.cluster.object_store import open_store

    store = await asyncio.to_thread(open_store, settings.workspace_store)
    data_dir = await asyncio.to_thread(machine_id, settings.data_dir)
    cache = TreeCache(settings.data_dir / "snapshots")
    return Workspaces(
        database,
        sandboxes,
        Place(store, instance_id, data_dir, cache, settings.sandbox_disk_mb * 2**20, node),
    )
