"""Cancelling a compaction whose workspace does not answer."""

from __future__ import annotations

import asyncio
import os
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.behavior.harness import Client, RunningServer
from tests.behavior.rounds import compact, context, ended, state, worked
from tests.behavior.test_cancel_resume import cancel
from tests.behavior.test_files import address
from tests.provider import FakeProvider
from tests.requirements import need

ENGINE = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")


class SlowEngine:
    """The Engine behind a separate socket. Once held, it answers nothing, and `reached` is set when a request
    arrives."""

    def __init__(self) -> None:
        self._answers, self.reached = asyncio.Event(), asyncio.Event()
        self._answers.set()

    def hold(self) -> None:
        self._answers.clear()

    def let_go(self) -> None:
        self._answers.set()

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        answers, asks = await asyncio.open_unix_connection(ENGINE)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(reader, asks))
                both.create_task(self._pass(answers, writer, held=False))
        except* ConnectionError:
            """One side has disconnected."""
        finally:
            asks.close()
            writer.close()

    async def _pass(self, source: StreamReader, target: StreamWriter, *, held: bool = True) -> None:
        while data := await source.read(65_536):
            if held and not self._answers.is_set():
                self.reached.set()
                await self._answers.wait()
            target.write(data)
            await target.drain()
        target.close()


@pytest.fixture
def local_engine() -> None:
    need("docker")


@pytest.mark.docker
@pytest.mark.usefixtures("local_engine")
@pytest.mark.slow
async def test_a_cancel_does_not_wait_for_a_workspace_that_does_not_answer(
    start_server: Callable[..., RunningServer], provider: FakeProvider, tmp_path: Path
) -> None:
    engine = SlowEngine()
    socket = tmp_path / "engine"
    async with await asyncio.start_unix_server(engine.serve, socket):
        server = await asyncio.to_thread(start_server, sandbox="docker", docker_host=f"unix://{socket}")
        try:
            async with Client(server.url) as client:
                session_id = await worked(client, provider)
                assert (await client.http.put(address(session_id, "AGENTS.md"), content=b"Use tabs.")).is_success
                before = await context(client, session_id)
                engine.hold()
                number = (await compact(client, session_id))["round"]
                await asyncio.wait_for(engine.reached.wait(), 60)
                await cancel(client, session_id)

                assert (await ended(client, session_id, number)).type == "compaction.cancelled"
                assert await state(client, session_id) == (0, False)
                assert await context(client, session_id) == before
        finally:
            engine.let_go()
            await asyncio.to_thread(server.stop)
