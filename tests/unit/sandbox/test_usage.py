"""What is known of a sandbox's use of disk and memory, and what a command that uses too much meets with."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from app.errors import WorkspaceFullError
from app.sandbox.docker import container
from app.sandbox.docker.watch import COUNT_S, LATER_S, LOOKS_S
from app.sandbox.host.disk import ENTRY_BYTES, Count, DiskUse, count, unnamed
from app.sandbox.host.process_tree import Standstill
from app.sandbox.host.watch import HostDisk, MemoryUse, in_thread
from tests.unit.sandbox.conftest import make_factory
from tests.unit.sandbox.shell import Shell, new_config, unique_seconds, until_gone, until_sleeping

MIB = 2**20


def test_lost_free_space_casts_doubt_on_the_usage() -> None:
    use = DiskUse(100)
    assert not use.doubtful
    use.saw(1000)
    use.counted(40, whole=True)
    use.saw(990)
    use.saw(1500)  # others deleted something
    use.saw(1460)
    assert not use.doubtful
    use.saw(1449)
    assert use.doubtful
    assert not use.full, "before it is counted nobody is ended"
    use.counted(60, whole=True)
    assert not use.doubtful


def test_a_partial_count_never_lowers_the_usage() -> None:
    use = DiskUse(100)
    use.saw(1000)
    use.saw(850)
    use.counted(5, whole=False)
    assert use.full
    use.counted(5, whole=False)
    assert use.full
    use.counted(5, whole=True)
    assert not use.full


LEADERLESS = """
import ctypes, mmap, os, platform, sys, threading, time
def hold():
    memory = mmap.mmap(-1, 32 << 20)
    memory.write(b"x" * (32 << 20))
    file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
    os.unlink(sys.argv[1])
    os.write(file, b"x" * (8 << 20))
    os.fsync(file)
    while open(f"/proc/{os.getpid()}/stat").read().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.001)
    print("alone", flush=True)
    time.sleep(60)
threading.Thread(target=hold).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
"""


def test_a_process_counts_after_its_first_thread_has_ended(tmp_path: Path) -> None:
    """The kernel shows no memory and no files under the process's own number then."""
    argv = [sys.executable, "-c", LEADERLESS, str(tmp_path / "file")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "alone\n"
        held = unnamed(holder.pid, {tmp_path.stat().st_dev})
        both = MemoryUse(2**40).look(holder.pid), MemoryUse(0).look(holder.pid)
        holder.kill()
    assert (held.used, held.whole) == (8 * MIB, True)
    assert min(both) > 32 * MIB


def test_a_count_takes_blocks_and_no_links(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "file").write_bytes(os.urandom(MIB))
    with (tmp_path / "holes").open("wb") as holes:
        holes.truncate(100 * MIB)
    (tmp_path / "up").symlink_to("/usr")
    found = count([tmp_path, tmp_path / "missing"])
    assert MIB < found.used < MIB + 20 * ENTRY_BYTES
    assert found.whole


def test_trees_deeper_than_a_path_can_be_count(tmp_path: Path) -> None:
    directory = os.open(tmp_path, os.O_RDONLY)
    for _ in range(50):
        os.mkdir("d" * 200, dir_fd=directory)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=directory)
        os.close(directory)
        directory = below
    file = os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=directory)
    os.write(file, os.urandom(MIB))
    os.fsync(file)
    os.close(file)
    os.close(directory)
    found = count([tmp_path])
    assert found.used > MIB
    assert found.whole


def filled(root: Path, files: int) -> Path:
    root.mkdir()
    (root / "file").write_bytes(b"x")
    for number in range(files):
        (root / f"{number}").hardlink_to(root / "file")
    return root


