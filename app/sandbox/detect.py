"""Finds the kind of sandbox that this machine can make."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal, get_args

from app.errors import SandboxUnavailableError
from app.sandbox.base import SandboxFactory
from app.sandbox.bubblewrap import BubblewrapFactory
from app.sandbox.docker import DockerFactory
from app.sandbox.local import LocalFactory

SandboxKind = Literal["docker", "bubblewrap", "local-unsafe"]


async def open_factory(
    kind: SandboxKind | Literal["auto"],
    *,
    data_dir: Path,
    instance_id: str,
    docker_host: str | None = None,
    image: str | None = None,
    host_network: bool = True,
) -> SandboxFactory:
    """Opens the factory of a kind and checks it by making a sandbox; `auto` is Docker if an Engine answers, else
    bubblewrap.

    `data_dir` holds the workspaces of sandboxes on this host. `instance_id` marks containers as this server's.
    `docker_host` is the Engine's address; None reads DOCKER_HOST. `image` must be present or available from its
    registry. `host_network` False refuses commands a network that is the host's own. Raises `SandboxUnavailableError`,
    saying how to fix it; commands never run unsandboxed unless `local-unsafe` was requested.
    """
    kinds: tuple[SandboxKind, ...] = ("docker", "bubblewrap") if kind == "auto" else (kind,)
    failures: list[SandboxUnavailableError] = []
    for candidate in kinds:
        # Looking for programs on the disk blocks.
        factory = await asyncio.to_thread(_make, candidate, data_dir, instance_id, docker_host, image, host_network)
        try:
            await factory.check()
        except SandboxUnavailableError as exc:
            failures.append(exc)
            await factory.aclose()
        else:
            return factory
    if kind != "auto":
        raise failures[0]
    raise SandboxUnavailableError(_advice([failure.detail for failure in failures]))


def _make(
    kind: SandboxKind, data_dir: Path, instance_id: str, docker_host: str | None, image: str | None, host_network: bool
) -> SandboxFactory:
    if kind == "docker":
        return DockerFactory(instance_id, docker_host, image)
    if kind == "bubblewrap":
        return BubblewrapFactory(data_dir, host_network=host_network)
    if kind == "local-unsafe":
        return LocalFactory(data_dir)
    raise SandboxUnavailableError(f"There is no sandbox {kind!r}; known are {', '.join(get_args(SandboxKind))}.")


def _advice(failures: list[str]) -> str:
    tried = " ".join(failures)
    return (
        f"No sandbox can be made here. {tried} Start a Docker Engine or install bubblewrap; on a machine that is itself"
        " a sandbox, PALIMPSEST_SANDBOX=local-unsafe runs commands without one."
    )
