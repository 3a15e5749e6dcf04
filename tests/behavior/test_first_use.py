"""The start of a sandbox is not waited for: the model is called before it, and while the model answers, it starts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from app.sandbox.docker.container import container_name
from app.sandbox.docker.engine import Engine
from tests.behavior.harness import Client, RunningServer, command, of_type
from tests.behavior.test_slow_notes import SlowEngine
from tests.provider import FakeProvider, Gate, Reply, Text
from tests.requirements import need

WAIT_S = 20
PLAN_ONLY = ["update_plan"]


async def has_started(kind: str, data_dir: Path, session_id: str) -> bool:
    """Whether a session's container runs, or bubblewrap's directories are there."""
    if kind == "bubblewrap":
        return (data_dir / "scratch" / session_id / "home").is_dir()
    engine = Engine()
    try:
        shown = await engine.find(container_name(session_id))
    finally:
        await engine.aclose()
    return shown is not None and bool(shown["State"]["Running"])


async def until(kind: str, data_dir: Path, session_id: str, *, started: bool) -> None:
    async with asyncio.timeout(WAIT_S):
        while await has_started(kind, data_dir, session_id) != started:  # noqa: ASYNC110
            await asyncio.sleep(0.02)  # nothing reports it


async def test_a_sandbox_starts_before_the_models_first_byte(
    start_server: Callable[..., RunningServer], provider: FakeProvider, sandbox: str
) -> None:
    server = await asyncio.to_thread(start_server)
    place = (sandbox, server.settings.data_dir)
    async with Client(server.url) as client:
        provider.script(Reply(Text("It needs no sandbox.")))
        without, _ = await client.run("Think.", tools=PLAN_ONLY)
        provider.script(Reply(Gate("used"), command("echo hello")), Reply(Text("done")))
        session_id = (await client.create("Say hello."))["id"]
        await provider.reached("used")
        await until(*place, session_id, started=True)
        provider.open("used")
        events = await client.until_idle(session_id)
        assert "hello" in of_type(events, "tool.result")[0].data["output"]
        assert await has_started(*place, session_id), "a used one stays for the next run"
        provider.script(Reply(Gate("unused"), Text("No command is needed.")), Reply(Text("Still not.")))
        unused = (await client.create("Say nothing."))["id"]
        await provider.reached("unused")
        await until(*place, unused, started=True)
        provider.open("unused")
        await client.until_idle(unused)
        await until(*place, unused, started=False)
        await client.say(unused, "Go on.")
        assert not await has_started(*place, unused), "it is started ahead only in the first run"
        assert not await has_started(*place, without["id"])


@pytest.fixture
def local_engine() -> None:
    need("docker")


@pytest.mark.docker
@pytest.mark.usefixtures("local_engine")
async def test_the_first_model_call_waits_for_no_engine(
    start_server: Callable[..., RunningServer], provider: FakeProvider, tmp_path: Path
) -> None:
    engine, socket = SlowEngine(), tmp_path / "engine"
    async with await asyncio.start_unix_server(engine.serve, socket):
        server = await asyncio.to_thread(start_server, sandbox="docker", docker_host=f"unix://{socket}")
        try:
            engine.hold()
            provider.script(Reply(Text("one"), Gate("both"), Text("two")))
            async with Client(server.url) as client:
                session_id = (await client.create("Say two words."))["id"]
                await asyncio.wait_for(engine.reached.wait(), WAIT_S)
                await provider.reached("both")
                provider.open("both")
                events = await client.until_idle(session_id)
                assert of_type(events, "session.idle")[-1].data["outcome"] == "completed"
        finally:
            engine.let_go()
            await asyncio.to_thread(server.stop)
