"""What is bubblewrap's own: the view, the two users it runs as, the end of the server."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import platform
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from app.errors import SandboxError, SandboxUnavailableError
from app.sandbox.base import SandboxLimits
from app.sandbox.host.bubblewrap import BubblewrapFactory, find_bwrap
from app.sandbox.host.etc import Etc
from app.sandbox.host.kernel import FAMILIES, MACHINES, Cgroups, filter_program
from app.sandbox.host.namespace import View
from app.sandbox.host.process_tree import NICENESS
from tests.unit.sandbox.shell import Shell, new_config, unique_seconds, until_gone, until_sleeping

HAS_AUTOGROUPS = Path("/proc/self/autogroup").exists()
NOBODY = 65534
KEYCTL = MACHINES[platform.machine()].denied["keyctl"]
REPOSITORY = Path(__file__).parents[3]

# A server in miniature: says what a command prints, or that it has begun, and waits to be killed.
SERVER = """
import asyncio, json, sys
from pathlib import Path
from app.sandbox.base import SandboxConfig, SandboxLimits
from app.sandbox.host.bubblewrap import BubblewrapFactory

async def main(data_dir, command):
    factory = BubblewrapFactory(Path(data_dir))
    await factory.check()
    sandbox = factory.open(SandboxConfig("session", "", False, SandboxLimits(memory_mb=256, pids=64)))
    await sandbox.write("dir/written", b"by the server")
    def show(stream, data):
        print(json.dumps(data.decode()), flush=True)
    result = await sandbox.exec(command, timeout_s=30, on_output=show)
    print(json.dumps(result.exit_code), flush=True)
    print(json.dumps((await sandbox.read("made")).decode()), flush=True)
    await sandbox.remove()

asyncio.run(main(*sys.argv[1:]))
"""


pytestmark = [pytest.mark.bubblewrap, pytest.mark.usefixtures("bubblewrap")]


HARMLESS = {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK}
"""Not AF_VSOCK, for instance, whose sockets belong to no network namespace."""
ASK = """
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def ask(name, *arguments):
    ctypes.set_errno(0)
    got = libc.syscall(*arguments)
    print(name, errno.errorcode.get(ctypes.get_errno()) if got < 0 else "done")
numbers = {numbers}
for name, number in numbers.items():
    ask(name, number, 0, 0, 0, 0, 0)
ask("clone3", 435, 0, 0)
ask("user namespace", {clone}, 0x10000000 | 17, 0, 0, 0, 0)
for family in range(1, 46):
    try:
        socket.socket(family, socket.SOCK_DGRAM).close()
        print(family, "done")
    except OSError as exc:
        if exc.errno != errno.EAFNOSUPPORT:
            print(family, errno.errorcode[exc.errno])
"""


async def test_only_harmless_system_calls_are_allowed(walled: Shell) -> None:
    machine = MACHINES[platform.machine()]
    script = ASK.format(numbers=machine.denied, clone=machine.clone)
    ran = await walled.python(script)
    said = dict(line.rsplit(" ", 1) for line in ran.out.splitlines())
    families = {int(name) for name in said if name.isdigit()}
    calls = {name: answer for name, answer in said.items() if not name.isdigit()}
    assert calls == {**dict.fromkeys(machine.denied, "EPERM"), "clone3": "ENOSYS", "user namespace": "EPERM"}
    assert set(calls) >= {"keyctl", "add_key", "request_key", "bpf", "setns", "unshare", "mount", "vmsplice"}
    assert families | set(FAMILIES) == HARMLESS
    assert families >= {socket.AF_UNIX, socket.AF_INET}


def test_the_systems_bwrap_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its distribution patches it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    packaged = find_bwrap()
    (tmp_path / "bwrap").write_text("#!/bin/sh\n")
    (tmp_path / "bwrap").chmod(0o755)
    assert find_bwrap() == tmp_path / "bwrap" != packaged


async def test_ordinary_programs_work_under_the_filter(walled: Shell) -> None:
    """Threads, processes, pipes and sockets."""
    script = (
        "import asyncio, concurrent.futures, socket, subprocess, threading\n"
        "with concurrent.futures.ProcessPoolExecutor(2) as pool: assert list(pool.map(abs, [-1, 2])) == [1, 2]\n"
        "socket.socketpair(); asyncio.run(asyncio.to_thread(subprocess.run, ['true'], check=True)); print('fine')\n"
    )
    ran = await walled.run(f"cat > script.py <<'END'\n{script}END\n/usr/bin/python3 script.py")
    assert ran.out == "fine\n", ran.err


async def test_each_command_has_its_own_keyring(keyring: int, walled: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told without the filter, which forbids to ask."""
    monkeypatch.setattr("app.sandbox.host.bubblewrap.filter_program", lambda: None)
    script = f"import ctypes; print(ctypes.CDLL(None).syscall({KEYCTL}, 0, -3, 1))"
    rings = {int((await walled.python(script)).out) for _ in range(3)}
    assert len(rings | {keyring}) == 4


