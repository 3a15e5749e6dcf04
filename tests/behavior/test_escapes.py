"""Attempts of a hostile model to get out of its sandbox: each fails, and its session continues.

Everything that must not be reached contains a per-test secret; it may appear in no event, file or response.
"""

from __future__ import annotations

import asyncio
import io
import os
import secrets
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.cli.unpacking import unpack
from tests.behavior.checks import following
from tests.behavior.combinations import IN_BOTH_SANDBOXES
from tests.behavior.harness import Client, Event, RunningServer, command, of_type
from tests.behavior.test_files import address, names_in_archive
from tests.provider import FakeProvider, Reply, Text, ToolCall
from tests.unit.sandbox.shell import sleepers, unique_seconds

pytestmark = IN_BOTH_SANDBOXES

HARMLESS = "echo still here"


@dataclass(frozen=True)
class Host:
    """A directory on the host, outside the server, that any of its users may read and write."""

    directory: Path
    secret: str

    @property
    def file(self) -> Path:
        return self.directory / "f"

    def is_untouched(self) -> bool:
        return os.listdir(self.directory) == ["f"] and self.file.read_text() == self.secret


@pytest.fixture
def host() -> Iterator[Host]:
    # Not pytest's directory, whose parents are private: here only the sandbox protects it.
    directory = Path(tempfile.mkdtemp(prefix="palimpsest-escape-"))
    host = Host(directory, secrets.token_hex(16))
    host.file.write_text(host.secret)
    host.file.chmod(0o666)
    directory.chmod(0o777)
    yield host
    shutil.rmtree(directory)


async def attempt(
    client: Client, provider: FakeProvider, *calls: ToolCall, **fields: Any
) -> tuple[str, list[dict[str, Any]], list[Event]]:
    """A session whose model makes these calls and then a harmless one, which must succeed; returns its id, the results
    of the calls and all its events."""
    task = f"attempt {secrets.token_hex(4)}"
    provider.script_for(task, Reply(*calls), Reply(command(HARMLESS)), Reply(Text("Done.")))
    session, events = await client.run(task, **fields)
    *results, last = [event.data for event in of_type(events, "tool.result")]
    results.sort(key=lambda result: int(result["index"]))  # those that run at the same time end in any order
    assert (last["status"], last["output"]) == ("completed", "still here\n")
    assert session["outcome"] == "completed"
    assert provider.refusals == []
    assert (await client.http.get("/healthz")).status_code == 200
    return session["id"], results, events


def said(events: Sequence[Event]) -> str:
    return "\n".join(str(event.data) for event in events)


def workspace_of(server: RunningServer, sandbox: str, session_id: str) -> Path:
    """Where the host keeps a session's files."""
    if sandbox == "docker":
        return Path(f"/var/lib/docker/volumes/palimpsest-{session_id}/_data")
    return server.settings.data_dir / "workspaces" / session_id


ROOTS = (
    "",
    "/proc/1/root",
    "/proc/self/root",
    "/proc/$PPID/root",
    "/proc/self/cwd/../../../../..",
    "/dev/fd/../../../..",
    "/dev/shm/../..",
    "/tmp/../..",
    "../../../../..",
)
"""Ways to the host's root that a sandbox might have left open."""

REACH = """
for root in {roots}; do for path in {paths}; do
    place=$root$path
    cat "$place" "$place"/* "$place"/*/canary; ls "$place"
    ln -sfn "$place" link; ln -sfn link chain; ln -sfn ../workspace/chain chained; cat chained chained/*
    ln -f "$place" hard && cat hard; cp -r "$place" copy && cat copy copy/*
    for target in "$place" "$place/planted" chained chained/planted; do echo overwritten >"$target"; done
    mv "$place/f" taken; rm -f "$place/f" "$place/canary"
done; done 2>/dev/null
cat /proc/[0-9]*/environ /proc/[0-9]*/cwd/* /proc/[0-9]*/root{canary} 2>/dev/null </dev/null
rm -f link chain chained hard; echo; echo tried
"""


