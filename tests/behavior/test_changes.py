"""What changed in a workspace, as a list and as a patch that git applies, and going back to a checkpoint."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
import stat
import subprocess
import tarfile
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NoReturn

import httpx
import pytest

from app.runtime.checkpoints.keeper import Checkpoints
from app.runtime.checkpoints.repository import GitMissingError, Repository
from app.runtime.checkpoints.restoring import PENDING
from app.runtime.owner import checkpoints as run_checkpoints
from tests.behavior.conftest import StartProcess, StartServer
from tests.behavior.harness import Client, RunningServer, command, of_type, shows
from tests.behavior.process import ServerProcess
from tests.behavior.test_bad_input import assert_refused
from tests.behavior.test_files import address
from tests.databases import in_cluster
from tests.provider import FakeProvider, Gate, Reply, Text

BEFORE = {
    "src/app.py": b"".join(b"line %d\n" % number for number in range(40)),
    "old name.txt": b"".join(b"a line that stays %d\n" % number for number in range(20)),
    "gone.txt": b"gone\n",
    "image.bin": bytes(range(256)) * 40,
    ".gitignore": b"*.log\n/build/\n",
    ".gitattributes": b"*.bin text diff=evil filter=evil\n*.py -diff\n",
}
EDIT = """
sed -i 's/^line 7$/line seven/' src/app.py; mv 'old name.txt' 'new name.txt'; rm gone.txt; chmod 755 src/app.py
printf '\\000\\001changed' > image.bin; mkdir -p sub/deep empty build node_modules/x; echo built > build/out
echo noise > a.log; echo module > node_modules/x/i.js; ln -s ../src/app.py sub/link; printf 'no newline' > sub/deep/new
printf raw > "$(printf 'x\\351\\n"x')"; head -c 11000000 /dev/zero > large; chmod 600 sub/deep/new
mkdir .git; printf '[core]\\n\\tfsmonitor = touch /tmp/palimpsest-test-owned\\n' > .git/config
"""
UNCOVERED = {
    ".git": "git",
    "a.log": "ignored",
    "build": "ignored",
    "large": "too_large",
    "node_modules": "cache",
}


async def upload(client: Client, session_id: str, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        answer = await client.http.put(address(session_id, name), content=content)
        assert answer.status_code in (201, 204), answer.text


async def tree(client: Client, session_id: str) -> dict[str, tuple[int, bytes | str]]:
    """The workspace: modes and contents, of links their targets."""
    archive = (await client.http.get(f"/v1/sessions/{session_id}/archive")).content
    found: dict[str, tuple[int, bytes | str]] = {}
    with tarfile.open(fileobj=io.BytesIO(archive), errors="surrogateescape") as members:
        for member in members:
            file = members.extractfile(member) if member.isreg() else None
            found[member.name] = (member.mode, file.read() if file is not None else member.linkname)
    return found


def kept(server: RunningServer) -> set[str]:
    """The sessions whose checkpoints are on disk."""
    data_dir = server.settings.data_dir
    if not in_cluster():
        return {path.stem for path in (data_dir / "checkpoints").iterdir()}
    store = data_dir / "checkpoint-store"
    return {path.relative_to(store).parts[1] for path in store.rglob("*") if path.is_file()}


def assert_nothing_ran() -> None:
    """What the workspace's settings of git name was not run on the host."""
    assert not Path("/tmp/palimpsest-test-owned").exists()


def covered(entries: dict[str, tuple[int, bytes | str]]) -> dict[str, tuple[int, bytes | str]]:
    """The entries that checkpoints cover."""
    return {path: entry for path, entry in entries.items() if path.split("/")[0] not in UNCOVERED}


async def checkpoints(client: Client, session_id: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await client.get(f"/v1/sessions/{session_id}/checkpoints"))["items"]
    return items


async def patch(client: Client, session_id: str, **query: str) -> bytes:
    answer = await client.http.get(f"/v1/sessions/{session_id}/changes", params={"format": "patch", **query})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/x-diff")
    return answer.content


async def restore(client: Client, session_id: str, checkpoint_id: str) -> dict[str, Any]:
    answer = await client.http.post(f"/v1/sessions/{session_id}/checkpoints/{checkpoint_id}/restore")
    assert answer.status_code == 202, answer.text
    result: dict[str, Any] = answer.json()
    return result


