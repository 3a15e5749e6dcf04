"""The checkpoints of workspaces, as the settings say."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import Connection

from app.db.engine import Database
from app.db.repositories import sessions
from app.runtime.background import in_background
from app.runtime.checkpoints.coverage import CoverageRules
from app.runtime.checkpoints.keeper import Checkpoints
from app.runtime.checkpoints.taking import TakingRules
from app.runtime.sandboxes.pool import Sandboxes
from app.sessions import SandboxSpec
from app.settings import Settings


def build_checkpoints(settings: Settings, sandboxes: Sandboxes) -> Checkpoints:
    """The checkpoints of this machine, in the data directory."""
    caches = frozenset(os.fsencode(name) for name in settings.checkpoint_skip)
    coverage = CoverageRules(caches, settings.checkpoint_file_max_mb * 2**20)
    total = settings.checkpoint_max_mb * 2**20
    rules = TakingRules(coverage, total)
    folder = settings.data_dir / "checkpoints"
    return Checkpoints(sandboxes, folder, rules, most=settings.checkpoints, repository_bytes=total)


@asynccontextmanager
async def recovered_checkpoints(database: Database, checkpoints: Checkpoints) -> AsyncIterator[None]:
    """Removes the repositories of deleted sessions; while entered, completes restorations that were cut off."""
    await checkpoints.recover(await database.read(lambda c: set(sessions.ids(c))))
    if not checkpoints.interrupted:
        yield
        return

    def query(connection: Connection) -> dict[str, SandboxSpec]:
        return sessions.sandboxes(connection, set(checkpoints.interrupted))

    work = checkpoints.complete_all((await database.read(query)).items())
    async with in_background(work, "restorations"):
        yield
