"""The egress proxy of a container: its port is opened with the first command and stays open as long as the container
runs, for background processes too."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.errors import SandboxError
from app.sandbox.egress import Gateway, PortTakenError, Proxy, Refusals, enter
from app.sandbox.engine import Engine


def can_be_entered(host: str) -> bool:
    """Whether this server may enter the networks of the containers of the Engine at this address: as root, or if both
    belong to the same user."""
    prefix, _, path = host.partition("unix://")
    if prefix or not path:
        return False
    try:
        return os.geteuid() in (0, os.stat(path).st_uid)
    except OSError:
        return False


class ContainerEgress:
    """Network access of one session's container."""

    def __init__(self, engine: Engine, container: str, gateway: Gateway) -> None:
        self._engine = engine
        self._container = container
        self._gateway = gateway
        self._lock = asyncio.Lock()
        self._proxy: Proxy | None = None
        self._life = ""
        """The container and start time that the proxy belongs to: a restart makes a new network."""

    @asynccontextmanager
    async def noting(self, hosts: tuple[str, ...]) -> AsyncIterator[Refusals]:
        """Lets the running container reach these hosts, if any; yields the refusals meanwhile."""
        if not hosts:
            yield Refusals()
            return
        proxy = await self._open(hosts)
        with proxy.noting() as refusals:
            yield refusals

    async def close(self) -> None:
        async with self._lock:
            await self._close()

    async def _close(self) -> None:
        proxy, self._proxy, self._life = self._proxy, None, ""
        if proxy is not None:
            await proxy.close()

    async def _open(self, hosts: tuple[str, ...]) -> Proxy:
        async with self._lock:
            shown = await self._engine.find(self._container)
            if shown is None or not shown["State"]["Running"]:
                raise SandboxError("The sandbox's container ended before the command began.")
            life = f"{shown['Id']} {shown['State']['StartedAt']}"
            if self._proxy is None or life != self._life:
                await self._close()
                listener = await self._enter(shown["State"]["Pid"], shown["Id"])
                proxy = Proxy(self._gateway, self._container, hosts)
                proxy.serve(listener)
                self._proxy, self._life = proxy, life
            return self._proxy

    async def _enter(self, pid: int, container_id: str) -> socket.socket:
        try:
            # Its files are mounted from a directory with its id, so this is not a process on this machine that
            # happens to have the number of one on another machine.
            return await enter(pid, f"/{container_id}/")
        except PortTakenError as exc:
            await self._engine.kill(self._container)
            raise SandboxError(
                "A process in the sandbox had taken the port of the network's proxy. All that ran in it was ended; the"
                " command can be run again."
            ) from exc
