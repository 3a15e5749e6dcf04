"""A sandbox that was deleted stays deleted, whatever was under way in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from app.errors import NotFoundError
from app.sandbox.docker.container import container_name
from app.sandbox.docker.engine import Engine
from app.sandbox.docker.factory import DockerFactory
from tests.unit.sandbox.shell import Shell, new_config

ENGINE = "/var/run/docker.sock"

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("docker")]


class SlowEngine:
    """Passes everything on to the real Engine, but the creation of a container only once `go` is set."""

    def __init__(self) -> None:
        self.asked, self.go, self.created = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_unix_connection(ENGINE)
        answering = asyncio.create_task(self._answer(answers, writer))
        try:
            while data := await reader.read(65536):
                if b"/containers/create" in data:
                    self.asked.set()
                    await self.go.wait()
                requests.write(data)
            if self.asked.is_set():
                await self.created.wait()  # the Engine creates it whether or not the client waits
        finally:
            requests.close()
            await answering
            writer.close()

    async def _answer(self, answers: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await answers.read(65536):
            if b" 201 Created" in data:
                self.created.set()
            writer.write(data)


@pytest_asyncio.fixture
async def slow(tmp_path: Path) -> AsyncIterator[SlowEngine]:
    engine = SlowEngine()
    server = await asyncio.start_unix_server(engine.accept, tmp_path / "engine.sock")
    yield engine
    server.close()


@pytest_asyncio.fixture
async def factory(slow: SlowEngine, tmp_path: Path, instance_id: str) -> AsyncIterator[DockerFactory]:
    made = DockerFactory(instance_id, f"unix://{tmp_path}/engine.sock")
    yield made
    await made.remove_orphans(set())
    await made.aclose()


async def is_left(session_id: str) -> bool:
    engine, name = Engine(f"unix://{ENGINE}"), container_name(session_id)
    try:
        return await engine.find(name) is not None or await engine.has_volume(name)
    finally:
        await engine.aclose()


async def test_what_the_engine_is_still_creating_is_removed_too(factory: DockerFactory, slow: SlowEngine) -> None:
    config = new_config()
    sandbox = factory.open(config)
    starting = asyncio.create_task(sandbox.start())
    await slow.asked.wait()
    starting.cancel()
    await asyncio.wait({starting})
    removing = asyncio.create_task(sandbox.remove())
    slow.go.set()
    await asyncio.gather(removing, slow.created.wait())
    assert not await is_left(config.session_id)


async def test_nothing_creates_a_deleted_sandbox_again(factory: DockerFactory, slow: SlowEngine) -> None:
    slow.go.set()
    config = new_config()
    held = factory.open(config)
    await held.write("file", b"data")
    await factory.open(config).remove()
    uses = (held.start(), Shell(held).run("true"), held.write("file", b""), held.list(), held.read("file"))
    ended = await asyncio.gather(*uses, return_exceptions=True)
    assert [type(error) for error in ended] == [NotFoundError] * len(uses)
    assert not await is_left(config.session_id)


async def test_the_id_of_a_deleted_session_may_be_used_for_a_new_one(factory: DockerFactory, slow: SlowEngine) -> None:
    slow.go.set()
    config = new_config()
    held = factory.open(config)
    await held.remove()
    again = factory.open(config)
    assert (await Shell(again).run("ls -A")).out == ""
    await again.remove()
    assert not await is_left(config.session_id)
