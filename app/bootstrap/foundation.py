"""The resources of a server: its database, sandboxes, providers and stored outputs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from app.bootstrap.providers import build_providers
from app.bootstrap.sandboxes import build_sandboxes
from app.bootstrap.storage import open_storage
from app.db.engine import Database
from app.db.repositories import sessions
from app.llm.registry import Providers
from app.runtime.quirks import LearnedQuirks
from app.runtime.sandboxes import Sandboxes
from app.settings import Settings
from app.tools import FileOutputStore


@dataclass(frozen=True, slots=True)
class Foundation:
    """`instance_id` identifies the database and labels its containers; `left_out` maps each kind of sandbox that is
    allowed but unavailable to the reason."""

    database: Database
    instance_id: str
    sandboxes: Sandboxes
    left_out: Mapping[str, str]
    providers: Providers
    store: FileOutputStore


async def lay_foundation(settings: Settings, stack: AsyncExitStack) -> Foundation:
    """Opens all resources; the stack closes them, the database last. Raises `StorageError`."""
    database = await open_storage(settings)
    stack.push_async_callback(database.aclose)
    instance_id = await database.writer.write(sessions.instance_id)
    sandboxes, left_out = await build_sandboxes(settings, instance_id)
    stack.push_async_callback(sandboxes.aclose)
    quirks = LearnedQuirks(database)
    await quirks.load()
    providers = await asyncio.to_thread(build_providers, settings, quirks)
    stack.push_async_callback(providers.aclose)
    store = FileOutputStore(settings.data_dir / "outputs")
    stack.push_async_callback(store.aclose)
    return Foundation(database, instance_id, sandboxes, left_out, providers, store)
