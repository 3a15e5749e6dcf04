"""Sandboxes in Docker: one container per session, its workspace in a volume.

The container is found or created by name, so a restarted server finds it again. It runs only a waiting process, as an
unprivileged user without capabilities; commands enter through `docker exec`. Failures of the Engine, the container or
the image are handled at the next call, which recreates what is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

import aiodocker

from app.errors import NotFoundError, SandboxError, SandboxUnavailableError, WorkspaceFullError
from app.sandbox.base import (
    ExecRequest,
    ExecResult,
    FileInfo,
    FilePiece,
    LiveInput,
    OnOutput,
    OpenFile,
    Sandbox,
    SandboxConfig,
    Scan,
    TreeEntry,
)
from app.sandbox.docker import moving, unpacking
from app.sandbox.docker.command import ContainerCommand, RunningCommands, end_left
from app.sandbox.docker.container import (
    CONFIG_LABEL,
    INSTANCE_LABEL,
    ContainerEgress,
    Place,
    container_config,
    container_name,
    own_directories,
)
from app.sandbox.docker.engine import Engine, translated_refusals
from app.sandbox.docker.files import ContainerArchives, ContainerFiles
from app.sandbox.docker.reading import SINGLE_FETCHES, read_entries
from app.sandbox.docker.watch import ContainerDisk, ContainerWatch, Watched
from app.sandbox.egress import Gateway, Refusals
from app.sandbox.host import process
from app.sandbox.host.namespace import file_blocks
from app.sandbox.host.process import Commands, until
from app.sandbox.ready import ReadyCommands, Room, may_start

CANCEL_S = 2.0
"""Seconds that a cancellation waits for a command to die; the contract of `cancel` allows that long."""


class SessionState:
    """State shared by the handles of one session."""

    def __init__(self, engine: Engine, container: str, disk_limit: int, gateway: Gateway, room: Room) -> None:
        self.egress = ContainerEgress(engine, container, gateway)
        place = Place(engine, container)
        self.disk = ContainerDisk(engine, place, disk_limit)
        self.running = RunningCommands(engine, place)
        self.watch = ContainerWatch(engine, place, self.disk, self.running)
        self.lock = asyncio.Lock()
        """Held while the container is created or removed."""
        self.deleted = False
        """Whether container and volume were removed permanently; they are never recreated."""
        self.commands = Commands()
        self.ready = ReadyCommands(self.commands, room)


class DockerSandbox:
    """One session's container and volume."""

    kind = "docker"

    def __init__(self, engine: Engine, config: SandboxConfig, instance_id: str, session: SessionState) -> None:
        self.network = config.network
        self._engine = engine
        self._config = config
        self._instance_id = instance_id
        self._session = session
        self._name = container_name(config.session_id)
        self._archives = ContainerArchives(engine, self._name)
        self._files = ContainerFiles(engine, self._name, self._archives)

    async def start(self) -> None:
        await self._ensure(running=True)

    async def exec(
        self,
        command: str,
        *,
        timeout_s: float,
        on_output: OnOutput,
        stdin: LiveInput | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        request = ExecRequest(process.check_command(command), timeout_s, on_output, stdin)
        return await self._session.ready.run(request, env or {}, self._run)

    def keep_ready(self, env: Mapping[str, str] | None = None) -> None:
        self._session.ready.keep(env or {}, self._run)

    def rest(self) -> None:
        self._session.ready.rest()

    async def _run(
        self, request: asyncio.Future[ExecRequest], env: Mapping[str, str], ending: asyncio.Event
    ) -> ExecResult:
        running = self._engine.in_background(self._run_to_its_end(request, env, ending))
        await until(ending, running)
        if not running.done():
            # An Engine that does not answer must not delay a cancellation: cleanup continues when it does.
            await asyncio.wait({running}, timeout=CANCEL_S)
        return running.result() if running.done() else ExecResult(process.KILLED, False, 0)

    async def _run_to_its_end(
        self, request: asyncio.Future[ExecRequest], env: Mapping[str, str], ending: asyncio.Event
    ) -> ExecResult:
        if not await may_start(request, ending):
            return ExecResult(process.KILLED, False, 0)
        session, watched, refusals = self._session, Watched(ending), Refusals()

        @asynccontextmanager
        async def admitted() -> AsyncIterator[str]:
            async with session.egress.noting(self._config.allowed_hosts, refusals):
                await session.watch.recount()
                async with session.watch.over(watched):
                    yield file_blocks(self._config.limits, full=session.disk.use.full)

        if request.done():
            await self._ensure(running=True)
        else:
            # Never starts the container, which may be in the middle of being removed.
            await session.running.ended()
        command = ContainerCommand(self._engine, self._name, session.running, admitted)
        try:
            result = await command.run(request, env, ending=ending)
        except SandboxError:
            if watched.broken is None:
                raise
            result = ExecResult(None, False, 0)  # the container had to be ended as a whole
        if watched.broken is not None:
            result = replace(result, exit_code=None, remark=watched.broken)
        elif not ending.is_set():  # a cancellation does not wait for a check
            result = replace(result, remark=await session.watch.remark())
        return replace(result, refused_hosts=refusals.described())

    async def has_workspace(self) -> bool:
        return await self._engine.has_volume(self._name)

    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        await self._ensure(running=False)
        return await self._files.read(path, max_bytes)

    async def open(self, path: str) -> OpenFile:
        await self._ensure(running=False)
        return await self._files.open(path)

    async def write(self, path: str, data: bytes) -> None:
        await self._ensure(running=True)
        await self._check_room()
        await self._files.write(path, data)

    async def list(self, path: str = ".", *, recursive: bool = False, limit: int = 10_000) -> Sequence[FileInfo]:
        await self._ensure(running=True)
        return await self._files.list(path, recursive, limit)

    async def archive(self) -> AsyncIterator[bytes]:
        await self._ensure(running=False)
        async for piece in self._files.archive():
            yield piece

    async def unpack(self, archive: AsyncIterator[bytes], *, replaced: Sequence[str] | None = None) -> None:
        await self._ensure(running=True)
        await self._check_room()
        await unpacking.unpack(self._engine, self._name, self._archives, archive, replaced)

    async def _check_room(self) -> None:
        await self._session.watch.recount()
        if self._session.disk.use.full:
            raise WorkspaceFullError(f"Nothing can be written: {self._session.disk.use.describe()}.")

    async def copy_from(self, source: Sandbox) -> None:
        assert isinstance(source, DockerSandbox)
        if not await source.has_workspace():
            return
        await source._ensure(running=False)
        await self._ensure(running=False)
        await moving.copy(source._archives, self._archives, self._config.limits.disk_mb * 2**20)

    async def scan(self, limit: int, skip: frozenset[bytes] = frozenset()) -> Scan:
        await self._ensure(running=True)
        return await moving.scan(self._engine, self._name, limit, skip)

    async def read_entries(self, entries: Sequence[TreeEntry]) -> AsyncGenerator[Sequence[FilePiece], None]:
        await self._ensure(running=len(entries) > SINGLE_FETCHES)
        async with aclosing(read_entries(self._engine, self._name, self._archives, entries)) as batches:
            async for batch in batches:
                yield batch

    async def restore(self, archive: AsyncIterator[bytes]) -> None:
        await self.stop()
        with translated_refusals():
            async with self._session.lock:
                await self._engine.remove_volume(self._name)
        await self._ensure(running=False)
        await moving.restore(self._archives, archive)

    async def update(self, removed: Sequence[TreeEntry], archive: AsyncIterator[bytes]) -> None:
        await self._ensure(running=True)
        await moving.remove(self._engine, self._name, removed)
        await moving.restore(self._archives, archive)

    async def end_left(self) -> None:
        with translated_refusals():
            async with self._session.lock:
                await end_left(self._engine, self._name)

    async def stop(self) -> None:
        # Removed, not just stopped: an unused container takes disk space, and the workspace is in its volume.
        self._session.ready.rest()
        with translated_refusals():
            async with self._session.lock:
                await self._engine.remove(self._name)
        await self._session.egress.close()
        await self._session.commands.end_all()

    async def remove(self) -> None:
        session = self._session
        session.ready.rest()
        with translated_refusals():
            async with session.lock:
                await self._engine.remove(self._name)
                await session.egress.close()
                await self._engine.remove_volume(self._name)
                session.deleted = True
        await session.commands.end_all()

    async def _ensure(self, *, running: bool) -> None:
        """Makes sure that the container exists and, if requested, runs. Raises `NotFoundError` (code
        `session_not_found`) after `remove`."""
        if running:
            await self._session.running.ended()
        try:
            await self._pull_and_make(running)
        except aiodocker.DockerError as exc:
            raise SandboxUnavailableError(f"The sandbox cannot be started: {exc.message}") from exc

    async def _pull_and_make(self, running: bool) -> None:
        try:
            await self._make(running)
        except _NoImageError:
            await self._engine.pull(self._config.image)  # without the lock, since it may take minutes
            await self._make(running)

    async def _make(self, running: bool) -> None:
        # The Engine may create the container even if the caller was cancelled, so the lock is held until it has
        # answered: a later removal then finds the container.
        await asyncio.shield(self._engine.in_background(self._make_locked(running)))

    async def _make_locked(self, running: bool) -> None:
        async with self._session.lock:
            if self._session.deleted:
                raise NotFoundError("The session has been deleted.", code="session_not_found")
            shown = await self._adopted() or await self._create()
            if running and not shown["State"]["Running"]:
                await self._start()

    async def _adopted(self) -> dict[str, Any] | None:
        """The existing container. One created with other settings is removed; its workspace stays."""
        shown = await self._engine.find(self._name)
        if shown is None:
            return None
        labels = shown["Config"]["Labels"] or {}
        if labels.get(INSTANCE_LABEL) != self._instance_id:
            raise SandboxUnavailableError(f"The container {self._name} belongs to another server; remove it.")
        if labels.get(CONFIG_LABEL) == self._wanted["Labels"][CONFIG_LABEL]:
            return shown
        await self._engine.remove(self._name)
        return None

    @property
    def _wanted(self) -> dict[str, Any]:
        return container_config(self._config, self._instance_id)

    async def _create(self) -> dict[str, Any]:
        try:
            container = await self._engine.create(self._wanted, self._name)
        except aiodocker.DockerError as exc:
            if exc.status != 404:
                raise
            raise _NoImageError(exc.status, exc.message) from exc
        await self._archives.put("/", own_directories())
        async with self._engine.answering():
            return await container.show()

    async def _start(self) -> None:
        if self._config.network:
            await self._engine.ensure_network()
        await self._engine.start(self._name)


class _NoImageError(aiodocker.DockerError):
    """The Engine does not have the image."""
