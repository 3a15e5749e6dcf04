"""A session continues on another machine: with the files that its workspace had in the newest snapshot."""

from __future__ import annotations

import asyncio
import io
import signal
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from app.sandbox.docker.container import container_name
from tests.behavior.checks import assert_sound
from tests.behavior.harness import Client, command, of_type
from tests.behavior.process import ServerProcess
from tests.behavior.test_archives import tarred
from tests.provider import FakeProvider, Gate, Reply, Text, ToolCall
from tests.requirements import need
from tests.s3 import CREDENTIALS, S3Server

Machine = Callable[..., ServerProcess]


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The setting for a store that all machines reach."""
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3_server")
        return server.url(tmp_path.name)
    need("s3")  # its library stores into folders too
    (tmp_path / "share").mkdir()
    return f"file://{tmp_path / 'share'}"


@pytest.fixture
def machine(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    provider: FakeProvider,
    sandbox_image: str,
    store: str,
    postgres_url: str,
) -> Iterator[Machine]:
    """Starts servers on one database, each on a machine of its own: with its own data directory."""
    kind = request.getfixturevalue("sandbox") if "sandbox" in request.fixturenames else "bubblewrap"
    need(kind)
    with ExitStack() as stack:

        def start(name: str, **more: str) -> ServerProcess:
            (tmp_path / name).mkdir(mode=0o700, exist_ok=True)
            settings = {
                "PALIMPSEST_DATABASE_URL": postgres_url,
                "PALIMPSEST_WORKSPACE_STORE": store,
                **CREDENTIALS,
                **more,
            }
            return stack.enter_context(ServerProcess(tmp_path / name, provider, kind, sandbox_image, settings))

        yield start


def lose_volume(session_id: str) -> None:
    """Removes a session's container and volume, which another machine would not have either."""
    name = container_name(session_id)
    subprocess.run(["docker", "rm", "-f", name], check=False, capture_output=True)
    subprocess.run(["docker", "volume", "rm", "-f", name], check=True, capture_output=True)


MAKE = "mkdir -p 'a dir/b' && echo one > 'a dir/b/file' && ln -s file 'a dir/b/link' && chmod 750 'a dir/b/file'"
LOOK = "cat 'a dir/b/link' two; stat -c %a 'a dir/b/file'; touch 'a dir/new' && echo writable"


async def test_a_session_continues_on_another_machine(machine: Machine, provider: FakeProvider, sandbox: str) -> None:
    first = machine("one")
    provider.script(
        Reply(command(MAKE)),
        Reply(ToolCall("write_file", {"path": "two", "content": "two\n"})),
        Reply(Text("Made.")),
        Reply(command(LOOK)),
        Reply(Text("Seen.")),
    )
    async with Client(first.url) as client:
        session, _ = await client.run("make files")
        assert session["outcome"] == "completed"
    first.end(signal.SIGTERM)
    if sandbox == "docker":
        lose_volume(session["id"])
    second = machine("two")
    async with Client(second.url) as client:
        files = await client.http.get(f"/v1/sessions/{session['id']}/files", params={"path": "a dir/b"})
        assert [(item["path"], item["type"]) for item in files.json()["items"]] == [
            ("a dir/b/file", "file"),
            ("a dir/b/link", "symlink"),
        ]
        response = await client.http.get(f"/v1/sessions/{session['id']}/archive")
        with tarfile.open(fileobj=io.BytesIO(response.content)) as archive:
            assert sorted(archive.getnames()) == ["a dir", "a dir/b", "a dir/b/file", "a dir/b/link", "two"]
        events = await client.say(session["id"], "look at them", session["last_seq"])
        (result,) = of_type(events, "tool.result")
        assert result.data["output"].splitlines()[:4] == ["one", "two", "750", "writable"]
        (recovered,) = of_type(events, "session.recovered")
        assert session["created_at"] < recovered.data["workspace_as_of"]
        await assert_sound(client, session["id"])


