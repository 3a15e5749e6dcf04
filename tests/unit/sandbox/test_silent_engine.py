"""An Engine that takes connections and says nothing on them, or no more, counts as away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from app.errors import SandboxAwayError
from app.sandbox.docker.engine import Engine
from app.sandbox.docker.files import ContainerArchives
from app.sandbox.docker.scripts import run_script

SILENCE_S = 0.2
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-tar\r\nTransfer-Encoding: chunked\r\n\r\n"
VERSION = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 21\r\n\r\n{"ApiVersion":"1.41"}'


class SilentEngine:
    """Says `answers`, one a request and each on a connection of its own, then nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: list[bytes] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        while await reader.read(65536):
            if self.answers:
                writer.write(self.answers.pop(0))

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


@pytest_asyncio.fixture
async def silent(tmp_path: Path) -> AsyncIterator[SilentEngine]:
    made = SilentEngine(tmp_path / "engine.sock")
    server = await asyncio.start_unix_server(made.accept, made.path)
    yield made
    server.close()
    made.hang_up()


@pytest_asyncio.fixture
async def engine(silent: SilentEngine) -> AsyncIterator[Engine]:
    made = Engine(f"unix://{silent.path}", answer_timeout_s=SILENCE_S)
    yield made
    await made.aclose()


def archives(engine: Engine) -> ContainerArchives:
    return ContainerArchives(engine, "name")


async def fetch(engine: Engine) -> list[bytes]:
    return [piece async for piece in archives(engine).fetch("/workspace")]


async def endless() -> AsyncIterator[bytes]:
    """More than any buffer holds."""
    for _ in range(1000):
        yield b"\0" * 65536


CALLS: dict[str, Callable[[Engine], Awaitable[object]]] = {
    "find": lambda engine: engine.find("name"),
    "create": lambda engine: engine.create({"Image": "image"}, "name"),
    "start": lambda engine: engine.start("name"),
    "kill": lambda engine: engine.kill("name"),
    "remove": lambda engine: engine.remove("name"),
    "put": lambda engine: archives(engine).put("/", b"archive"),
    "put pieces": lambda engine: archives(engine).put("/", endless()),
    "fetch": fetch,
    "status": lambda engine: archives(engine).status("/workspace"),
    "has image": lambda engine: engine.has_image("image"),
    "has volume": lambda engine: engine.has_volume("name"),
    "remove volume": lambda engine: engine.remove_volume("name"),
    "network": lambda engine: engine.ensure_network(),
    "labelled": lambda engine: engine.labelled("label"),
    "script": lambda engine: run_script(engine, "name", "true", ()),
}


@pytest.mark.parametrize("name", CALLS)
async def test_an_engine_that_says_nothing_is_away(engine: Engine, silent: SilentEngine, name: str) -> None:
    async with asyncio.timeout(50 * SILENCE_S):
        with pytest.raises(SandboxAwayError, match="No Docker Engine"):
            await CALLS[name](engine)
        silent.answers.append(VERSION)  # and one that falls silent after its first word
        with pytest.raises(SandboxAwayError, match="No Docker Engine"):
            await CALLS[name](engine)


async def test_an_archive_that_stalls_counts_as_silence(engine: Engine, silent: SilentEngine) -> None:
    silent.answers += [VERSION, HEAD + b"4\r\nhalf\r\n"]
    pieces = archives(engine).fetch("/workspace")
    async with asyncio.timeout(50 * SILENCE_S):
        assert await anext(pieces) == b"half"
        with pytest.raises(SandboxAwayError):
            await anext(pieces)


async def test_an_archive_may_take_longer_than_the_silence_limit(engine: Engine, silent: SilentEngine) -> None:
    """Its pieces come one after the other, each within the time."""
    silent.answers += [VERSION]

    async def slow() -> AsyncIterator[bytes]:
        for number in range(5):
            await asyncio.wait({asyncio.ensure_future(asyncio.Event().wait())}, timeout=SILENCE_S / 2)
            if number == 4:
                silent.answers.append(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            yield b"piece"

    await archives(engine).put("/", slow())