async def test_a_command_cannot_reach_the_host(
    client: Client, server: RunningServer, provider: FakeProvider, sandbox: str, host: Host
) -> None:
    data_dir = server.settings.data_dir
    (data_dir / "canary").write_text(host.secret)
    neighbour = (await client.create())["id"]
    assert (await client.http.put(address(neighbour, "canary"), content=host.secret.encode())).is_success
    theirs = workspace_of(server, sandbox, neighbour)
    targets = (host.file, host.directory, data_dir, data_dir / "palimpsest.db", theirs, "/var/lib/docker/volumes")
    roots, paths = (" ".join(f'"{item}"' for item in items) for items in (ROOTS, targets))
    reach = REACH.format(roots=roots, paths=paths, canary=host.file)

    _, (result,), events = await attempt(client, provider, command(reach))

    assert result["output"].splitlines()[-1] == "tried"
    assert host.secret not in said(events)
    assert b"SQLite format" not in result["output"].encode()
    assert host.is_untouched()
    assert (data_dir / "canary").read_text() == host.secret
    assert not list(data_dir.glob("planted"))
    assert (await client.http.get(address(neighbour, "canary"))).text == host.secret
    listed = (await client.get(f"/v1/sessions/{neighbour}/files"))["items"]
    assert [item["path"] for item in listed] == ["canary"]


LINKS = {
    "plain": "{host}",
    "file": "{host}/f",
    "data": "{data}",
    "database": "{data}/palimpsest.db",
    "root": "/proc/1/root{host}",
    "cwd": "/proc/{server}/cwd",
    "environ": "/proc/self/environ",
    "chain": "plain",
    "chained": "../workspace/chain",
    "descriptor": "/dev/fd/0",
    "dots": "../../../../../../../../..{host}",
}
"""Links planted by a command, and their targets."""


def calls_along(path: str) -> list[ToolCall]:
    """Each file tool, on a directory that must not be entered."""
    return [
        ToolCall("read_file", {"path": f"{path}/f"}),
        ToolCall("write_file", {"path": f"{path}/planted/deep", "content": "overwritten"}),
        ToolCall("edit_file", {"path": f"{path}/f", "old_text": "a", "new_text": "b"}),
        ToolCall("list_directory", {"path": path}),
        ToolCall("search_files", {"pattern": "[0-9a-f]{32}", "path": path}),
    ]


@pytest.mark.shared_server
async def test_tools_and_clients_follow_no_link_out(
    client: Client, server: RunningServer, provider: FakeProvider, sandbox: str, host: Host
) -> None:
    places = {"host": host.directory, "data": server.settings.data_dir, "server": os.getpid()}
    plant = "".join(f"ln -s '{to.format(**places)}' {name}; " for name, to in LINKS.items())
    direct = (str(host.directory), f"..{host.directory}", f"/workspace/../..{host.directory}")
    calls = [call for path in ("plain", "chained", *direct) for call in calls_along(path)]
    calls += [ToolCall("read_file", {"path": name}) for name in LINKS]
    calls += [ToolCall("write_file", {"path": name, "content": "overwritten"}) for name in LINKS]

    session_id, (_, *results), events = await attempt(client, provider, command(plant), *calls)

    assert len(results) == len(calls)
    assert {result["status"] for result in results} == {"error"}
    assert host.secret not in said(events)
    for path in ("file", "plain/f", "chained/f", "plain/planted", "root"):
        for answer in (
            await client.http.get(address(session_id, path)),
            await client.http.put(address(session_id, path), content=b"overwritten"),
            await client.http.get(f"/v1/sessions/{session_id}/files", params={"path": path}),
        ):
            assert (answer.status_code, answer.json()["code"]) == (403, "outside_workspace"), path
    assert set(await names_in_archive(client, session_id)) == {*LINKS}
    assert host.is_untouched()


RIGHTS = """
won() {{ echo "ESCAPED: $*"; }}
mount -t tmpfs none /tmp && won mount
mount -o remount,rw / && won remount
mount --bind / /tmp && won bind
umount /workspace && won umount
umount -l /proc && won umount proc
chroot / true && won chroot
su -c true </dev/null && won su
mknod device b 8 0 && won mknod
cp "$(command -v cat)" own && chown 0 own && won chown
chmod 4755 own; ./own /proc/self/status | grep -q '^Uid:.*[[:space:]]0[[:space:]]' && won setuid
nsenter -t 1 -m true && won nsenter
hostname renamed && won hostname
for file in /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/sys/vm/overcommit_memory /proc/sysrq-trigger \
    /proc/1/mem /sys/kernel/uevent_helper /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs \
    /sys/fs/cgroup/*/tasks /sys/fs/cgroup/memory/memory.limit_in_bytes /usr/bin/env /etc/passwd /dev/mem /dev/kmsg; do
    (echo 0 >>"$file") && won "write $file"
done
[ "$(head -c 1 /dev/sda /dev/vda /dev/mem /proc/kcore | wc -c)" -eq 0 ] || won device
mkdir /sys/fs/cgroup/own /sys/fs/cgroup/memory/own && won cgroup
unshare -r sh -c 'mount -o remount,rw / || mount -o remount,bind,rw /usr || mount -t proc proc /proc || touch /usr/x \
    || umount -l /usr || umount -l /etc || mknod /tmp/device b 8 0 || hostname renamed || chroot /proc/1/root \
    || echo x >/proc/sys/kernel/core_pattern' && won user namespace
unshare -rm sh -c 'mount -o remount,rw / || mount -o remount,bind,rw /usr || touch /usr/x || umount -l /usr \
    || umount -l /etc || umount -l /workspace || cat {canary} || nsenter -t 1 -m true' && won mount namespace
cat {canary} && won canary
echo tried
"""


