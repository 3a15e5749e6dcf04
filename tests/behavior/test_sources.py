"""A session's files from a git repository: before the first step, or the run fails and can be resumed."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.behavior.conftest import StartProcess, StartServer
from tests.behavior.harness import Client, RunningServer, command, of_type, shows
from tests.behavior.pictures import png
from tests.behavior.test_archives import tarred
from tests.behavior.test_bad_input import assert_refused
from tests.git_server import GitServer, git_server
from tests.provider import FakeProvider, Reply, Text
from tests.provider.images import images_of
from tests.receiver import receiving


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitServer]:
    (tmp_path / "git").mkdir()
    with git_server(tmp_path / "git") as server:
        monkeypatch.setenv("GIT_SSL_CAINFO", str(server.authority))
        server.commit({"src/main.py": "print('hello')\n", "AGENTS.md": "Be brief.\n"})
        yield server


@pytest.fixture
def server(server_with: StartServer) -> RunningServer:
    return server_with(git_networks=("127.0.0.0/8",))


@pytest.fixture
async def client(server: RunningServer) -> AsyncIterator[Client]:
    async with Client(server.url) as client:
        yield client


def source(git: GitServer, **fields: Any) -> dict[str, Any]:
    return {"git": {"url": git.url, **fields}}


async def test_a_repository_is_cloned_before_the_first_step(
    client: Client, sandbox: str, provider: FakeProvider, git: GitServer
) -> None:
    first = git.commit({"new": "1"}, "topic")
    git.commit({"new": "2"}, "topic")
    provider.script(Reply(command("cat src/main.py new; ls -d .git; echo x >mine")), Reply(Text("Done.")))
    session, events = await client.run("Look.", source=source(git, ref=first, depth=1))
    names = [event.type for event in events]
    assert names.index("source.started") < names.index("source.completed") < names.index("step.started")
    assert of_type(events, "source.completed")[0].data["commit"] == first
    assert of_type(events, "source.started")[0].data["url"] == git.url
    assert of_type(events, "tool.result")[0].data["output"].startswith("print('hello')\n1.git")
    assert "Be brief." in str(provider.requests[0].body)
    asked = len(git.asked)
    provider.script(Reply(command("cat mine")), Reply(Text("Done.")))
    events = await client.say(session["id"], "Again.")
    assert of_type(events, "tool.result")[-1].data["output"].startswith("x")
    assert len(git.asked) == asked, "it is cloned only once"


async def test_a_clone_that_fails_fails_the_run_and_a_resume_tries_again(
    client: Client, provider: FakeProvider, git: GitServer
) -> None:
    session, events = await client.run("Look.", source=source(git, ref="later"))
    (failed,) = of_type(events, "source.failed")
    assert failed.data["code"] == "clone_ref_not_found"
    idle = of_type(events, "session.idle")
    assert [(each.data["outcome"], each.data["error"]["code"]) for each in idle] == [("failed", "clone_ref_not_found")]
    assert not of_type(events, "step.started")
    git.commit({"new": "1"}, "later")
    provider.script(Reply(command("cat new")), Reply(Text("Done.")))
    await client.resume(session["id"])
    events = await client.until_idle(session["id"], after=idle[0].id)
    assert of_type(events, "tool.result")[0].data["output"].startswith("1")
    assert of_type(events, "session.idle")[-1].data["outcome"] == "completed"
    roles = [message["role"] for message in await client.messages(session["id"])]
    assert roles.count("user") == 1


async def test_a_password_a_redirect_and_a_wrong_name_end_the_clone(client: Client, git: GitServer) -> None:
    git.password = "secret-of-the-repository"
    assert (await client.run("Look.", source=source(git)))[0]["error"]["code"] == "clone_unauthorized"
    git.redirect = "https://127.0.0.1:9"
    assert (await client.run("Look.", source=source(git)))[0]["error"]["code"] == "clone_failed"
    nowhere = {"git": {"url": "https://nowhere.invalid/x"}}
    assert (await client.run("Look.", source=nowhere))[0]["error"]["code"] == "clone_host_unknown"


@pytest.mark.slow
async def test_a_secret_opens_the_repository_and_is_nowhere_afterward(
    start_process: StartProcess, provider: FakeProvider, git: GitServer
) -> None:
    git.password = password = "secret-of-the-repository"
    provider.script(Reply(command("cat src/main.py; echo $TOKEN; cat .git/config; echo x >mine")), Reply(Text("Done.")))
    more = {"PALIMPSEST_GIT_NETWORKS": "127.0.0.0/8", "PALIMPSEST_WEBHOOK_NETWORKS": "127.0.0.0/8"}
    server = start_process(**more, GIT_SSL_CAINFO=str(git.authority), PALIMPSEST_LOG_LEVEL="debug")
    shown: dict[str, bytes] = {}
    with receiving() as hook:
        async with Client(server.url) as client:
            await client.http.post("/v1/webhooks", json={"url": hook.url})
            session, events = await client.run(
                "Look.", source=source(git, credential="TOKEN"), secrets={"TOKEN": password}
            )
            assert session["outcome"] == "completed"
            output = of_type(events, "tool.result")[0].data["output"]
            assert output.startswith("print('hello')\n[secret TOKEN]\n")
            path = f"/v1/sessions/{session['id']}"
            fork = (await client.http.post(f"{path}/fork", json={})).json()["id"]
            for each in (path, f"/v1/sessions/{fork}"):
                for what in PLACES:
                    answer = await client.http.get(f"{each}{what}")
                    assert answer.status_code == 200, answer.text
                    shown[f"{each}{what}"] = answer.content
            await asyncio.to_thread(hook.wait, lambda r: session["last_seq"] in {a.seq for a in r.accepted})
    checkpoints = [*(server.data_dir / "checkpoints").iterdir()]
    assert len(checkpoints) == 2
    shown |= {f"webhook {number}": request.raw for number, request in enumerate(hook.requests)}
    shown |= {f"model {number}": request.raw for number, request in enumerate(provider.requests)}
    shown |= {f"process {number}": found for number, found in enumerate(git.during)}
    shown |= {str(path): path.read_bytes() for path in server.data_dir.rglob("*") if path.is_file()}
    shown |= {f"git objects of {each}": objects(each) for each in checkpoints}
    shown["log"] = server.log.encode()
    assert b"run_started" in shown["log"]
    assert git.during
    assert [where for where, content in shown.items() if holds(content, password)] == []


PLACES = (
    "",
    "/messages",
    "/messages?format=openai",
    "/messages?format=anthropic",
    "/context",
    "/steps",
    "/log",
    "/archive",
    "/changes?format=patch",
    "/checkpoints",
    "/secrets",
    "/files/.git/config",
)
"""Where a session's content is shown."""


