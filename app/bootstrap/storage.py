"""The data directory of a server and its database."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from app.db.engine import Database, open_database, sqlite_path
from app.db.migrate import upgrade
from app.errors import StorageError
from app.settings import Settings


def prepare_data_dir(settings: Settings) -> None:
    """Creates the data directory, accessible to its owner only. Raises `StorageError`."""
    try:
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"The data directory {settings.data_dir} cannot be created: {error.strerror}.") from error
    if not os.access(settings.data_dir, os.W_OK | os.X_OK):
        raise StorageError(f"The data directory {settings.data_dir} is not writable.")


def directories(settings: Settings) -> tuple[Path, Path]:
    """The directories that hold a server's data."""
    return settings.data_dir, sqlite_path(settings.url).parent


async def open_storage(settings: Settings) -> Database:
    """Opens and migrates the database; creates the data directory first. Raises `StorageError`."""
    await asyncio.to_thread(prepare_data_dir, settings)
    await asyncio.to_thread(upgrade, settings.url)
    return await asyncio.to_thread(open_database, settings.url)
