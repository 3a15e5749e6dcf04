"""Readiness: concurrent requests share checks, nobody waits long, and recoveries are noticed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.errors import PalimpsestError, SandboxUnavailableError, StorageBusyError, StorageError, StorageFullError
from app.runtime.telemetry import health
from app.runtime.telemetry.health import Health, free_bytes
from app.runtime.values.server import Component

WELL = Component(ok=True, status="ok", detail="well")


class Part:
    """A component that can be made to fail or not to answer."""

    def __init__(self) -> None:
        self.looks = 0
        self.error: Exception | None = None
        self.go = asyncio.Event()
        self.go.set()

    async def look(self) -> Component:
        self.looks += 1
        await self.go.wait()
        if self.error is not None:
            raise self.error
        return WELL


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "TIMEOUT_S", 0.01)
    monkeypatch.setattr(health, "FRESH_S", 0.0)


async def test_concurrent_requests_share_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "FRESH_S", 60.0)
    part = Part()
    parts = Health({"disk": part.look})
    found = [*await asyncio.gather(*(parts.readiness() for _ in range(50))), await parts.readiness()]
    assert part.looks == 1
    assert all(readiness.ready for readiness in found)


@pytest.mark.parametrize(("name", "status"), [("database", "locked"), ("sandbox", "unavailable")])
async def test_a_silent_component_does_not_block_and_its_recovery_is_noticed(name: str, status: str) -> None:
    part = Part()
    part.go.clear()
    parts = Health({name: part.look})
    for _ in range(3):
        readiness = await parts.readiness()
        assert (readiness.ready, readiness.components[name].status) == (False, status)
    assert part.looks == 1, "no second check is started during the first"
    part.go.set()
    while not (await parts.readiness()).ready:
        pass
    part.go.clear()
    assert not (await parts.readiness()).ready
    await parts.aclose()
    assert not any(task.get_name().startswith("check-") for task in asyncio.all_tasks())


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (StorageBusyError("Held."), "locked"),
        (StorageFullError("Full."), "full"),
        (StorageError("Broken."), "unavailable"),
        (SandboxUnavailableError("Away."), "unavailable"),
    ],
)
async def test_the_error_determines_the_status(error: PalimpsestError, status: str) -> None:
    part = Part()
    part.error = error
    readiness = await Health({"database": part.look}).readiness()
    component = readiness.components["database"]
    assert (component.ok, component.status, component.detail) == (False, status, str(error))


async def test_a_crashed_check_is_reported_as_a_status() -> None:
    part = Part()
    parts = Health({"sandbox": part.look})
    assert (await parts.readiness()).ready
    part.error = RuntimeError("a secret of the machine")
    component = (await parts.readiness()).components["sandbox"]
    assert (component.ok, component.status) == (False, "unavailable")
    assert "secret" not in component.detail


@pytest.mark.parametrize("name", ["database", "disk", "sandbox", "provider"])
async def test_a_provider_alone_does_not_make_the_server_unready(name: str) -> None:
    parts = {each: Part() for each in ("database", "disk", "sandbox", "provider")}
    parts[name].error = StorageError("Broken.")
    readiness = await Health({each: part.look for each, part in parts.items()}).readiness()
    assert readiness.degraded
    assert readiness.ready == (name == "provider")
    assert [each for each, component in readiness.components.items() if not component.ok] == [name]


def test_free_space_is_that_of_the_fullest_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full, roomy = tmp_path / "full", tmp_path / "roomy"
    full.mkdir()
    roomy.mkdir()
    blocks = {full: 3, roomy: 7}
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=blocks[path], f_frsize=4096))
    assert free_bytes([roomy, full, tmp_path / "absent"]) == 3 * 4096
    assert free_bytes([roomy]) == 7 * 4096
    assert free_bytes([tmp_path / "absent"]) == 0
