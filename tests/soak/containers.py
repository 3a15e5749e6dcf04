"""The containers of a run, through the Engine's own command."""

from __future__ import annotations

import asyncio
import shutil


async def _docker(*arguments: str) -> list[str]:
    process = await asyncio.create_subprocess_exec(
        "docker", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    out, _ = await process.communicate()
    return out.decode().split()


class Containers:
    """Those with the label of one database's instance id."""

    def __init__(self) -> None:
        self.instance_id: str | None = None
        self.are_there = shutil.which("docker") is not None

    async def _list(self, *which: str) -> list[str]:
        if self.instance_id is None:
            return []
        what = which or ("--quiet",)
        return await _docker("ps", *what, "--filter", f"label=palimpsest.instance={self.instance_id}")

    async def running(self) -> list[str]:
        return await self._list()

    async def sessions(self) -> list[str]:
        """The sessions with a container, running or not."""
        return await self._list("--all", "--format", '{{.Label "palimpsest.session"}}')

    async def kill_one(self, pick: float) -> bool:
        """Kills a running one; returns whether there was one."""
        running = sorted(await self.running())
        if not running:
            return False
        await _docker("kill", running[int(pick * len(running))])
        return True

    async def remove(self) -> None:
        """Removes all, with their volumes."""
        if self.instance_id is None:
            return
        label = f"label=palimpsest.instance={self.instance_id}"
        if containers := await self._list("--all", "--quiet"):
            await _docker("rm", "--force", *containers)
        if volumes := await _docker("volume", "ls", "--quiet", "--filter", label):
            await _docker("volume", "rm", "--force", *volumes)