@pytest.mark.extended
async def test_a_small_count_does_not_wait_for_large_ones(tmp_path: Path) -> None:
    large = [HostDisk([filled(tmp_path / f"{number}", 20_000)], DiskUse(MIB)) for number in range(6)]
    small = HostDisk([filled(tmp_path / "small", 10)], DiskUse(MIB))
    counts = [asyncio.ensure_future(in_thread(partial(disk.count, None))) for disk in large]
    await in_thread(partial(small.look, None, must_know=True))
    assert small.use.used is not None
    assert [disk.use.used for disk in large] == [None] * 6
    await asyncio.gather(*counts)
    assert min(disk.use.used or 0 for disk in large) > 20_000 * ENTRY_BYTES


@contextmanager
def waiting() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sh", "-c", "read -r line; :"], stdin=subprocess.PIPE) as child:
        yield child
        child.communicate(b"\n")


@pytest.mark.parametrize("much", [True, False])
async def test_nothing_is_written_while_far_too_much_is_counted(tmp_path: Path, *, much: bool) -> None:
    limit = 2**40
    disk = HostDisk([filled(tmp_path / "workspace", 30_000)], DiskUse(limit))
    disk.use.counted(2 * limit if much else limit, whole=True)
    with waiting() as child:
        counting = asyncio.ensure_future(in_thread(partial(disk.count, os.getpid())))
        states = set()
        while not counting.done():
            states.add(_state(child.pid))
            await asyncio.sleep(0)
        assert ("T" in states) is much
        while _state(child.pid) == "T":
            os.sched_yield()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@contextmanager