async def test_a_command_has_a_lower_cpu_priority_than_the_server(walled: Shell) -> None:
    assert (await walled.run("nice")).out == f"{os.nice(0) + NICENESS}\n"


async def test_setsid_does_not_raise_the_cpu_priority(walled: Shell) -> None:
    """It has an autogroup of its own, which is put behind the server too."""
    if not HAS_AUTOGROUPS:
        pytest.skip("this kernel has no autogroups")
    read = "read -r said </proc/self/autogroup; case $said in *10) break ;; esac"
    look = f"for i in $(seq 100); do {read}; sleep 0.1; done"
    ran = await walled.run(f"setsid sh -c '{look}; echo $said'")
    assert ran.out.endswith(f" nice {NICENESS}\n")


def test_an_unknown_architecture_has_no_filter() -> None:
    assert filter_program("riscv64") is None
    assert all(len(filter_program(name) or b"") % 8 == 0 for name in MACHINES)


@pytest.fixture
def keyring() -> int:
    """The session keyring of this process, which its threads inherit from now on."""
    number: int = ctypes.CDLL(None).syscall(KEYCTL, 0, -3, 1)
    if number < 0:
        pytest.skip("this kernel has no keyrings")
    return number


@pytest_asyncio.fixture
async def walled(data_dir: Path) -> AsyncIterator[Shell]:
    sandbox = BubblewrapFactory(data_dir).open(new_config())
    yield Shell(sandbox)
    await sandbox.remove()


def arguments(**changes: object) -> list[str]:
    values = {
        "workspace": Path("/d/w"),
        "scratch": Path("/d/s"),
        "etc": Etc(Path("/d/etc"), network=False),
        "network": False,
        "limits": SandboxLimits(),
        "uid": None,
    }
    return View(**{**values, **changes}).arguments()  # type: ignore[arg-type]


@pytest.mark.parametrize("uid", [None, 30_000])
def test_the_view_is_an_allowlist(uid: int | None) -> None:
    given = arguments(uid=uid, hidden=(Path("/usr/share/palimpsest"),))
    sources = [given[index + 1] for index, word in enumerate(given) if word.endswith(("bind", "bind-try"))]
    allowed = {
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/lib32",
        "/lib64",
        "/libx32",
        "/d/w",
        "/d/etc",
        "/d/s/tmp",
        "/d/s/home",
        "/d/s/passwd",
        "/d/s/group",
    }
    assert {source for source in sources if not source.startswith("/etc/")} <= allowed
    writable = [given[index + 2] for index, word in enumerate(given) if word == "--bind"]
    assert writable == ["/home/agent", "/tmp", "/workspace"]
    for needed in ("--new-session", "--die-with-parent", "--clearenv", "--cap-drop"):
        assert needed in given
    assert given[given.index("/usr/share/palimpsest") - 1] == "--tmpfs"


def test_the_network_is_shared_only_on_request() -> None:
    assert "--share-net" not in arguments()
    assert "--share-net" in arguments(network=True)
    assert "--unshare-net" in arguments(uid=30_000)
    assert "--unshare-net" not in arguments(uid=30_000, network=True)