@pytest.mark.shared_server
async def test_a_command_gets_no_privileges(client: Client, provider: FakeProvider, sandbox: str, host: Host) -> None:
    attack = f"({RIGHTS.format(canary=host.file)}) 2>/dev/null"
    _, (result,), events = await attempt(client, provider, command(attack))
    assert (result["status"], result["output"]) == ("completed", "tried\n")
    assert host.secret not in said(events)
    assert host.is_untouched()


SIGNAL = "kill -9 {pid}; kill -9 -{pid}; kill -9 $PPID; kill -9 1; kill -9 -1; echo tried"


@pytest.mark.shared_server
async def test_a_command_reaches_only_its_own_processes(
    client: Client, provider: FakeProvider, sandbox: str, host: Host
) -> None:
    """Another session's command keeps its secret in all its private places while this one searches for it."""
    seconds = unique_seconds()
    theirs = f"for place in . /tmp ~ /dev/shm; do echo {host.secret} >$place/canary; done; echo ready; sleep {seconds}"
    provider.script_for("the other one", Reply(command(theirs)))
    other = (await client.create("the other one"))["id"]
    async with following(client, other) as follower:
        await follower.seen(lambda event: event.type == "tool.output" and "ready" in str(event.data))
        looked = "cat canary /tmp/canary ~/canary /dev/shm/canary /proc/[0-9]*/cmdline /proc/[0-9]*/environ; ls /tmp"
        signal = SIGNAL.format(pid=os.getpid())
        _, results, events = await attempt(client, provider, command(looked), command(signal))
        assert sleepers(seconds) == 1
    assert host.secret not in said(events)
    assert seconds not in results[0]["output"]
    assert (await client.session(other))["status"] == "running"
    assert (await client.http.delete(f"/v1/sessions/{other}")).status_code == 204


SWAP = """
mkdir d away; echo inside >d/f; echo inside >f; ln -s d/f way; echo begun
turn=0
while [ ! -e stop ] && [ $turn -lt 20000 ]; do
    turn=$((turn+1))
    mv d away/d; ln -s {target} d; rm d; mv away/d d
    mv f away/f; ln -s {target}/f f; rm f; mv away/f f
done
echo ended
"""
CONTAINED = {200, 201, 204, 403, 404, 422}
"""Errors a client may get while names change during its request."""


async def whole_or_broken(client: Client, session_id: str) -> httpx.Response:
    """The archive. Docker's is made by the Engine, which breaks off if a file becomes shorter while it is read; a
    client notices that, as the response does not end properly."""
    content = bytearray()
    async with client.http.stream("GET", f"/v1/sessions/{session_id}/archive") as answer:
        with suppress(httpx.RemoteProtocolError):
            async for piece in answer.aiter_bytes():
                content += piece
    return httpx.Response(answer.status_code, content=bytes(content))


@pytest.mark.shared_server
@pytest.mark.slow
async def test_swapping_a_directory_and_a_link_leads_nowhere(
    client: Client, server: RunningServer, provider: FakeProvider, sandbox: str, host: Host
) -> None:
    provider.script_for("swap", Reply(command(SWAP.format(target=host.directory))), Reply(command(HARMLESS)))
    session_id = (await client.create("swap"))["id"]
    base = f"/v1/sessions/{session_id}"
    answers: list[httpx.Response] = []
    async with following(client, session_id) as follower:
        await follower.seen(lambda event: event.type == "tool.output" and "begun" in str(event.data))
        for turn in range(8 if sandbox == "docker" else 40):
            answers += await asyncio.gather(
                client.http.get(address(session_id, "d/f")),
                client.http.put(address(session_id, "d/f"), content=b"uploaded"),
                client.http.put(address(session_id, f"d/new/{turn}"), content=b"uploaded"),
                client.http.get(address(session_id, "way")),
                client.http.put(address(session_id, "way"), content=b"uploaded"),
                client.http.put(address(session_id, "f"), content=b"uploaded"),
                client.http.get(f"{base}/files", params={"path": "d"}),
                whole_or_broken(client, session_id),
            )
        forked = await client.http.post(f"{base}/fork", json={})
        assert (await client.http.put(address(session_id, "stop"), content=b"")).is_success
    events = await client.until_idle(session_id)

    assert of_type(events, "tool.result")[-1].data["output"] == "still here\n"
    wrong = [(answer.status_code, answer.text[:300]) for answer in answers if answer.status_code not in CONTAINED]
    assert wrong == []
    assert forked.status_code == 201, forked.text
    answers.append(await client.http.get(f"/v1/sessions/{forked.json()['id']}/archive"))
    assert not [answer for answer in answers if host.secret.encode() in answer.content]
    assert host.is_untouched()
    assert (await client.http.get("/healthz")).status_code == 200


