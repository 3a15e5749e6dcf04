"""What an Engine has of sessions, as another server on the same Engine finds and removes it."""

from __future__ import annotations

import time

import pytest

from app.errors import SandboxError
from app.sandbox.docker.engine import Engine
from app.sandbox.docker.factory import DockerFactory
from tests.unit.sandbox.shell import new_config
from tests.unit.sandbox.test_docker import engine, factory

__all__ = ["engine", "factory"]

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("docker")]


async def test_only_what_was_found_is_removed(factory: DockerFactory, instance_id: str) -> None:
    """A session that comes back between the search and the removal keeps its new container and its files."""
    config = new_config()
    sandbox = factory.open(config)
    await sandbox.write("file", b"x")
    other = DockerFactory(instance_id)
    try:
        assert await other.machine() == await factory.machine()
        [found] = await other.present()
        assert (found.session_id, found.runs) == (config.session_id, True)
        assert abs(time.time() - found.touched) < 60
        await sandbox.stop()
        await sandbox.start()
        with pytest.raises(SandboxError, match="in use"):
            await found.remove()
        assert await sandbox.read("file") == b"x"
        [found] = await other.present()
        await found.stop()
        [found] = await other.present()
        assert not found.runs
        await found.remove()
        assert await other.present() == []
    finally:
        await other.aclose()


async def test_an_engine_without_a_lasting_id_has_none(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await engine.id() == await engine.id() is not None
    answers = iter([{"ID": "one"}, {"ID": "two"}])

    async def info() -> dict[str, str]:
        return next(answers)

    monkeypatch.setattr(engine.docker.system, "info", info)
    assert await engine.id() is None