def unprivileged(directory: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Runs the server in miniature as a user without rights."""
    os.chmod(directory, 0o755)
    for parent in directory.parents:
        if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
            os.chmod(parent, parent.stat().st_mode | 0o055)
    own = directory / "own"
    own.mkdir(mode=0o700)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}
    python = [sys.executable, "-c", SERVER, str(own), command]
    if os.geteuid() == 0:
        os.chown(own, NOBODY, NOBODY)
        python = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", *python]
    ran = subprocess.run(python, env=environment, capture_output=True, text=True, timeout=60, check=False)
    if ("Permission denied" in ran.stderr and "python" in ran.stderr) or not is_open(REPOSITORY):
        pytest.skip("the interpreter or the checkout lies where another user cannot reach it")
    return ran


def is_open(place: Path) -> bool:
    """Whether every user can reach a directory."""
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in (place, *place.parents))


@pytest.mark.skipif(os.geteuid() == 0 and not os.access("/usr/bin/setpriv", os.X_OK), reason="needs setpriv")
def test_an_unprivileged_server_has_sandboxes(tmp_path: Path) -> None:
    command = "id -u; cat dir/written; echo from the command >made; chmod 600 made; unshare -r echo nested 2>/dev/null"
    ran = unprivileged(tmp_path, command)
    assert ran.returncode == 0, ran.stderr
    *output, code, made = map(json.loads, ran.stdout.splitlines())
    assert "".join(output) == "1000\nby the server"
    assert code != 0
    assert made == "from the command\n"


@pytest.mark.skipif(os.geteuid() == 0 and not os.access("/usr/bin/setpriv", os.X_OK), reason="needs setpriv")
def test_an_unprivileged_server_limits_memory(tmp_path: Path) -> None:
    """Each of the command's processes has less than the 256 MiB that all of them may have."""
    hog = "head -c 300000000 /dev/zero | tail -c 99999999 >/dev/null"
    command = f"touch made; for i in $(seq 9); do {hog} & done; sleep 20"
    ran = unprivileged(tmp_path, command)
    assert [json.loads(line) for line in ran.stdout.splitlines()] == [None, ""], ran.stderr


async def test_commands_die_with_the_server(tmp_path: Path) -> None:
    """It is killed, so nothing of its own can clean up."""
    seconds = unique_seconds()
    command = f"(env -i setsid sleep {seconds} &) ; sleep {seconds}"
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, str(tmp_path), command, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}
    )
    await until_sleeping(seconds)
    os.kill(server.pid, signal.SIGKILL)
    await server.wait()
    await until_gone(seconds)
    factory = BubblewrapFactory(tmp_path)
    assert await factory.remove_orphans({"session"}) == []
    assert await factory.open(new_config("session")).read("dir/written") == b"by the server"
    assert await factory.remove_orphans(set()) == ["workspace session"]
    assert os.listdir(tmp_path / "workspaces") == []


