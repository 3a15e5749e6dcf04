"""Sandboxes of every kind that this machine has, each with a workspace and an instance of its own."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from app.sandbox.base import SandboxFactory
from app.sandbox.docker.sandbox import DockerFactory
from app.sandbox.host.bubblewrap import BubblewrapFactory
from app.sandbox.host.local import LocalFactory
from tests.requirements import need
from tests.unit.sandbox.shell import Shell, new_config

DOCKER = pytest.param("docker", marks=pytest.mark.docker)
BUBBLEWRAP = pytest.param("bubblewrap", marks=pytest.mark.bubblewrap)


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret in the server's environment, which no command may ever see."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-commands")


@pytest.fixture
def instance_id() -> str:
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """As the server makes it: closed to everyone else, below directories that are closed too."""
    directory = tmp_path / "data"
    directory.mkdir(mode=0o700)
    os.chmod(tmp_path, 0o700)
    return directory


def make_factory(kind: str, data_dir: Path, instance_id: str) -> SandboxFactory:
    if kind == "docker":
        return DockerFactory(instance_id)
    return BubblewrapFactory(data_dir) if kind == "bubblewrap" else LocalFactory(data_dir)


@pytest.fixture(params=[DOCKER, BUBBLEWRAP, "local-unsafe"])
def kind(request: pytest.FixtureRequest) -> str:
    need(request.param)
    return str(request.param)


@pytest.fixture(params=[DOCKER, BUBBLEWRAP])
def walled_kind(request: pytest.FixtureRequest) -> str:
    """The kinds that keep commands from the host."""
    need(request.param)
    return str(request.param)


@pytest.fixture
def docker() -> None:
    need("docker")


@pytest.fixture
def bubblewrap() -> None:
    need("bubblewrap")


@pytest_asyncio.fixture
async def factory(kind: str, data_dir: Path, instance_id: str) -> AsyncIterator[SandboxFactory]:
    made = make_factory(kind, data_dir, instance_id)
    yield made
    await made.remove_orphans(set())
    await made.aclose()


@pytest_asyncio.fixture
async def shell(factory: SandboxFactory) -> AsyncIterator[Shell]:
    """A sandbox of each kind."""
    sandbox = factory.open(new_config())
    yield Shell(sandbox)
    await sandbox.remove()


@pytest_asyncio.fixture
async def walled(walled_kind: str, data_dir: Path, instance_id: str) -> AsyncIterator[Shell]:
    """A sandbox of each kind that keeps commands from the host, without a network."""
    made = make_factory(walled_kind, data_dir, instance_id)
    sandbox = made.open(new_config())
    yield Shell(sandbox)
    await sandbox.remove()
    await made.aclose()