def holds(content: bytes, secret: str) -> bool:
    """Whether a secret is in these bytes, as it is or in base64 after any bytes."""
    plain = secret.encode()
    # Of the third of its bytes that do not depend on what is around them.
    encoded = [base64.b64encode(b" " * shift + plain)[4 if shift else 0 : -4] for shift in range(3)]
    return any(form in content for form in (plain, plain.hex().encode(), *encoded))


def objects(repository: Path) -> bytes:
    """All objects of a git repository, which are compressed on disk."""
    argv = ["git", "-C", str(repository), "cat-file", "--batch-all-objects", "--batch"]
    found = subprocess.run(argv, check=True, capture_output=True).stdout
    assert b"print('hello')" in found
    return found


def test_a_secret_is_found_wherever_it_is() -> None:
    for content in (b"a secret", base64.b64encode(b"a secret"), base64.b64encode(b"user:a secret"), b"a secret".hex()):
        assert holds(content if isinstance(content, bytes) else content.encode(), "a secret")
        assert not holds(content if isinstance(content, bytes) else content.encode(), "no such value")


REFUSED = {
    "http://git.example.com/x": "invalid_source",
    "file:///etc": "invalid_source",
    "/etc": "invalid_source",
    "git.example.com:x": "invalid_source",
    "ext::sh -c id": "invalid_source",
    "https://user:password@git.example.com/x": "invalid_source",
    "https://token@git.example.com/x": "invalid_source",
    "https://-oProxyCommand=id/x": "invalid_source",
    "https://g%69t.example.com/x": "invalid_source",
    "https://127.0.0.1[2001:db8::1]/x": "invalid_source",
    "https://[2001:db8::1].example.com/x": "invalid_source",
    "https://git.example\t.com/x": "invalid_source",
    "https://127.0.0.1/x": "source_not_allowed",
    "https://[::1]/x": "source_not_allowed",
    "https://[::ffff:10.0.0.1]/x": "source_not_allowed",
    "https://169.254.169.254/x": "source_not_allowed",
}


