"""Health checks of the server's components: database, disk, sandbox and providers.

Each check really uses its component: it writes a row, asks for a sandbox, connects to a provider. Concurrent requests
share one check. A component that does not answer in time is reported as unavailable; the check continues, so that a
recovery is noticed at once.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import structlog
from sqlalchemy import Connection

from app.db.engine import Database
from app.db.repositories import sessions
from app.errors import PalimpsestError, StorageBusyError, StorageFullError
from app.llm.reachability import Condition
from app.runtime.sandboxes.pool import Sandboxes
from app.runtime.values.server import Component, ComponentStatus, Readiness

TIMEOUT_S = 2.5
"""Seconds that a check may take before its component is reported as not answering."""
FRESH_S = 1.0
"""Seconds that a result is reused; with the above, a change is reported within five seconds."""
RESERVE_BYTES = 16 * 1024 * 1024
"""Free space below which a disk counts as full: the database's WAL grows to several megabytes between checkpoints."""

NEEDED = ("database", "disk", "sandbox")
"""The components without which the server is not ready. Providers are not among them: a load balancer that removed all
servers because of a provider would make it worse."""

ComponentCheck = Callable[[], Awaitable[Component]]

log = structlog.get_logger(__name__)


class Health:
    """Checks the components on request. `aclose` cancels running checks."""

    def __init__(self, parts: Mapping[str, ComponentCheck]) -> None:
        """`parts` are the checks, by the component's name; they report failures in their result."""
        self._watched = {name: _CachedCheck(name, check) for name, check in parts.items()}

    async def readiness(self) -> Readiness:
        """The status of all components."""
        names = list(self._watched)
        found = await asyncio.gather(*(watched.component() for watched in self._watched.values()))
        components = dict(zip(names, found, strict=True))
        ready = all(components[name].ok for name in NEEDED if name in components)
        return Readiness(ready=ready, degraded=not all(c.ok for c in found), components=components)

    async def aclose(self) -> None:
        for watched in self._watched.values():
            await watched.aclose()


class _CachedCheck:
    """One component, and its newest check."""

    def __init__(self, name: str, check: ComponentCheck) -> None:
        self._name = name
        self._check = check
        self._task: asyncio.Task[Component] | None = None
        self._begun = 0.0
        self._found: Component | None = None
        self._found_at = 0.0

    async def component(self) -> Component:
        now = time.monotonic()
        if self._found is not None and now - self._found_at < FRESH_S:
            return self._found
        if self._task is None:
            self._begun = now
            self._task = asyncio.create_task(self._check_now(), name=f"check-{self._name}")
        left = max(0.0, TIMEOUT_S - (now - self._begun))
        done, _ = await asyncio.wait({self._task}, timeout=left)
        if done and self._found is not None:
            return self._found
        waited = time.monotonic() - self._begun
        status: ComponentStatus = "locked" if self._name == "database" else "unavailable"
        return Component(ok=False, status=status, detail=f"No answer for {waited:.1f} seconds.")

    async def _check_now(self) -> Component:
        try:
            self._found = await self._check()
        except PalimpsestError as error:
            self._found = Component(ok=False, status=_status(error), detail=error.detail)
        except Exception:
            log.exception("health_check_failed", part=self._name)
            self._found = Component(ok=False, status="unavailable", detail="The check failed; see the log.")
        finally:
            self._found_at = time.monotonic()
            self._task = None
        return self._found

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})


def _status(error: PalimpsestError) -> ComponentStatus:
    match error:
        case StorageBusyError():
            return "locked"
        case StorageFullError():
            return "full"
    return "unavailable"


def component_checks(
    database: Database,
    fence: Callable[[Connection], None],
    sandboxes: Sandboxes,
    directories: Sequence[Path],
    providers: Callable[[], Awaitable[Sequence[Condition]]],
    workspace_store: ComponentCheck | None = None,
) -> dict[str, ComponentCheck]:
    """The checks of a server. `fence` raises in a write if the server no longer holds its database; `directories`
    contain its data; `providers` returns the conditions of the providers in use. `workspace_store` is the check of that
    store, None without one."""

    def touch(connection: Connection) -> None:
        fence(connection)
        sessions.touch(connection)

    async def database_check() -> Component:
        await asyncio.to_thread(database.check_file)
        await database.read(_read)
        await database.writer.write(touch)
        return _ok("readable and writable")

    async def disk_check() -> Component:
        return await asyncio.to_thread(_disk, directories)

    async def sandbox_check() -> Component:
        await sandboxes.kinds.check()
        return _ok(sandboxes.kinds.describe())

    async def provider_check() -> Component:
        return _providers(await providers())

    found: dict[str, ComponentCheck] = {
        "database": database_check,
        "disk": disk_check,
        "sandbox": sandbox_check,
        "provider": provider_check,
    }
    return found if workspace_store is None else {**found, "workspace_store": workspace_store}


def checked(check: Callable[[], Awaitable[None]], detail: str) -> ComponentCheck:
    """A check that only raises; `detail` describes a component that works."""

    async def component() -> Component:
        await check()
        return _ok(detail)

    return component


def _ok(detail: str) -> Component:
    return Component(ok=True, status="ok", detail=detail)


def _read(connection: Connection) -> None:
    connection.exec_driver_sql("SELECT 1")


def free_bytes(directories: Sequence[Path]) -> float:
    """Free space in bytes of the fullest of the directories' disks. Blocks."""
    found = [os.statvfs(directory) for directory in directories if directory.exists()]
    return min((status.f_bavail * status.f_frsize for status in found), default=0)


def _disk(directories: Sequence[Path]) -> Component:
    try:
        free = free_bytes(directories)
    except OSError as error:
        detail = f"The data directory is not accessible: {error.strerror}."
        return Component(ok=False, status="unavailable", detail=detail)
    full = free < RESERVE_BYTES
    detail = f"{free / (1 << 20):,.0f} MiB free"
    return Component(ok=not full, status="full" if full else "ok", detail=detail)


def _providers(found: Sequence[Condition]) -> Component:
    """One component for all providers: the worst status, with a description of each failing one."""
    ill = [condition for condition in found if condition.state != "ok"]
    if not ill:
        return _ok("; ".join(condition.detail for condition in found) or "no provider in use")
    worst: ComponentStatus = "unreachable" if any(condition.state == "unreachable" for condition in ill) else "failing"
    return Component(ok=False, status=worst, detail="; ".join(condition.detail for condition in ill))