def family(children: int, megabytes: int) -> Iterator[int]:
    """A process whose children were made after it has filled its memory, which they share."""
    fill = f"import os, sys; held = bytearray(os.urandom(1)) * ({megabytes} << 20)\n"
    fork = f"[os.fork() or (sys.stdin.read(), os._exit(0)) for _ in range({children})]\nprint('ready', flush=True)\n"
    argv = [sys.executable, "-c", fill + fork + "sys.stdin.read()"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        yield parent.pid
        parent.communicate()


def test_shared_memory_counts_once_near_the_limit() -> None:
    with family(children=5, megabytes=40) as pid:
        assert MemoryUse(10_000 * MIB).look(pid) > 200 * MIB
        assert 40 * MIB < MemoryUse(100 * MIB).look(pid) < 120 * MIB
    assert MemoryUse(0).look(pid) == 0, "it is gone"


BORROWED = """
import ctypes, sys
held = bytearray(64 << 20)
libc = ctypes.CDLL(None)
stack = ctypes.create_string_buffer(1 << 20)
CLONE_VM, CLONE_VFORK, SIGCHLD = 0x100, 0x4000, 17
@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
def child(_):
    print("borrowed", flush=True)
    sys.stdin.read()
    return 0
libc.clone(child, ctypes.byref(stack, 1 << 20), CLONE_VM | CLONE_VFORK | SIGCHLD, None)
"""


def test_memory_shared_after_vfork_counts_once() -> None:
    """As between vfork and exec, whenever a program starts another."""
    argv = [sys.executable, "-c", BORROWED]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"borrowed\n"
        assert 64 * MIB < MemoryUse(32 * MIB).look(parent.pid) < 128 * MIB
        parent.communicate()


MANY_THREADS = """
import sys, threading
[threading.Thread(target=sys.stdin.read, daemon=True).start() for _ in range(100)]
print("begun", flush=True)
sys.stdin.read()
"""


def test_a_process_of_many_threads_is_counted_as_a_whole() -> None:
    argv = [sys.executable, "-c", MANY_THREADS]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        assert unnamed(process.pid, set()) == Count(0, True)
        process.kill()


def test_a_process_stopped_twice_continues_after_both() -> None:
    with waiting() as child:
        with Standstill() as first:
            first.stop(os.getpid())
            with Standstill() as second:
                second.stop(os.getpid())
            while _state(child.pid) != "T":
                os.sched_yield()
        while _state(child.pid) == "T":
            os.sched_yield()


GIVEN_BACK = """
import mmap, sys
memory = mmap.mmap(-1, 64 << 20)
memory.write(b"x" * (64 << 20))
memory.madvise(mmap.MADV_DONTNEED)
print("given back", flush=True)
sys.stdin.read()
"""


def test_unmapped_shared_memory_counts() -> None:
    use = MemoryUse(48 * MIB)
    argv = [sys.executable, "-c", GIVEN_BACK]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"given back\n"
        assert use.look(holder.pid) > 64 * MIB
        assert use.look(holder.pid) > 64 * MIB, "what was found before is not forgotten"
        holder.communicate()


@pytest_asyncio.fixture
async def narrow(walled_kind: str, data_dir: Path, instance_id: str) -> AsyncIterator[Shell]:
    """A sandbox that may have 64 MiB of the disk."""
    factory = make_factory(walled_kind, data_dir, instance_id)
    sandbox = factory.open(new_config(disk_mb=64))
    yield Shell(sandbox)
    await sandbox.remove()
    await factory.aclose()


async def test_a_workspace_beyond_its_limit_takes_nothing_more(narrow: Shell) -> None:
    ran = await narrow.run("head -c 100000000 /dev/zero > large; head -c 30000000 /dev/zero > more; sleep 30")
    assert (ran.code, ran.result.timed_out) == (None, False)
    assert "of 64 MiB allowed" in (ran.result.remark or "")
    with pytest.raises(WorkspaceFullError):
        await narrow.sandbox.write("file", b"x")
    assert (await narrow.run("echo x > small || exit 7")).code != 0
    assert (await narrow.run("rm large")).result.remark is None
    await narrow.sandbox.write("file", b"x")
    assert (await narrow.run("echo x >> file; cat file")).out == "xx\n"


HIDING = {
    "open": "exec {n}>f{n}; rm f{n}; head -c 30000000 /dev/zero >&{n};",
    "in a background process": "(exec {n}>f{n}; rm f{n}; head -c 30000000 /dev/zero >&{n}; exec sleep 30) &",
}


@pytest.fixture(params=["here", "elsewhere"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, walled_kind: str) -> str:
    """Whether a container's files are known to be on this host."""
    if request.param == "elsewhere":
        if walled_kind != "docker":
            pytest.skip("bubblewrap is always on this host")
        monkeypatch.setattr(container, "_find_here", lambda *_: None)
    return str(request.param)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("how", HIDING)
async def test_unlinked_files_count(narrow: Shell, how: str) -> None:
    hide = "".join(HIDING[how].format(n=number) for number in range(3, 9))
    ran = await narrow.run(f"{hide} sleep 30", timeout_s=20)
    assert (ran.code, ran.result.timed_out) == (None, False)
    assert "of 64 MiB allowed" in (ran.result.remark or "")
    assert (await narrow.run("echo x > file; cat file")).out == "x\n", "they are gone with the processes"


@pytest.mark.docker
@pytest.mark.parametrize("how", ["unnamed", pytest.param("named", marks=pytest.mark.extended)])
async def test_what_a_background_process_writes_counts(place: str, narrow: Shell, how: str) -> None:
    """Its command has ended long before. All that runs is ended, and the next command says so."""
    if narrow.kind != "docker":
        pytest.skip("a command's namespace ends with it")
    seconds = unique_seconds()
    each = "head -c 30000000 /dev/zero > f{n};" if how == "named" else HIDING["open"]
    write = "".join(each.format(n=number) for number in range(3, 9))
    await narrow.run(f"(setsid sh -c 'sleep {seconds} & sleep 0.5; {write} wait' >/dev/null 2>&1 &)")
    await until_sleeping(seconds)
    # If writing takes longer than the first checks, a disk elsewhere is checked only so much later.
    await until_gone(seconds, within_s=60 + (sum(LOOKS_S) + LATER_S + COUNT_S if place == "elsewhere" else 0))
    ran = await narrow.run("rm -f f*")
    assert "all that ran in the background was ended" in (ran.result.remark or "")
    assert (await narrow.run("echo x > file; cat file")).result.remark is None
