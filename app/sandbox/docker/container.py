"""A session's container: how it is described to the Engine, where it runs as seen from this host, and the port of its
egress proxy."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import re
import signal
import socket
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from app.errors import SandboxError
from app.sandbox import egress, paths
from app.sandbox.base import WORKSPACE, SandboxConfig
from app.sandbox.docker.engine import NETWORK, Engine
from app.sandbox.egress import Gateway, PortTakenError, Proxy, Refusals, enter
from app.sandbox.host.process_tree import can_see_trees, continue_all
from app.sandbox.host.watch import in_thread

USER_ID = 1000
HOME = "/home/agent"
INSTANCE_LABEL = "palimpsest.instance"
SESSION_LABEL = "palimpsest.session"
CONFIG_LABEL = "palimpsest.config"
CPU_SHARES = 512
"""A container's CPU weight under contention (the default is 1,024): a flood of output kept the server's thread waiting
for up to 150 ms with equal weights, and for 57 ms with this one. Idle CPU time is not limited by it."""
# `sleep infinity` does not exist everywhere. The first process is docker-init, not the shell; it reaps orphans.
_WAIT = ["/bin/sh", "-c", "while :; do sleep 3600; done"]

_LAYER = re.compile(r"(?<=,upperdir=)[^, ]+")
"""Where the container's own files are, as its mounts name it."""


def container_name(session_id: str) -> str:
    """The name of a session's container, and of its volume."""
    return f"palimpsest-{paths.check_session_id(session_id)}"


def container_config(config: SandboxConfig, instance_id: str) -> dict[str, Any]:
    """The Engine's description of a session's container."""
    memory = config.limits.memory_mb * 1024 * 1024
    labels = {INSTANCE_LABEL: instance_id, SESSION_LABEL: config.session_id}
    mount = {
        "Type": "volume",
        "Source": container_name(config.session_id),
        "Target": WORKSPACE,
        "VolumeOptions": {"NoCopy": True, "Labels": labels},
    }
    proxy = [f"{name}={value}" for name, value in egress.environment().items()] if config.allowed_hosts else []
    body: dict[str, Any] = {
        "Image": config.image,
        "Entrypoint": _WAIT,
        "Cmd": [],
        "User": f"{USER_ID}:{USER_ID}",
        "WorkingDir": WORKSPACE,
        "Env": [f"HOME={HOME}", "LANG=C.UTF-8", "TERM=dumb", "USER=agent", *proxy],
        "Hostname": "sandbox",
        "StopSignal": "SIGKILL",
        "HostConfig": {
            "Init": True,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "Memory": memory,
            "MemorySwap": memory,
            "CpuShares": CPU_SHARES,
            "NanoCpus": round(config.limits.cpus * 1e9),
            "PidsLimit": config.limits.pids,
            "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}],
            "NetworkMode": NETWORK if config.network else "none",
            "Mounts": [mount],
            "Tmpfs": {"/tmp": f"rw,exec,nosuid,nodev,mode=1777,size={memory // 2}"},  # noqa: S108 - inside
            "LogConfig": {"Type": "none"},
        },
    }
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return {**body, "Labels": {**labels, CONFIG_LABEL: digest}}


def own_directories() -> bytes:
    """An archive that makes the user the owner of the workspace and the home directory."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as file:
        for path in (WORKSPACE, HOME):
            entry = tarfile.TarInfo(path.strip("/"))
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            entry.uid = entry.gid = USER_ID
            file.addfile(entry)
    return archive.getvalue()


@dataclass(frozen=True)
class Here:
    """A running container on this host."""

    container_id: str
    first: int
    """The first process; when it ends, all others end."""
    tree: int
    """The process above it, from which all processes of the container descend."""
    roots: tuple[Path, ...]
    """Its workspace, and its writable layer."""
    mounts: tuple[Path, ...]
    """Other mounts through which it sees the disks of `roots`."""

    def runs(self) -> bool:
        """Blocks."""
        with suppress(OSError):
            return self.container_id in Path(f"/proc/{self.first}/cgroup").read_text()
        return False

    def kill(self) -> None:
        """Kills everything in it without the Engine. Blocks."""
        with suppress(ProcessLookupError):
            if self.runs():
                os.kill(self.first, signal.SIGKILL)


class Place:
    """Where one container is, if known."""

    def __init__(self, engine: Engine, container: str) -> None:
        self.container = container
        self.here: Here | None = None
        """None if it is elsewhere, not accessible to this server, or not located yet."""
        self._engine = engine
        self._is_elsewhere = False

    async def locate(self) -> None:
        """Locates a running container. Raises what the methods of `Engine` raise."""
        if self._is_elsewhere or (self.here is not None and await in_thread(self.here.runs)):
            return
        shown = await self._engine.find(self.container)
        if shown is not None and shown["State"]["Running"]:
            self.here = await in_thread(partial(_find_here, shown))
            self._is_elsewhere = self.here is None
            if self.here is not None:
                # A server that was killed may have left processes stopped, the container's first one among them.
                await in_thread(partial(continue_all, self.here.tree))


def _find_here(shown: dict[str, Any]) -> Here | None:
    """A container by its description, if it is on this host and accessible to this server."""
    process = Path(f"/proc/{shown['State']['Pid']}")
    volumes = [mount["Source"] for mount in shown["Mounts"] if mount["Destination"] == WORKSPACE]
    try:
        layers = _LAYER.findall((process / "mountinfo").read_text())
        parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None
    roots = tuple(map(Path, (*volumes, *layers)))
    here = Here(shown["Id"], int(process.name), parent, roots, (process / "root",))
    is_open = len(roots) == 2 and all(os.access(root, os.R_OK | os.X_OK) for root in roots)
    # If the Engine is on another host, that number may belong to an unrelated process here.
    return here if is_open and here.runs() and can_see_trees() else None


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
    async def noting(self, hosts: tuple[str, ...], refusals: Refusals) -> AsyncIterator[None]:
        """Lets the running container reach these hosts, if any; collects the refusals as they happen."""
        if not hosts:
            yield
            return
        proxy = await self._open(hosts)
        with proxy.noting(refusals):
            yield

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
                "A process in the sandbox had taken the port of the network's proxy. Everything in it was ended; the"
                " command can be run again."
            ) from exc