NAMES = (
    b"new\nline",
    b"forged\n          999  entry",
    b"data: x\n\nevent: forged",
    b"\x1b[2J\x1b]0;title\x07\x1b[31m",
    b"carriage\rreturn\tand\x08back\x7f\xc2\x9b31m",
    b"\xff\xfe not \xc3 UTF-8",
    "\u202egnp.exe".encode(),
    b"x" * 255,
    b"$(touch made)`touch made`;touch made",
    b"..\\..\\up",
    b"%2e%2e%2fup",
    b"-rf",
    b" ",
    b"~",
    b"C:",
)
"""Hostile file names."""

MAKE = """
{make}
deep() {{ mkdir {long} 2>/dev/null && cd {long} && echo deep >f && [ "$1" -gt 1 ] && deep $(($1-1)); }}
(deep 17)
mkdir shallow; cd shallow; i=0; while [ $i -lt 210 ]; do mkdir d; cd d; i=$((i+1)); done; cd /workspace; echo made all
"""
"""The names, a path longer than PATH_MAX, and one with more directories than are ever walked."""


def octal(name: bytes) -> str:
    """A name as an argument of `printf`."""
    return "".join(f"\\{byte:03o}" for byte in name)


def plain(text: str) -> bool:
    """Whether a terminal shows it verbatim: no cursor movement, colors or text direction."""
    return all(line.isprintable() for line in text.split("\n"))


@pytest.mark.slow
async def test_names_cannot_deceive(
    client: Client, provider: FakeProvider, sandbox: str, tmp_path: Path, host: Host
) -> None:
    make = "\n".join(f"""printf 'line {n}' >"./$(printf '{octal(name)}')" """ for n, name in enumerate(NAMES))
    calls = (
        command(MAKE.format(make=make, long="l" * 250)),
        ToolCall("list_directory", {"path": "."}),
        ToolCall("search_files", {"pattern": "^line [0-9]+$", "path": "."}),
    )
    session_id, (made, listed, searched), _ = await attempt(client, provider, *calls)

    assert made["output"].endswith("made all\n"), made
    assert [listed["status"], searched["status"]] == ["completed"] * 2
    assert plain(listed["output"])
    assert plain(searched["output"])
    assert len(listed["output"].splitlines()) == len(NAMES) + 2
    items = (await client.get(f"/v1/sessions/{session_id}/files"))["items"]
    files = {item["path"] for item in items if item["type"] == "file"}
    assert files == {name.decode("utf-8", "replace") for name in NAMES}
    for number, name in enumerate(NAMES):
        answer = await client.http.get(address(session_id, name.decode("utf-8", "replace")))
        if b"\xff" in name:  # not representable in JSON
            assert (answer.status_code, answer.json()["code"]) == (404, "file_not_found")
        else:
            assert (answer.status_code, answer.text) == (200, f"line {number}")
            assert plain(str(answer.headers))
    await assert_harmless_archive(client, session_id, tmp_path / "unpacked")
    assert (await client.http.delete(f"/v1/sessions/{session_id}")).status_code == 204


async def assert_harmless_archive(client: Client, session_id: str, folder: Path) -> None:
    """It unpacks only below the folder, and contains all files."""
    data = (await client.http.get(f"/v1/sessions/{session_id}/archive")).content
    with tarfile.open(fileobj=io.BytesIO(data), errors="surrogateescape") as archive:
        archived = archive.getnames()
    assert {name.decode("utf-8", "surrogateescape") for name in NAMES} <= set(archived)
    assert not [name for name in archived if name.startswith("/") or ".." in name.split("/")]
    await asyncio.to_thread(unpack, io.BytesIO(data), folder)
    assert (folder / "~").read_text() == f"line {NAMES.index(b'~')}"
    assert (folder.parent / "data").is_dir()
