"""Real outages of what the server depends on: a full disk, a locked database, an Engine and a provider that do not
answer. `readyz` reports them, errors have their own codes, nothing accepted is lost, work resumes by itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.messages import new_id
from tests.behavior.checks import assert_sound, following
from tests.behavior.conftest import StartServer
from tests.behavior.engine_proxy import EngineProxy
from tests.behavior.harness import Client, RunningServer, command, of_type
from tests.behavior.test_bad_input import assert_refused
from tests.behavior.test_cancel_resume import cancel
from tests.databases import locked, make_database
from tests.provider import FakeProvider, Gate, HttpError, Reply, Text
from tests.requirements import need
from tests.soak.disk import Disk
from tests.unit.sandbox.shell import unique_seconds, until_gone

CANCELLED_S = 8.0
"""Seconds for a cancel on a busy machine; the contract says two, and a stalled Engine once made it 16."""
TRUTH_S = 5.0
"""Seconds within which `readyz` reports a change."""


async def told(client: Client, name: str, *statuses: str, ready: bool | None = None) -> dict[str, Any]:
    """The response of `readyz` once it reports one of these statuses for a part and, if `ready` is given, this overall
    readiness: another part may recover a moment later."""

    def said() -> bool:
        status = found.get("components", {}).get(name, {}).get("status")
        return status in statuses and ready in (None, found["ready"])

    found: dict[str, Any] = {}
    try:
        async with asyncio.timeout(TRUTH_S):
            while not said():
                found = (await client.http.get("/readyz")).json()
    except TimeoutError:
        raise AssertionError(f"{name} is not said to be {statuses}, ready {ready}: {found}") from None
    assert found["components"][name]["ok"] == (found["components"][name]["status"] == "ok")
    return found


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """The data directory on a separate disk."""
    disk = Disk(tmp_path / "data")
    if not disk.is_small:
        pytest.skip("a small disk cannot be mounted here")
    make_database(disk.path / "palimpsest.db")
    yield disk
    disk.remove()


@pytest.mark.bubblewrap
@pytest.mark.sqlite
async def test_a_full_disk(disk: Disk, start_server: StartServer, provider: FakeProvider) -> None:
    server = start_server()
    async with Client(server.url) as client:
        provider.script(Reply(Gate("full"), Text("".join(f"{n:04} " for n in range(2_000)))), per_conversation=False)
        session_id = (await client.create("begin"))["id"]
        await provider.reached("full")
        disk.fill()
        assert (await told(client, "disk", "full"))["ready"] is False
        assert_refused(await client.http.get("/readyz"), 503, "not_ready")

        upload = f"/v1/sessions/{session_id}/files/big.bin"
        refused = await client.http.put(upload, content=b"x" * 300_000)
        assert_refused(refused, 507, "workspace_full")
        accepted = await fill_queue(client, session_id)
        provider.open("full")
        await provider.answered(1)
        assert (await client.session(session_id))["status"] == "running"

        disk.free()
        await told(client, "disk", "ok", ready=True)
        assert (await client.http.put(upload, content=b"x" * 300_000)).status_code == 201
        events = await client.until_idle(session_id)
        assert (await client.session(session_id))["outcome"] == "completed"
        delivered = [event.data["message_id"] for event in of_type(events, "message.dequeued")][1:]
        assert delivered == accepted
        await assert_sound(client, session_id)


async def fill_queue(client: Client, session_id: str) -> list[str]:
    """Posts messages until one is refused; the ids of those that were accepted."""
    accepted: list[str] = []
    while True:
        message = {"content": "m" * 300_000, "id": new_id()}
        answer = await client.http.post(f"/v1/sessions/{session_id}/queue", json=message)
        if answer.status_code != 202:
            assert_refused(answer, 507, "storage_full")
            assert int(answer.headers["retry-after"]) >= 1
            return accepted
        accepted.append(str(message["id"]))


@pytest.mark.extended
async def test_a_locked_database(client: Client, server: RunningServer, provider: FakeProvider) -> None:
    """Another process locks it longer than the server waits. Accepted messages stay, the run continues afterward."""
    provider.script(Reply(Gate("one"), Text("One.")), Reply(Text("Two.")))
    session = await client.create("begin")
    await provider.reached("one")
    queue = f"/v1/sessions/{session['id']}/queue"
    message = {"content": "and then", "id": new_id()}
    with locked(server.settings.data_dir / "palimpsest.db"):
        assert (await told(client, "database", "locked"))["ready"] is False
        refused = await client.http.post(queue, json=message)
        assert_refused(refused, 503, "storage_busy")
        assert int(refused.headers["retry-after"]) >= 1
        assert (await client.get(queue))["items"] == []
        assert (await client.session(session["id"]))["status"] == "running"
        provider.open("one")
        await told(client, "database", "locked")
    assert (await client.http.post(queue, json=message)).status_code == 202
    await told(client, "database", "ok", ready=True)
    events = await client.until_idle(session["id"])
    assert (await client.session(session["id"]))["outcome"] == "completed"
    assert [event.data["message_id"] for event in of_type(events, "message.dequeued")][1:] == [message["id"]]


@pytest.mark.sqlite
async def test_a_database_whose_file_is_gone(client: Client, server: RunningServer) -> None:
    """SQLite keeps writing to the deleted file."""
    path = server.settings.data_dir / "palimpsest.db"
    await told(client, "database", "ok")
    away = path.rename(path.with_name("away.db"))
    found = await told(client, "database", "unavailable")
    assert (found["ready"], str(path) in found["components"]["database"]["detail"]) == (False, True)
    make_database(path)
    await told(client, "database", "unavailable")
    away.replace(path)
    await told(client, "database", "ok", ready=True)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineProxy]:
    need("docker")
    with EngineProxy(tmp_path / "engine.sock") as engine:
        yield engine


COMMAND = command("echo it ran")


@pytest.mark.docker
async def test_an_engine_that_goes_away(engine: EngineProxy, start_server: StartServer, provider: FakeProvider) -> None:
    """A call waits for it, and runs when it is back."""
    engine.repair()
    provider.script(Reply(COMMAND), Reply(Gate("cut"), COMMAND), Reply(Text("Done.")))
    async with Client(start_server(sandbox="docker", docker_host=engine.host).url) as client:
        await told(client, "sandbox", "ok")
        session_id = (await client.create("begin"))["id"]
        await provider.reached("cut")
        engine.cut()
        assert (await told(client, "sandbox", "unavailable"))["ready"] is False
        assert_refused(await client.http.get(f"/v1/sessions/{session_id}/files"), 503, "sandbox_unavailable")
        provider.open("cut")
        await client.wait_for(session_id, lambda event: event.type == "tool.call" and event.data["index"] == 0)
        await told(client, "sandbox", "unavailable")
        assert (await client.session(session_id))["status"] == "running"
        engine.repair()
        events = await client.until_idle(session_id)
        await told(client, "sandbox", "ok", ready=True)
        results = [event.data for event in of_type(events, "tool.result")]
        assert [(result["status"], result["output"].strip()) for result in results] == [("completed", "it ran")] * 2
        assert (await client.session(session_id))["outcome"] == "completed"


@pytest.mark.extended
@pytest.mark.docker
async def test_an_engine_that_says_nothing(
    engine: EngineProxy, start_server: StartServer, provider: FakeProvider
) -> None:
    engine.repair()
    async with Client(start_server(sandbox="docker", docker_host=engine.host).url) as client:
        await told(client, "sandbox", "ok")
        engine.mute()
        await told(client, "sandbox", "unavailable")
        engine.repair()
        await told(client, "sandbox", "ok")


@pytest.mark.docker
@pytest.mark.parametrize("when", ["while it runs", "before it runs"])
async def test_a_stalled_engine_does_not_delay_a_cancel(
    engine: EngineProxy, start_server: StartServer, provider: FakeProvider, when: str
) -> None:
    """The command is dead anyway, on this host, and the next one runs as soon as the Engine answers. Before it runs,
    the call waits for the Engine to describe the container, but the cancel does not."""
    engine.repair()
    seconds = unique_seconds()
    sleep = command(f"echo begun; sleep {seconds}")
    provider.script(Reply(COMMAND), Reply(Gate("go"), sleep), Reply(COMMAND), Reply(Text("Done.")))
    async with Client(start_server(sandbox="docker", docker_host=engine.host).url) as client:
        await told(client, "sandbox", "ok")
        session_id = (await client.create("begin"))["id"]
        async with following(client, session_id) as follower:
            await provider.reached("go")
            if when == "before it runs":
                engine.stall()
                provider.open("go")
                await follower.seen(lambda event: event.type == "tool.call" and "begun" in str(event.data))
            else:
                provider.open("go")
                await follower.seen(lambda event: event.type == "tool.output" and "begun" in str(event.data))
                engine.stall()
            begun = time.monotonic()
            await cancel(client, session_id)
            await follower.type("session.idle")
            assert time.monotonic() - begun < CANCELLED_S
        await until_gone(seconds)
        engine.repair()
        await client.resume(session_id)
        events = await client.until_idle(session_id)
        assert (await client.session(session_id))["outcome"] == "completed"
        assert of_type(events, "tool.result")[-1].data["output"].strip() == "it ran"


@pytest.mark.extended
@pytest.mark.docker
async def test_an_engine_that_starts_after_the_server(
    engine: EngineProxy, start_server: StartServer, provider: FakeProvider
) -> None:
    provider.script(Reply(COMMAND), Reply(Text("Done.")))
    async with Client(start_server(sandbox="docker", docker_host=engine.host).url) as client:
        await told(client, "sandbox", "unavailable")
        assert_refused(await client.http.post("/v1/sessions", json={"task": "x"}), 503, "sandbox_unavailable")
        engine.repair()
        await told(client, "sandbox", "ok")
        session, events = await client.run("now")
        assert session["outcome"] == "completed"
        assert [event.data["status"] for event in of_type(events, "tool.result")] == ["completed"]


@pytest.mark.slow
async def test_a_provider_that_is_down_for_a_while(start_server: StartServer) -> None:
    """Its run retries and continues when it is back; the server stays ready for all others."""
    with FakeProvider() as up:
        url = up.openai_url
        providers = {"down": {"kind": "openai", "base_url": url}}
        more = {"model": "down/model", "providers": providers, "models": {"down/model": {"context_window": 128_000}}}
        server = await asyncio.to_thread(lambda: start_server(**more))
        async with Client(server.url) as client:
            assert (await told(client, "provider", "ok"))["degraded"] is False
            session, _ = await client.run("while it is up", model="down/model")
            assert session["outcome"] == "completed"
    async with Client(server.url) as client:
        found = await told(client, "provider", "unreachable")
        assert (found["ready"], found["degraded"]) == (True, True)
        await client.post(session["id"], "while it is down")
        retrying = await client.wait_for(
            session["id"], lambda event: event.type == "step.retrying" and event.data["attempt"] == 2
        )
        assert retrying.data["code"] == "provider_unreachable"
        assert retrying.data["delay_ms"] > 0
        with FakeProvider(port=int(url.rpartition(":")[2].partition("/")[0])) as back:
            await told(client, "provider", "ok")
            events = await client.until_idle(session["id"])
            assert of_type(events, "session.idle")[-1].data["outcome"] == "completed"
            await assert_sound(client, session["id"])
            assert back.refusals == []


async def test_a_provider_that_answers_with_errors_is_failing(
    start_server: StartServer, provider: FakeProvider
) -> None:
    provider.script(HttpError(529), Reply(Text("better")))
    async with Client(start_server(provider_max_attempts=1).url) as client:
        session, _ = await client.run("begin")
        assert session["error"]["code"] == "provider_overloaded"
        assert (await told(client, "provider", "failing"))["ready"] is True
        await client.run("again")
        await told(client, "provider", "ok")