async def test_what_may_not_be_cloned_is_refused(server_with: StartServer) -> None:
    async with Client(server_with().url) as client:
        for url, code in REFUSED.items():
            answer = await client.http.post("/v1/sessions", json={"source": {"git": {"url": url}}})
            assert_refused(answer, 403 if code == "source_not_allowed" else 422, code)
        good = "https://git.example.com/x"
        for fields in ({"ref": "--upload-pack=id"}, {"ref": "a..b"}, {"ref": "a b"}, {"depth": 0}, {"more": 1}):
            answer = await client.http.post("/v1/sessions", json={"source": {"git": {"url": good, **fields}}})
            assert_refused(answer, 422, "validation_error")
        answer = await client.http.post("/v1/sessions", json={"source": {"git": {"url": good, "credential": "NONE"}}})
        assert_refused(answer, 422, "unknown_secret")
        # A name is only known when it is resolved; decimal and short addresses are such names.
        for host in ("localhost", "2130706433", "127.1", "0x7f000001"):
            session, _ = await client.run("Look.", source={"git": {"url": f"https://{host}:9/x"}})
            assert session["error"]["code"] in ("source_not_allowed", "clone_host_unknown"), host


async def test_an_image_of_a_repository_can_be_sent_once_it_is_cloned(
    client: Client, provider: FakeProvider, git: GitServer
) -> None:
    """Until then it is refused with what to do, and a file can be named."""
    picture = png()
    (git.folder / "work" / "plan.png").write_bytes(picture)
    git.commit({})
    picture_part, file_part = ({"type": kind, "path": "plan.png"} for kind in ("image", "file"))
    body = {"source": source(git), "task": [picture_part]}
    archive = ("project.tar", tarred({"README": b"A project."}))
    before = {
        "task": await client.http.post("/v1/sessions", json=body),
        "with an archive": await client.http.post(
            "/v1/sessions", data={"session": json.dumps(body)}, files={"archive": archive}
        ),
    }
    git.stall()
    provider.script(Reply(Text("Read.")), Reply(Text("Seen.")))
    session_id = (await client.create(source=source(git)))["id"]
    path = f"/v1/sessions/{session_id}/queue"
    before["message"] = await client.http.post(path, json={"content": [picture_part]})
    assert (await client.http.post(path, json={"content": [file_part]})).status_code == 202
    await client.wait_for(session_id, shows("source.started"))
    before["message during the clone"] = await client.http.post(path, json={"content": [picture_part]})
    for answer in before.values():
        assert_refused(answer, 422, "path_not_ready")
        assert "send its data" in answer.json()["detail"]
    git.proceed()
    last = (await client.until_idle(session_id))[-1].id
    assert (await client.http.post(path, json={"content": [picture_part]})).status_code == 202
    await client.until_idle(session_id, after=last)
    assert [found.raw for found in images_of(provider.requests[-1].body)] == [picture]
    missing = await client.http.post(path, json={"content": [{"type": "file", "path": "missing.png"}]})
    assert_refused(missing, 422, "path_not_found")


async def test_a_cancel_ends_a_clone(client: Client, git: GitServer) -> None:
    git.stall()
    session_id = (await client.create("Look.", source=source(git)))["id"]
    await client.wait_for(session_id, shows("source.started"))
    await client.http.post(f"/v1/sessions/{session_id}/cancel")
    events = await client.until_idle(session_id)
    assert of_type(events, "session.idle")[0].data["outcome"] == "cancelled"
    assert not of_type(events, "source.failed", "source.completed")
    git.proceed()


async def test_a_kill_during_a_clone_loses_nothing(
    start_process: StartProcess, provider: FakeProvider, git: GitServer
) -> None:
    git.stall()
    more = {"PALIMPSEST_GIT_NETWORKS": "127.0.0.0/8", "GIT_SSL_CAINFO": str(git.authority)}
    server = start_process(**more)
    async with Client(server.url) as client:
        session_id = (await client.create("Look.", source=source(git)))["id"]
        await client.wait_for(session_id, shows("source.started"))
        server.end(signal.SIGKILL)
    git.proceed()
    provider.script(Reply(command("cat src/main.py")), Reply(Text("Done.")))
    async with Client(start_process(**more).url) as client:
        events = await client.until_idle(session_id)
    assert len(of_type(events, "source.started")) == 2
    assert [event.data["outcome"] for event in of_type(events, "session.idle")] == ["completed"]
    assert "hello" in of_type(events, "tool.result")[0].data["output"]
