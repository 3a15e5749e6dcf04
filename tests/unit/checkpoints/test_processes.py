"""The git processes of checkpoints: none is left when a checkpoint is cancelled."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from app.runtime.checkpoints.repository import Repository


def processes_of(path: Path) -> list[str]:
    """The commands of living processes that name a path."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return [command for command in found if str(path) in command]


async def test_a_process_that_is_being_started_at_a_cancel_is_ended(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "r.git")
    repository.create()

    async def take() -> None:
        async with repository.importing():
            await asyncio.Event().wait()

    taking = asyncio.create_task(take())
    await asyncio.sleep(0)
    taking.cancel()
    await asyncio.wait({taking})
    await asyncio.get_running_loop().shutdown_default_executor()
    assert taking.cancelled()
    assert processes_of(repository.path) == []
