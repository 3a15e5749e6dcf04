"""Where sandboxes in Docker come from, and what earlier servers have left of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from weakref import WeakValueDictionary

from app.sandbox.base import Present, SandboxConfig
from app.sandbox.docker.command import end_left, end_orphans
from app.sandbox.docker.container import INSTANCE_LABEL, SESSION_LABEL, can_be_entered, container_name
from app.sandbox.docker.engine import Engine, translated_refusals
from app.sandbox.docker.present import grouped
from app.sandbox.docker.sandbox import DockerSandbox, SessionState
from app.sandbox.egress import Gateway
from app.sandbox.ready import Room


class DockerFactory:
    """Sandboxes on the Engine at `docker_host`, by default DOCKER_HOST or the local socket."""

    kind = "docker"
    network_default = True

    def __init__(self, instance_id: str, docker_host: str | None = None, image: str | None = None) -> None:
        """`image` is the one that `check` looks for."""
        self._instance_id = instance_id
        self._image = image
        self._engine = Engine(docker_host)
        self._gateway = Gateway()
        self._room = Room()
        self._sessions: WeakValueDictionary[str, SessionState] = WeakValueDictionary()
        self._version: str | None = None
        self._machine: str | None = None
        self._knows_machine = False

    @property
    def network_can_be_limited(self) -> bool:
        return can_be_entered(self._engine.host)

    @property
    def refused_connections(self) -> int:
        return self._gateway.refused

    def describe(self) -> str:
        version = f" {self._version}" if self._version else ""
        return f"Docker Engine{version} at {self._engine.host}"

    async def check(self) -> None:
        """Checks that the Engine answers, and has the image or can pull it."""
        self._version = await self._engine.version()
        if self._image is not None and not await self._engine.has_image(self._image):
            await self._engine.find_remote(self._image)

    async def machine(self) -> str | None:
        if not self._knows_machine:
            with translated_refusals():
                self._machine = await self._engine.id()
            self._knows_machine = True
        return self._machine

    def open(self, config: SandboxConfig) -> DockerSandbox:
        session = self._sessions.get(config.session_id)
        if session is None or session.deleted:  # the id of a deleted session may be used for a new one
            name = container_name(config.session_id)
            session = SessionState(self._engine, name, config.limits.disk_mb * 2**20, self._gateway, self._room)
            self._sessions[config.session_id] = session
        return DockerSandbox(self._engine, config, self._instance_id, session)

    async def remove_orphans(self, live_sessions: set[str], at_work: Collection[str] = ()) -> list[str]:
        with translated_refusals():
            containers, volumes = await self._labelled()
            removed = []
            for container in containers:
                name, session_id = container["Names"][0].strip("/"), container["Labels"].get(SESSION_LABEL)
                if session_id not in live_sessions:
                    await self._engine.remove(name)
                    removed.append(f"container {name}")
                elif container["State"] == "running" and await self._end_commands(name, session_id in at_work):
                    removed.append(f"commands in {name}")
            for volume in volumes:
                if volume["Labels"].get(SESSION_LABEL) not in live_sessions:
                    await self._engine.remove_volume(volume["Name"])
                    removed.append(f"volume {volume['Name']}")
        return removed

    async def _end_commands(self, name: str, was_at_work: bool) -> bool:
        """Ends what an earlier server has left in a container; whether there was anything."""
        return await end_left(self._engine, name) or (was_at_work and await end_orphans(self._engine, name))

    async def present(self) -> Sequence[Present]:
        return grouped(self._engine, *await self._labelled())

    async def running(self) -> set[str]:
        containers, _ = await self._labelled()
        return {c["Labels"].get(SESSION_LABEL, "") for c in containers if c["State"] == "running"}

    async def _labelled(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """This server's containers and volumes, as the Engine lists them."""
        with translated_refusals():
            return await self._engine.labelled(f"{INSTANCE_LABEL}={self._instance_id}")

    async def aclose(self) -> None:
        for session in list(self._sessions.values()):
            await session.egress.close()
        self._gateway.close()
        await self._engine.aclose()
