"""Copies of snapshots in the store, for forks."""

from __future__ import annotations

from contextlib import suppress

from app.db.engine import Database
from app.db.repositories.workspaces import StoredWorkspace
from app.errors import SandboxError
from app.runtime.workspaces import claims
from app.runtime.workspaces.held import Place
from app.runtime.workspaces.reading import load
from app.runtime.workspaces.store import ObjectMissingError, SessionObjects

RESTORES = 3
"""Attempts to read a snapshot while its owner elsewhere replaces it."""


async def copy(database: Database, place: Place, row: StoredWorkspace, target_id: str) -> StoredWorkspace:
    source, target = place.objects(row.session_id), place.objects(target_id)
    for _ in range(RESTORES):
        if row.snapshot_id is None:
            return row
        with suppress(ObjectMissingError):
            await copy_objects(source, target, row.snapshot_id)
            return row
        row = await claims.find(database, row.session_id) or row
    raise SandboxError("The workspace cannot be copied: its snapshots are being replaced.")


async def copy_objects(source: SessionObjects, target: SessionObjects, snapshot_id: str) -> None:
    """Copies one snapshot. Raises `ObjectMissingError` if it is replaced meanwhile."""
    snapshot = await load(source, snapshot_id)
    for name in snapshot.packs:
        await source.store.copy(source.pack(name), target.pack(name))
    await source.store.copy(source.manifest(snapshot_id), target.manifest(snapshot_id))
