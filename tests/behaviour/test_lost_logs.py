"""A log that cannot be written stops no work: no reader is left, the reader stands still, or the disk is full."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.log_output import LogOutput
from tests.behaviour.checks import assert_sound
from tests.behaviour.harness import Client
from tests.behaviour.process import ServerProcess
from tests.provider import FakeProvider, Reply, Text, ToolCall
from tests.requirements import need


@pytest.fixture
def abandoned() -> Iterator[int]:
    """A pipe whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.fixture
def unread() -> Iterator[int]:
    """A small pipe that is full for ever."""
    reader, writer = os.pipe()
    size = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writer, b"x" * size)
    yield writer
    os.close(reader)
    os.close(writer)


@pytest.fixture
def full() -> Iterator[int]:
    """A device on which no space is left."""
    device = os.open("/dev/full", os.O_WRONLY)
    yield device
    os.close(device)


async def lost(client: Client) -> float:
    lines = (await client.http.get("/metrics")).text.splitlines()
    (line,) = [line for line in lines if line.startswith("palimpsest_log_lines_lost_total ")]
    return float(line.split()[1])


@pytest.mark.bubblewrap
@pytest.mark.parametrize("broken", ["abandoned", "unread", "full"])
async def test_work_goes_on_without_a_log(
    request: pytest.FixtureRequest, tmp_path: Path, provider: FakeProvider, broken: str
) -> None:
    need("bubblewrap")
    stderr: int = request.getfixturevalue(broken)
    provider.script(*[Reply(Text("step"), ToolCall("execute_command", {"command": "ls"}))] * 20, Reply(Text("done")))
    with ServerProcess(tmp_path / "data", provider, "bubblewrap", "", stderr=stderr) as server:
        async with Client(server.url) as client:
            session, _ = await client.run("task")
            assert (session["outcome"], session["steps"]) == ("completed", 21)
            await assert_sound(client, session["id"])
            assert (await client.http.get("/readyz")).status_code == 200
            if broken != "unread":
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


def test_beyond_its_room_a_line_is_lost(made: Callable[[int], LogOutput], unread: int) -> None:
    output = made(unread)
    for _ in range(30):
        output.write("x" * 100)
    assert output.lost == 20


def test_what_is_written_comes_in_order(made: Callable[[int], LogOutput], tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        output = made(file.fileno())
        for number in range(50):
            output.write(f"line {number}\n")
            assert number % 10 or output.drain(10)
        assert output.drain(10)
    assert (tmp_path / "log").read_text() == "".join(f"line {number}\n" for number in range(50))
    assert output.lost == 0
