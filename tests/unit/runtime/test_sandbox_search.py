"""A sandbox engine that did not answer at the start is checked until it does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from app.bootstrap.sandboxes import looking_for_sandboxes
from app.sandbox.base import SandboxFactory
from tests.unit.runtime.stage import Stage, make_sandboxes
from tests.unit.runtime.test_sandboxes import Boxes


async def test_a_failed_check_is_retried(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.bootstrap.sandboxes.LOOK_AGAIN_S", 0.0)
    looks = 0

    async def find() -> Mapping[str, SandboxFactory]:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise RuntimeError("A bug.")
        return {"docker": Boxes()} if looks == 3 else {}

    sandboxes = make_sandboxes(expected=["docker"])
    async with asyncio.timeout(60), looking_for_sandboxes(sandboxes, find, stage.database):
        await sandboxes.kinds.wait_for("docker")
    assert (looks, sandboxes.kinds.names) == (3, ("docker",))
