"""How the tests run commands, and how they see which processes are alive."""

from __future__ import annotations

import asyncio
import os
import random
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.sandbox.base import ExecResult, Sandbox, SandboxConfig, SandboxLimits, Stream

IMAGE = os.environ.get("PALIMPSEST_TEST_IMAGE", "palimpsest/test-busybox:latest")
"""The image of Docker tests; `.ci/sandbox-image` makes the default one without a registry."""
LOOK_S = 0.05
"""Seconds between two looks at all processes of this machine, each of which takes milliseconds of CPU time."""


def new_config(
    session_id: str | None = None, *, network: bool = False, pids: int = 64, disk_mb: int = 2 * 2**20
) -> SandboxConfig:
    limits = SandboxLimits(memory_mb=256, cpus=1, pids=pids, disk_mb=disk_mb)
    return SandboxConfig(session_id or str(uuid.uuid4()), IMAGE, network=network, limits=limits)


@dataclass(frozen=True)
class Ran:
    result: ExecResult
    pieces: list[tuple[Stream, bytes]]

    @property
    def code(self) -> int | None:
        return self.result.exit_code

    @property
    def out(self) -> str:
        return self._of("stdout").decode("utf-8", "replace")

    @property
    def err(self) -> str:
        return self._of("stderr").decode("utf-8", "replace")

    def _of(self, wanted: Stream) -> bytes:
        return b"".join(data for stream, data in self.pieces if stream == wanted)


class Shell:
    """Runs commands in a sandbox and keeps their output."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    @property
    def kind(self) -> str:
        return self.sandbox.kind

    async def run(self, command: str, *, timeout_s: float = 30) -> Ran:
        pieces: list[tuple[Stream, bytes]] = []

        def keep(stream: Stream, data: bytes) -> None:
            pieces.append((stream, data))

        result = await self.sandbox.exec(command, timeout_s=timeout_s, on_output=keep)
        return Ran(result, pieces)

    async def python(self, script: str) -> Ran:
        """Runs a script with the host's Python."""
        return await self.run(f"/usr/bin/python3 - <<'SCRIPT'\n{script}\nSCRIPT")


def unique_seconds() -> str:
    """An argument of `sleep` that no other process on this machine has, so that its sleepers can be counted."""
    return str(random.randrange(10**8, 10**9))


def sleepers(seconds: str) -> int:
    """How many processes that are not dead sleep for `seconds`, in whatever namespace, on this machine."""
    return sum(_sleeps(process, seconds.encode()) for process in Path("/proc").iterdir() if process.name.isdigit())


async def until_sleeping(seconds: str, count: int = 1) -> None:
    """Waits until the first of them sleeps, or so many."""
    async with asyncio.timeout(60):
        while sleepers(seconds) < count:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)  # a process of another namespace raises no event here


async def until_gone(seconds: str, within_s: float = 60) -> None:
    """Waits until none of them is left: the kernel ends a namespace's processes a moment after its first."""
    async with asyncio.timeout(within_s):
        while sleepers(seconds):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)


def _sleeps(process: Path, seconds: bytes) -> bool:
    with suppress(OSError):
        arguments = (process / "cmdline").read_bytes().split(b"\0")
        if seconds in arguments and b"sleep" in arguments[0] + b" ".join(arguments[1:2]):
            return (process / "stat").read_bytes().rpartition(b")")[2].split()[0] not in b"ZX"
    return False