@pytest.mark.slow
async def test_files_that_were_brought_in_are_on_another_machine_too(machine: Machine, provider: FakeProvider) -> None:
    first = machine("one")
    provider.script(Reply(command("cat project")), Reply(Text("Seen.")))
    async with Client(first.url) as client:
        parts = {"session": (None, b'{"task": "Look."}'), "archive": ("a.tar", tarred({"project": b"brought"}))}
        answer = await client.http.post("/v1/sessions", files=parts)
        assert answer.status_code == 201, answer.text
        session_id = answer.json()["id"]
        events = await client.until_idle(session_id)
        assert "brought" in of_type(events, "tool.result")[0].data["output"]
        await assert_sound(client, session_id)
        idle = (await client.create())["id"]
        await client.http.put(f"/v1/sessions/{idle}/archive", content=tarred({"later": b"too"}))
    first.end(signal.SIGKILL)
    async with Client(machine("two").url) as client:
        assert (await client.http.get(f"/v1/sessions/{session_id}/files/project")).content == b"brought"
        assert (await client.http.get(f"/v1/sessions/{idle}/files/later")).content == b"too"


async def test_a_killed_server_is_continued_elsewhere(machine: Machine, provider: FakeProvider, sandbox: str) -> None:
    first = machine("one")
    provider.script(
        Reply(command("echo stored >stored")),
        Reply(Gate("second"), command("echo late >late; echo begun; sleep 100")),
        Reply(command("cat stored; ls late")),
        Reply(Text("Done.")),
    )
    async with Client(first.url) as client:
        session = await client.create("work")
        await provider.reached("second")
        await stored(client)
        provider.open("second")
        await client.wait_for(session["id"], lambda event: "begun" in str(event.data.get("text")))
    first.end(signal.SIGKILL)
    if sandbox == "docker":
        lose_volume(session["id"])
    async with Client(machine("two").url) as client:
        events = await client.until_idle(session["id"])
        (recovered,) = of_type(events, "session.recovered")
        (begun,) = [event for event in of_type(events, "step.started") if event.data["step"] == 2]
        assert recovered.data["interrupted_step"] == 2
        assert session["created_at"] < recovered.data["workspace_as_of"]
        # A moment after the first step ended, when the second one was about to begin.
        assert recovered.data["workspace_as_of"] < recovered.data["at"]
        assert begun.data["at"] < recovered.data["at"]
        output = of_type(events, "tool.result")[-1].data["output"]
        assert "stored\n" in output
        assert "late: No such file" in output or "cannot access" in output
        assert (await client.session(session["id"]))["outcome"] == "completed"
        await assert_sound(client, session["id"])


async def stored(client: Client, times: int = 1) -> None:
    """Waits until so many snapshots have been stored."""
    async with asyncio.timeout(60):
        while True:
            if await metric(client, "palimpsest_workspace_snapshots_total") >= times:
                return
            await asyncio.sleep(0.05)


async def metric(client: Client, name: str) -> float:
    lines = (await client.http.get("/metrics")).text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


async def component(client: Client, *, ok: bool) -> dict[str, Any]:
    """Waits for this state of the store in `readyz`, which stays ready."""
    async with asyncio.timeout(60):
        while True:
            found = (await client.http.get("/readyz")).json()
            assert found["ready"]
            state: dict[str, Any] = found["components"]["workspace_store"]
            if state["ok"] is ok:
                assert found["degraded"] is not ok
                return state
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("store", ["folder"], indirect=True)
@pytest.mark.slow
async def test_a_store_that_is_away_costs_nothing(machine: Machine, provider: FakeProvider, tmp_path: Path) -> None:
    """The run continues; the snapshot is taken when the store is back."""
    first = machine("one")
    provider.script(
        Reply(command("echo kept >kept")), Reply(Text("Made.")), Reply(command("cat kept")), Reply(Text("."))
    )
    async with Client(first.url) as client:
        await component(client, ok=True)
        (tmp_path / "share").rename(tmp_path / "unmounted")
        assert "is it the right one" in (await component(client, ok=False))["detail"]
        session, _ = await client.run("make files")
        assert session["outcome"] == "completed"
        assert not (tmp_path / "share").exists(), "nothing is written where the share is missing"
        (tmp_path / "unmounted").rename(tmp_path / "share")
        await component(client, ok=True)
    first.end(signal.SIGKILL)
    async with Client(machine("two").url) as client:
        events = await client.say(session["id"], "look", session["last_seq"])
        assert of_type(events, "tool.result")[-1].data["output"] == "kept\n"


