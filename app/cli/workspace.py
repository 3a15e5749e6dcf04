"""Copies a session's files out of its workspace."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path

from app.cli.archive import unpack
from app.cli.client import Client
from app.cli.errors import CliError


async def take_out(client: Client, session_id: str, folder: Path, say: Callable[[str], None]) -> None:
    """Unpacks the session's workspace into `folder`, and reports what was skipped and why."""
    with tempfile.TemporaryFile() as archive:
        await client.download(session_id, archive)
        await asyncio.to_thread(archive.seek, 0)
        try:
            refused = await asyncio.to_thread(unpack, archive, folder)
        except OSError as error:
            raise CliError(f"The files cannot be written to {folder}: {error.strerror}.", code="not_written") from error
    for name in refused:
        say(f"skipped {name}: it leads out of the folder, is not a file, or cannot be written")
    say(f"files are in {folder}")