def apply(folder: Path, difference: bytes) -> None:
    subprocess.run(["git", "apply", "-"], cwd=folder, input=difference, check=True)


def applied(folder: Path, difference: bytes) -> dict[str, tuple[int, bytes | str]]:
    """A checkout of the files of before after `git apply`: what git knows of them."""
    for name, content in BEFORE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    apply(folder, difference)
    found: dict[str, tuple[int, bytes | str]] = {}
    for above, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for path in (Path(above) / name for name in names):
            is_link = path.is_symlink()
            shown = os.readlink(path) if is_link else path.read_bytes()
            found[str(path.relative_to(folder))] = (0 if is_link else path.stat().st_mode & stat.S_IXUSR, shown)
    return found


async def edited(client: Client, provider: FakeProvider) -> str:
    """A session with files that a run has changed."""
    session_id: str = (await client.create())["id"]
    await upload(client, session_id, BEFORE)
    provider.script(Reply(command(EDIT)), Reply(Text("Done.")))
    events = await client.say(session_id, "Edit.")
    assert of_type(events, "session.idle")[-1].data["outcome"] == "completed"
    return session_id


@pytest.mark.shared_server
async def test_changes_are_listed_and_their_patch_applies(
    client: Client, provider: FakeProvider, sandbox: str, tmp_path: Path
) -> None:
    session_id = await edited(client, provider)
    changes = await client.get(f"/v1/sessions/{session_id}/changes")
    shown = {item["path"]: (item["status"], item["additions"], item["deletions"]) for item in changes["items"]}
    assert shown == {
        "src/app.py": ("modified", 1, 1),
        "new name.txt": ("renamed", 0, 0),
        "gone.txt": ("deleted", 0, 1),
        "image.bin": ("modified", 0, 0),
        "sub/link": ("added", 1, 0),
        "sub/deep/new": ("added", 1, 0),
        'x\ufffd\n"x': ("added", 1, 0),
    }
    assert [item["path"] for item in changes["items"] if item["binary"]] == ["image.bin"]
    assert [item["old_path"] for item in changes["items"] if item["status"] == "renamed"] == ["old name.txt"]
    assert {item["path"]: item["reason"] for item in changes["not_covered"]["items"]} == UNCOVERED
    begun, ended = await checkpoints(client, session_id)
    assert (changes["from_checkpoint"], changes["to_checkpoint"]) == (begun["id"], None)
    assert [(c["run"], c["reason"], c["files"]) for c in (begun, ended)] == [(1, "run_started", 6), (1, "run_ended", 8)]
    difference = await patch(client, session_id)
    assert difference == await patch(client, session_id, **{"from": begun["id"], "to": ended["id"]})
    now = covered(await tree(client, session_id))
    files = {path: entry for path, entry in now.items() if path.rstrip("/") not in ("src", "sub", "sub/deep", "empty")}
    expected = {
        path: (0 if isinstance(content, str) else mode & stat.S_IXUSR, content)
        for path, (mode, content) in files.items()
    }
    checkout = tmp_path / "checkout"
    assert applied(checkout, difference) == expected
    apply(checkout, await patch(client, session_id, **{"from": ended["id"], "to": begun["id"]}))
    assert {name: (checkout / name).read_bytes() for name in BEFORE} == BEFORE