@pytest.mark.parametrize("store", ["s3"], indirect=True)
@pytest.mark.slow
async def test_forks_uploads_and_deletions_elsewhere(
    machine: Machine, provider: FakeProvider, s3_server: S3Server
) -> None:
    first = machine("one")
    provider.script(Reply(command("echo parent >file")), Reply(Text("Made.")))
    async with Client(first.url) as client:
        parent, _ = await client.run("make files")
    first.end(signal.SIGTERM)
    second = machine("two")
    async with Client(second.url) as client:
        made = (await client.http.post(f"/v1/sessions/{parent['id']}/fork", json={})).json()
        place = f"/v1/sessions/{parent['id']}/files"
        assert (await client.http.put(f"{place}/file", content=b"changed")).status_code in (200, 201, 204)
        assert (await client.http.get(f"{place}/file")).content == b"changed"
        assert (await client.http.get(f"/v1/sessions/{made['id']}/files/file")).content == b"parent\n"
        await stored(client)
    second.end(signal.SIGTERM)
    async with Client(machine("three").url) as client:
        assert (await client.http.get(f"{place}/file")).content == b"changed"
        provider.script(Reply(command("cat file; echo fork >file")), Reply(Text("Seen.")))
        events = await client.say(made["id"], "look", made["last_seq"])
        assert of_type(events, "tool.result")[0].data["output"] == "parent\n"
        assert (await client.http.get(f"{place}/file")).content == b"changed"
        for session in (parent, made):
            assert any(session["id"] in key for key in s3_server.stored_keys())
            assert (await client.http.delete(f"/v1/sessions/{session['id']}")).status_code == 204
            assert not any(session["id"] in key for key in s3_server.stored_keys())


@pytest.mark.parametrize("store", ["s3"], indirect=True)
@pytest.mark.slow
async def test_credentials_are_in_no_log_and_no_answer(
    machine: Machine, provider: FakeProvider, s3_server: S3Server
) -> None:
    nowhere = "s3://workspaces/p?endpoint=http://127.0.0.1:1"
    server = machine("one", PALIMPSEST_WORKSPACE_STORE=nowhere)
    provider.script(Reply(command("echo x >x")), Reply(Text("Made.")))
    async with Client(server.url) as client:
        session, _ = await client.run("make files")
        assert session["outcome"] == "completed"
        state = await component(client, ok=False)
        assert state["detail"].startswith("The workspace store, bucket workspaces at 127.0.0.1:1, does not answer")
        for name in CREDENTIALS.values():
            assert name not in server.log + (await client.http.get("/readyz")).text


@pytest.mark.parametrize("store", ["folder"], indirect=True)
@pytest.mark.slow
async def test_an_upload_that_was_accepted_outlives_its_machine(
    machine: Machine, provider: FakeProvider, tmp_path: Path
) -> None:
    first = machine("one")
    provider.script(Reply(command("echo made >file")), Reply(Text("Made.")))
    async with Client(first.url) as client:
        session, _ = await client.run("make files")
        place = f"/v1/sessions/{session['id']}/files/file"
        (tmp_path / "share").rename(tmp_path / "unmounted")
        refused = await client.http.put(place, content=b"refused")
        assert (refused.status_code, refused.json()["code"]) == (503, "workspace_store_unavailable")
        assert (await client.http.get(place)).content == b"made\n"
        (tmp_path / "unmounted").rename(tmp_path / "share")
        assert (await client.http.put(place, content=b"accepted")).status_code == 204
    first.end(signal.SIGKILL)
    async with Client(machine("two").url) as client:
        assert (await client.http.get(place)).content == b"accepted"
