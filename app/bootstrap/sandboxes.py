"""The sandboxes of the settings: the kinds that are allowed, those that this machine can make and why not the others,
and one that answers only after the server's start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import structlog

from app.db.engine import Database
from app.db.repositories import sessions
from app.errors import PalimpsestError, SandboxAwayError, SandboxUnavailableError
from app.runtime.background import in_background
from app.runtime.sandboxes.policy import SandboxPolicy
from app.runtime.sandboxes.pool import Sandboxes
from app.sandbox.base import SandboxFactory, SandboxLimits
from app.sandbox.docker.factory import DockerFactory
from app.sandbox.host.bubblewrap import BubblewrapFactory
from app.sandbox.host.local import LocalFactory
from app.sessions import SandboxKind
from app.settings import Settings

LOOK_AGAIN_S = 2.0
"""Seconds between checks."""
log = structlog.get_logger(__name__)
Find = Callable[[], Awaitable[Mapping[str, SandboxFactory]]]


def exposes_server(kind: str, settings: Settings) -> bool:
    """Whether commands in this kind of sandbox could reach this server while it requires no key."""
    return kind == "bubblewrap" and settings.sandbox_network == "on" and not settings.api_keys


def sandbox_kinds(settings: Settings) -> tuple[SandboxKind, ...]:
    """The allowed kinds of sandbox, the preferred one first."""
    return ("docker", "bubblewrap") if settings.sandbox == "auto" else (settings.sandbox,)


async def open_factories(
    settings: Settings, instance_id: str
) -> tuple[dict[str, SandboxFactory], dict[str, SandboxUnavailableError]]:
    """The allowed kinds of sandbox that are available on this machine; and those that are unavailable or unsafe, each
    with the reason."""
    factories: dict[str, SandboxFactory] = {}
    left_out: dict[str, SandboxUnavailableError] = {}
    for kind in sandbox_kinds(settings):
        if exposes_server(kind, settings):
            left_out[kind] = SandboxUnavailableError("It shares the host's network, and the server requires no key.")
            continue
        try:
            factories[kind] = await open_factory(
                kind,
                data_dir=settings.data_dir,
                instance_id=instance_id,
                docker_host=settings.docker_host,
                image=settings.sandbox_image,
                host_network=bool(settings.api_keys),
            )
        except SandboxUnavailableError as error:
            left_out[kind] = error
    return factories, left_out


async def build_sandboxes(settings: Settings, instance_id: str) -> tuple[Sandboxes, dict[str, str]]:
    """The sandboxes of this server, and the unavailable kinds with the reasons. A server without sandboxes still
    starts: sessions can be read, `readyz` reports what is missing, and an Engine that answers later is added then."""
    factories, left_out = await open_factories(settings, instance_id)
    set_to = settings.sandbox_network
    network = set_to == "on" if isinstance(set_to, str) else set_to
    limits = SandboxLimits(
        settings.sandbox_memory_mb, settings.sandbox_cpus, settings.sandbox_pids, settings.sandbox_disk_mb
    )
    policy = SandboxPolicy(
        settings.sandbox_image,
        network,
        limits,
        settings.sandbox_idle_s,
        settings.sandbox_wait_s,
        settings.max_sandboxes,
    )
    away = () if factories else [kind for kind, why in left_out.items() if isinstance(why, SandboxAwayError)]
    sandboxes = Sandboxes(factories, policy, expected=away)
    return sandboxes, {kind: why.detail for kind, why in left_out.items()}


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


@asynccontextmanager
async def looking_for_sandboxes(sandboxes: Sandboxes, find: Find, database: Database) -> AsyncIterator[None]:
    """While entered, checks with `find` until the expected kinds are available."""
    if not sandboxes.kinds.expected:
        yield
        return
    async with in_background(_search(sandboxes, find, database), "looking-for-sandboxes"):
        yield


async def _search(sandboxes: Sandboxes, find: Find, database: Database) -> None:
    while sandboxes.kinds.expected:
        await asyncio.sleep(LOOK_AGAIN_S)
        try:
            found = await find()
        except Exception:
            # Any error: retry, since without a sandbox the server would never become ready.
            log.exception("sandbox_search_crashed")
            continue
        for factory in found.values():
            try:
                await _add(sandboxes, factory, database)
            except PalimpsestError as error:
                log.warning("sandbox_add_failed", reason=error.detail)
                await factory.aclose()


async def _add(sandboxes: Sandboxes, factory: SandboxFactory, database: Database) -> None:
    """Adds a kind of sandbox after removing leftovers of deleted sessions; later sandboxes belong to sessions that are
    not in the list read here."""
    if sandboxes.unused_elsewhere is not None:
        # Other servers use its sandboxes.
        sandboxes.kinds.add(factory)
        log.info("sandbox_found", sandbox=factory.describe())
        return
    known = await database.read(lambda c: set(sessions.ids(c)))
    removed = await factory.remove_orphans(known)
    left = await database.read(partial(sessions.sandboxes, session_ids=await factory.running()))
    sandboxes.kinds.add(factory)
    sandboxes.adopt(left)
    log.info("sandbox_found", sandbox=factory.describe(), orphans_removed=removed)
