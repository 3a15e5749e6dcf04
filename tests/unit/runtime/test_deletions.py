"""Deletions of one session at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from app.errors import NotFoundError
from app.runtime.incoming import IncomingArchives
from app.runtime.registry import Registry
from app.runtime.run_starts import RunStarts
from app.runtime.services.sessions import SessionService
from app.sandbox.base import SandboxConfig
from app.sandbox.host.local import LocalFactory, LocalSandbox
from app.sessions import SandboxSpec
from tests.unit.runtime.stage import Stage, make_sandboxes, make_setup
from tests.unit.runtime.test_lifecycle import RULES


class SlowFactory(LocalFactory):
    """Its sandboxes take a while to be removed."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self.removals = 0
        self.removing, self.go = asyncio.Event(), asyncio.Event()

    def open(self, config: SandboxConfig) -> LocalSandbox:
        box = super().open(config)

        async def slowly() -> None:
            self.removals += 1
            self.removing.set()
            await self.go.wait()
            await LocalSandbox.remove(box)

        box.remove = slowly  # type: ignore[method-assign]
        return box


class NoOutputs:
    async def copy(self, keys: Mapping[str, str]) -> None: ...

    async def delete_session(self, session_id: str) -> None: ...


async def test_two_deletions_at_once_remove_one_sandbox_once(stage: Stage, tmp_path: Path) -> None:
    await stage.change(sandbox=SandboxSpec(kind="local-unsafe").model_dump())
    boxes = SlowFactory(tmp_path)
    setup = make_setup(stage, make_sandboxes(boxes))
    registry = Registry(setup)
    service = SessionService(setup, registry, RULES, NoOutputs(), RunStarts(registry, None), IncomingArchives(1000))
    async with asyncio.timeout(60):
        first = asyncio.create_task(service.delete(stage.session_id))
        await boxes.removing.wait()
        second = asyncio.create_task(service.delete(stage.session_id))
        # Before it removes a sandbox, a deletion reads once and writes once.
        for _ in range(5):
            await service.get(stage.session_id)
            await stage.write(lambda _: None)
        boxes.go.set()
        await first
        with pytest.raises(NotFoundError):
            await second
    assert boxes.removals == 1
