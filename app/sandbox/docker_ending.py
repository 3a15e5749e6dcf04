"""The commands that run in one container, and how they are ended.

What belongs to a command is told by its age: the processes that are younger than it and descend from no older command.
A script that looks for them is such a process itself, so two side by side would end each other. Commands that are to be
ended at the same time, as a cancellation has it, are therefore ended by one script.
"""

from __future__ import annotations

import asyncio
from collections.abc import Set
from contextlib import suppress
from typing import Protocol

import aiodocker

from app.errors import SandboxError, SandboxUnavailableError
from app.sandbox.docker_scripts import KILL_SCRIPT, Begun
from app.sandbox.docker_streams import run_script
from app.sandbox.engine import Engine

KILL_TIMEOUT_S = 1.2
"""How long the kill script may take before the whole container is killed; a cancellation has two seconds."""


class Command(Protocol):
    """A command in the container. `heard` is set when it has begun, or will never say so."""

    heard: asyncio.Event

    @property
    def begun(self) -> Begun | None: ...


class RunningCommands:
    """The commands of one container, each from its start to its end."""

    def __init__(self, engine: Engine, container: str) -> None:
        self._engine = engine
        self._container = container
        self._commands: set[Command] = set()
        self._doomed: set[Command] = set()
        self._ending: asyncio.Task[None] | None = None

    def add(self, command: Command) -> None:
        self._commands.add(command)

    def discard(self, command: Command) -> None:
        self._commands.discard(command)

    async def end(self, command: Command) -> None:
        """Ends all processes of a command; where that cannot be done one by one, all of the container."""
        self._doomed.add(command)
        if self._ending is None:
            self._ending = asyncio.create_task(self._end_doomed())
        # Others may wait for the same end.
        await asyncio.shield(self._ending)

    async def _end_doomed(self) -> None:
        try:
            while self._doomed:
                doomed = frozenset(self._doomed)
                await self._end(doomed)
                self._doomed -= doomed
        finally:
            self._ending = None

    async def _end(self, doomed: Set[Command]) -> None:
        with suppress(SandboxError, SandboxUnavailableError, aiodocker.DockerError, TimeoutError):
            async with asyncio.timeout(KILL_TIMEOUT_S):
                if await self._kill_processes(doomed):
                    return
        with suppress(aiodocker.DockerError):
            await self._engine.kill(self._container)

    async def _kill_processes(self, doomed: Set[Command]) -> bool:
        for command in doomed:
            await command.heard.wait()
        begun = [command.begun for command in doomed if command.begun is not None]
        if len(begun) < len(doomed):
            return False
        spared = [str(other.begun.pid) for other in self._commands - doomed if other.begun is not None]
        arguments = [str(min(each.ticks for each in begun)), *spared]
        code, _, _ = await run_script(self._engine, self._container, KILL_SCRIPT, arguments)
        return code == 0
