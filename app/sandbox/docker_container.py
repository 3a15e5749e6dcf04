"""The Engine's configuration of a session's container: its name, labels and restrictions."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from typing import Any

from app.sandbox import egress, paths
from app.sandbox.base import WORKSPACE, SandboxConfig
from app.sandbox.engine import NETWORK

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
