"""An unwritable log stops no work: the reader is gone, the reader stalls, or the disk is full."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from app.logs import LogOutput
from tests.behavior.attack import watched
from tests.behavior.checks import assert_sound
from tests.behavior.combinations import first_of
from tests.behavior.harness import Client, command
from tests.behavior.process import ServerProcess
from tests.provider import FakeProvider, Reply, Text
from tests.requirements import need


@contextmanager
def abandoned() -> Iterator[int]:
    """A pipe whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@contextmanager
def unread() -> Iterator[int]:
    """A small pipe that stays full."""
    reader, writer = os.pipe()
    size = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writer, b"x" * size)
    yield writer
    os.close(reader)
    os.close(writer)


@contextmanager
def full() -> Iterator[int]:
    """A device without free space."""
    device = os.open("/dev/full", os.O_WRONLY)
    yield device
    os.close(device)


async def lost(client: Client) -> float:
    lines = (await client.http.get("/metrics")).text.splitlines()
    (line,) = [line for line in lines if line.startswith("palimpsest_log_lines_lost_total ")]
    return float(line.split()[1])


@pytest.fixture
def bubblewrap() -> str:
    need("bubblewrap")
    return "bubblewrap"


@pytest.mark.bubblewrap
@first_of(broken=[abandoned, unread, full])
async def test_work_continues_without_a_log(
    tmp_path: Path, provider: FakeProvider, bubblewrap: str, broken: Callable[[], AbstractContextManager[int]]
) -> None:
    steps = [Reply(command(f"echo {number}")) for number in range(20)]
    provider.script(*steps, Reply(Text("done")))
    with broken() as stderr, ServerProcess(tmp_path / "data", provider, bubblewrap, "", stderr=stderr) as server:
        async with Client(server.url) as client:
            with watched(server, broken.__name__):
                session, _ = await client.run("task")
            assert (session["outcome"], session["steps"]) == ("completed", 21)
            await assert_sound(client, session["id"])
            assert (await client.http.get("/readyz")).status_code == 200
            if broken is not unread:
                assert await lost(client) > 0


@pytest.fixture
def made() -> Iterator[Callable[[int], LogOutput]]:
    outputs: list[LogOutput] = []

    def make(descriptor: int, most: int = 1_000) -> LogOutput:
        outputs.append(LogOutput(os.fdopen(descriptor, "w", closefd=False), most))
        return outputs[-1]

    yield make
    for output in outputs:
        output.close(0)


def test_a_line_beyond_the_buffer_is_lost(made: Callable[[int], LogOutput]) -> None:
    with unread() as stderr:
        output = made(stderr)
        for _ in range(30):
            output.write("x" * 100)
        assert output.lost == 20


def test_lines_are_written_in_order(made: Callable[[int], LogOutput], tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        output = made(file.fileno())
        for number in range(50):
            output.write(f"line {number}\n")
            assert number % 10 or output.drain(10)
        assert output.drain(10)
    assert (tmp_path / "log").read_text() == "".join(f"line {number}\n" for number in range(50))
    assert output.lost == 0


async def test_the_process_waits_for_its_last_lines(tmp_path: Path, provider: FakeProvider) -> None:
    """A reader that has fallen behind still gets the end of the log."""
    reader, writer = os.pipe()
    os.write(writer, b"x" * fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096))
    with ServerProcess(tmp_path / "data", provider, "local-unsafe", "", stderr=writer) as server:
        os.close(writer)
        ending = asyncio.create_task(asyncio.to_thread(server.end, signal.SIGTERM))
        # Logged when the database closes, which is last.
        while (tmp_path / "data/palimpsest.db-wal").exists():  # noqa: ASYNC110 - nothing else tells
            await asyncio.sleep(0)
        with os.fdopen(reader, "rb") as log:
            lines = (await asyncio.to_thread(log.read)).splitlines()
        await ending
    assert b'"stopped"' in lines[-1]
