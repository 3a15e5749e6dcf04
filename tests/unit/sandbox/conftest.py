"""Sandboxes of every kind that this machine has, each with a workspace and an instance of its own."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio

from app.errors import NotFoundError, SandboxUnavailableError
from app.sandbox.base import Sandbox, SandboxConfig, SandboxFactory
from app.sandbox.docker.factory import DockerFactory
from app.sandbox.host.bubblewrap import BubblewrapFactory
from app.sandbox.host.local import LocalFactory
from tests.requirements import need
from tests.unit.sandbox.shell import Shell, new_config

# What is the same for all kinds is tried with the other two by default; Docker has tests of its own besides.
DOCKER = pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.extended])
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


@pytest_asyncio.fixture
async def factory(kind: str, data_dir: Path, instance_id: str) -> AsyncIterator[SandboxFactory]:
    made = make_factory(kind, data_dir, instance_id)
    yield made
    await made.remove_orphans(set())
    await made.aclose()


class Place(NamedTuple):
    """What a factory finds a container by."""

    instance_id: str
    config: SandboxConfig


@asynccontextmanager
async def new_place() -> AsyncIterator[Place]:
    place = Place(f"test-{uuid.uuid4().hex}", new_config())
    yield place
    factory = DockerFactory(place.instance_id)
    with suppress(SandboxUnavailableError):  # there is no Engine, so nothing was made
        await factory.remove_orphans(set())
    await factory.aclose()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_place() -> AsyncIterator[Place]:
    """One container for tests that leave nothing but files: to make one for each would take most of their time."""
    async with new_place() as place:
        yield place


@pytest.fixture
def place(shared_place: Place) -> Place:
    """Where `shell` and `walled` are; modules whose tests leave processes override it."""
    return shared_place


@asynccontextmanager
async def entered(kind: str, data_dir: Path, place: Place) -> AsyncIterator[Shell]:
    """A sandbox without files and without a network, as a run has it: each command's process is started ahead."""
    factory = make_factory(kind, data_dir, place.instance_id)
    sandbox = factory.open(place.config)
    await sandbox.start()
    sandbox.keep_ready()
    yield Shell(sandbox)
    sandbox.rest()
    await (empty(sandbox) if kind == "docker" else sandbox.remove())
    await factory.aclose()


async def empty(sandbox: Sandbox) -> None:
    """Removes all files, and the sandbox itself if some remain."""
    try:
        left = (await Shell(sandbox).run("rm -rf ..?* .[!.]* ./* /tmp/* ~/*; ls -A . /tmp ~ | grep -v ':$'")).out
    except NotFoundError:  # the test has removed it
        return
    if left.strip():
        await sandbox.remove()


@pytest_asyncio.fixture
async def shell(kind: str, data_dir: Path, place: Place) -> AsyncIterator[Shell]:
    """A sandbox of each kind."""
    async with entered(kind, data_dir, place) as shell:
        yield shell


@pytest_asyncio.fixture
async def walled(walled_kind: str, data_dir: Path, place: Place) -> AsyncIterator[Shell]:
    """A sandbox of each kind that keeps commands from the host."""
    async with entered(walled_kind, data_dir, place) as shell:
        yield shell