@pytest.mark.shared_server
async def test_a_restore_gives_the_files_back_and_can_be_restored(
    client: Client, provider: FakeProvider, sandbox: str
) -> None:
    session_id = await edited(client, provider)
    after = await tree(client, session_id)
    begun = (await checkpoints(client, session_id))[0]
    result = await restore(client, session_id, begun["id"])
    assert (result["checkpoint"]["id"], result["saved"]["reason"]) == (begun["id"], "before_restore")
    restored = await tree(client, session_id)
    files = {path: content for path, (_, content) in covered(restored).items() if isinstance(content, bytes)}
    assert files == BEFORE
    assert "empty" not in restored
    assert_nothing_ran()
    for path in UNCOVERED:
        assert restored[path] == after[path]
    assert (await client.get(f"/v1/sessions/{session_id}/changes"))["items"] == []
    again = await restore(client, session_id, result["saved"]["id"])
    assert await tree(client, session_id) == after
    events = of_type(await client.until_idle(session_id, after=0), "workspace.restored")
    assert [event.data["saved_id"] for event in events] == [result["saved"]["id"], again["saved"]["id"]]
    assert_refused(
        await client.http.post(f"/v1/sessions/{session_id}/checkpoints/nope/restore"), 404, "checkpoint_not_found"
    )
    # What only one of both covers is not touched.
    await upload(client, session_id, {".gitignore": b"*.py\n"})
    result = await restore(client, session_id, begun["id"])
    assert result["skipped"] == {"items": ["src/app.py"], "truncated": False}
    restored = await tree(client, session_id)
    assert restored["src/app.py"] == after["src/app.py"]
    assert restored[".gitignore"][1] == BEFORE[".gitignore"]


@pytest.mark.shared_server
async def test_a_restore_waits_for_no_run(client: Client, provider: FakeProvider, sandbox: str) -> None:
    session_id = await edited(client, provider)
    begun = (await checkpoints(client, session_id))[0]
    provider.script(Reply(Text("Thinking."), Gate("go"), Text("Done.")))
    await client.post(session_id, "Go on.")
    await client.wait_for(session_id, shows("text.delta"))
    path = f"/v1/sessions/{session_id}/checkpoints/{begun['id']}/restore"
    assert_refused(await client.http.post(path), 409, "session_running")
    provider.open("go")
    await client.until_idle(session_id)
    assert [c["run"] for c in await checkpoints(client, session_id)] == [1, 1, 2, 2]


async def test_a_checkpoint_that_fails_costs_an_event(start_server: StartServer, provider: FakeProvider) -> None:
    provider.script(Reply(command("echo used")), Reply(Text("Done.")), Reply(Text("Unused.")))
    async with Client(start_server(checkpoint_max_mb=1).url) as client:
        session_id = (await client.create())["id"]
        await upload(client, session_id, {"large": bytes(2 * 2**20)})
        events = await client.say(session_id, "Use it.")
        failed = [(event.data["reason"], event.data["code"]) for event in of_type(events, "checkpoint.failed")]
        assert failed == [("run_started", "workspace_too_large"), ("run_ended", "workspace_too_large")]
        assert events[-1].data["outcome"] == "completed"
        again = await client.say(session_id, "Do not use it.", after=events[-1].id)
        assert not of_type(again, "checkpoint.failed")
        assert await checkpoints(client, session_id) == []


async def test_the_oldest_checkpoints_are_dropped_once_the_session_is_idle(
    start_server: StartServer, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_checkpoints, "TIDY_RUNS", 2)
    packing, may_pack, keep_only = threading.Event(), threading.Event(), Checkpoints.keep_only

    async def slow(self: Checkpoints, session_id: str, commits: Collection[str]) -> None:
        packing.set()
        await asyncio.to_thread(may_pack.wait, 10)
        packing.clear()
        await keep_only(self, session_id, commits)

    monkeypatch.setattr(Checkpoints, "keep_only", slow)
    async with Client(start_server(checkpoints=2, max_runs=1).url) as client:
        session_id = (await client.create())["id"]
        seq: int | None = 0
        for number in (1, 2):
            provider.script(Reply(command(f"echo {number} > file")), Reply(Text("Done.")))
            seq = (await client.say(session_id, "Write.", after=seq))[-1].id
        assert await asyncio.to_thread(packing.wait, 30)
        provider.script(Reply(Text("Meanwhile.")))
        other, _ = await client.run("Packing takes no run's place.")
        assert (other["outcome"], packing.is_set()) == ("completed", True)
        may_pack.set()
        while len(left := await checkpoints(client, session_id)) > 2:
            pass
        assert [(c["run"], c["reason"]) for c in left] == [(1, "run_started"), (2, "run_ended")]
        assert b"+2" in await patch(client, session_id)
        await restore(client, session_id, left[0]["id"])


