"""A session continues on another machine: with the files that its workspace had in the newest snapshot."""

from __future__ import annotations

import io
import signal
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from app.sandbox.docker.container import container_name
from tests.behavior.checks import assert_sound
from tests.behavior.harness import Client, command, of_type
from tests.behavior.process import ServerProcess
from tests.provider import FakeProvider, Reply, Text, ToolCall
from tests.requirements import need
from tests.s3 import CREDENTIALS, S3Server

Machine = Callable[..., ServerProcess]


@pytest.fixture(params=["folder", "s3"])
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