async def test_a_broken_bwrap_is_reported(tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(SandboxUnavailableError, match="No permissions to create new namespace"):
        await BubblewrapFactory(tmp_path, broken).check()
    with pytest.raises(SandboxUnavailableError, match="bubblewrap cannot make a sandbox"):
        await BubblewrapFactory(tmp_path, tmp_path / "nowhere").check()


async def test_a_check_leaves_nothing_behind(data_dir: Path) -> None:
    factory = BubblewrapFactory(data_dir)
    await factory.check()
    assert [os.listdir(data_dir / name) for name in ("workspaces", "scratch")] == [[], []]
    assert "bubblewrap at" in factory.describe()
    await factory.aclose()


async def test_a_data_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    sandbox = BubblewrapFactory(tmp_path / "file").open(new_config())
    with pytest.raises(SandboxUnavailableError, match="data directory"):
        await sandbox.start()


async def test_each_session_has_its_own_user_if_the_server_is_root(data_dir: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("the server is not root")
    factory = BubblewrapFactory(data_dir)
    shells = [Shell(factory.open(new_config(name))) for name in ("one", "two")]
    uids = [(await shell.run("id -u; id -un")).out for shell in shells]
    assert uids[0] != uids[1]
    assert all(text.endswith("\nagent\n") for text in uids)
    for shell in shells:
        await shell.sandbox.remove()


async def test_many_commands_at_once(data_dir: Path) -> None:
    shell = Shell(BubblewrapFactory(data_dir).open(new_config()))
    ran = await asyncio.gather(*(shell.run(f"echo {number}") for number in range(20)))
    assert [one.out for one in ran] == [f"{number}\n" for number in range(20)]
    await shell.sandbox.remove()


# Control groups: the test machine may have none of version 2, so the tree is made of plain files.


def tree(root: Path, *groups: tuple[str, str]) -> Path:
    for path, controllers in groups:
        (root / path).mkdir(parents=True, exist_ok=True)
        (root / path / "cgroup.subtree_control").write_text(controllers)
    own = root / "own"
    own.write_text("3:cpu:/x\n0::/user.slice/app.slice/palimpsest.scope\n")
    return own


def test_the_nearest_group_that_delegates_controllers_is_used(tmp_path: Path) -> None:
    own = tree(
        tmp_path,
        ("user.slice", "cpu memory pids"),
        ("user.slice/app.slice", "cpu\n"),
        ("user.slice/app.slice/palimpsest.scope", ""),
    )
    # a plain directory has no `memory.max`, as a group without the controller has none
    assert Cgroups.find(tmp_path, own) is None
    name_of_probe = f"probe-{threading.get_native_id()}"
    for name in ("memory.max", "pids.max", "cgroup.procs", "cpu.max"):
        probe = tmp_path / "user.slice" / f"palimpsest-{name_of_probe}"
        probe.mkdir(exist_ok=True)
        (probe / name).write_text("max")
    found = Cgroups.find(tmp_path, own)
    assert found is not None
    assert found.parent == tmp_path / "user.slice"
    assert int((probe / "memory.max").read_text()) == 2048 * 2**20
    assert (probe / "cpu.max").read_text() == "200000 100000\n"
    found.add(name_of_probe, 42)
    assert (probe / "cgroup.procs").read_text().startswith("42")


def test_without_a_usable_cgroup_none_is_found(tmp_path: Path) -> None:
    assert Cgroups.find(tmp_path, tmp_path / "missing") is None
    own = tmp_path / "own"
    own.write_text("4:memory:/x\n")
    assert Cgroups.find(tmp_path, own) is None


async def test_commands_are_put_into_the_sessions_group(data_dir: Path, tmp_path: Path) -> None:
    groups = tmp_path / "groups" / "palimpsest-session"
    groups.mkdir(parents=True)
    for name in ("memory.max", "pids.max", "cgroup.procs"):
        (groups / name).write_text("")
    factory = BubblewrapFactory(data_dir, cgroups=Cgroups(groups.parent))
    shell = Shell(factory.open(new_config("session")))
    assert (await shell.run("echo $$")).code == 0
    assert int((groups / "cgroup.procs").read_text()) > 1
    assert (groups / "pids.max").read_text() == "64\n"
    assert "cgroup" in factory.describe()
    (groups / "cgroup.procs").unlink()
    with pytest.raises(SandboxError, match="could not start"):
        await shell.run("echo never")
    await factory.remove_orphans(set())


@pytest.mark.parametrize(
    ("command", "ended"),
    [
        ("true", 0),
        ("sleep 100 & sleep 100 & exit 3", 2),
        ("(setsid nohup sleep 100 &) >/dev/null 2>&1", 1),
        ("sleep 100 & kill $!; wait; seq 9 | tail -1", 0),
    ],
)
async def test_processes_that_end_with_their_command_are_counted(walled: Shell, command: str, ended: int) -> None:
    ran = await walled.run(command)
    assert (ran.result.ended_with, ran.result.remark) == (ended, None)