async def test_a_server_without_git_makes_forks_without_checkpoints(
    start_server: StartServer, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server()
    async with Client(server.url) as client:
        provider.script(Reply(command("echo one > file")), Reply(Text("done")))
        session, _ = await client.run("write")
        assert len((await client.get(f"/v1/sessions/{session['id']}/checkpoints"))["items"]) == 2
        monkeypatch.setattr(Repository, "_start", missing_git)
        made = await client.http.post(f"/v1/sessions/{session['id']}/fork", json={})
        assert made.status_code == 201
        # That of the empty workspace needs no git.
        (only,) = (await client.get(f"/v1/sessions/{made.json()['id']}/checkpoints"))["items"]
        assert (only["reason"], only["files"]) == ("run_started", 0)
        assert (await client.http.get(f"/v1/sessions/{made.json()['id']}/files/file")).text == "one\n"


def missing_git(*_: object) -> NoReturn:
    raise GitMissingError("git is not installed on the server's machine.")


async def test_forks_have_the_checkpoints_and_deletions_remove_them(
    client: Client, provider: FakeProvider, sandbox: str, server: RunningServer
) -> None:
    session_id = await edited(client, provider)
    known = await checkpoints(client, session_id)
    made = (await client.http.post(f"/v1/sessions/{session_id}/fork", json={})).json()["id"]
    assert (await client.http.delete(f"/v1/sessions/{session_id}")).status_code == 204
    assert kept(server) == {made}
    assert await checkpoints(client, made) == known
    await restore(client, made, known[0]["id"])
    assert (await client.http.get(address(made, "gone.txt"))).content == BEFORE["gone.txt"]
    assert (await client.http.delete(f"/v1/sessions/{made}")).status_code == 204
    assert kept(server) == set()


FILES = 1500
FIRST = f"for i in $(seq {FILES}); do echo $i > f$i; done; echo one > dev.db"
SECOND = f"rm f*; for i in $(seq {FILES}); do echo $i > g$i; done; echo '*.db' > .gitignore; echo two > dev.db"


async def killed(process: ServerProcess, session_id: str, checkpoint_id: str, is_reached: Callable[[], bool]) -> None:
    """Kills the server in the middle of a restoration."""
    async with Client(process.url) as client:
        path = f"/v1/sessions/{session_id}/checkpoints/{checkpoint_id}/restore"
        asked = asyncio.create_task(client.http.post(path))
        while not is_reached():  # noqa: ASYNC110 - another process reaches it
            await asyncio.sleep(0)
        process.end(signal.SIGKILL)
        with contextlib.suppress(httpx.HTTPError):
            await asked
    note = process.data_dir / "checkpoints" / f"{session_id}.git" / PENDING
    assert note.exists()


@pytest.mark.bubblewrap
@pytest.mark.slow
async def test_a_restore_that_is_killed_is_completed(start_process: StartProcess, provider: FakeProvider) -> None:
    """Killed when it begins, when it has removed something, and when it has written something. A file that is ignored
    in one of both states has its content from there."""
    provider.script(Reply(command(FIRST)), Reply(Text("Done.")), Reply(command(SECOND)), Reply(Text("Done.")))
    process = start_process()
    async with Client(process.url) as client:
        session_id = (await client.run("Write."))[0]["id"]
        await client.say(session_id, "Replace.")
        _, first, _, second = (found["id"] for found in await checkpoints(client, session_id))
    files = process.data_dir / "workspaces" / session_id
    note = process.data_dir / "checkpoints" / f"{session_id}.git" / PENDING
    last_of_g, first_of_f = files / "g999", files / "f1"
    points = (
        (first, "f", note.exists),
        (second, "g", lambda: not (files / "f999").exists()),
        (first, "f", lambda: first_of_f.exists() and not last_of_g.exists()),
    )
    for checkpoint_id, letter, is_reached in points:
        await killed(process, session_id, checkpoint_id, is_reached)
        process = start_process()
        async with Client(process.url) as client:
            found = {path: content for path, (_, content) in (await tree(client, session_id)).items()}
        expected = {f"{letter}{i}": b"%d\n" % i for i in range(1, FILES + 1)} | {"dev.db": b"two\n"}
        assert found == (expected if letter == "f" else expected | {".gitignore": b"*.db\n"})
