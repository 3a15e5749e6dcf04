"""Snapshots of directories of the host: whatever a command has left there comes back as it was, and nothing else."""

from __future__ import annotations

import os
import shutil
import socket
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import PalimpsestError, TooLargeError, WorkspaceStoreError
from app.messages import now
from app.runtime.workspaces.reading import archive
from app.runtime.workspaces.store import ObjectMissingError
from app.runtime.workspaces.taking import MANY_SMALL, Snapshot
from app.runtime.workspaces.tree import (
    BLOB_BYTES,
    Blob,
    Entry,
    InvalidSnapshotError,
    Manifest,
    Tree,
    cut,
    decode,
    encode,
    verified,
)
from app.runtime.workspaces.view import SnapshotView
from app.sandbox.base import MovableSandbox
from app.sandbox.host.local import LocalFactory
from tests.unit.sandbox.shell import new_config
from tests.unit.workspaces.rig import Keeping, content


async def made(folder: Path, name: str) -> tuple[MovableSandbox, Path]:
    """A sandbox with an empty workspace, and that directory."""
    config = new_config(name)
    sandbox = cast(MovableSandbox, LocalFactory(folder).open(config))
    await sandbox.start()
    return sandbox, folder / "workspaces" / name


@pytest.fixture
async def keeping(tmp_path: Path) -> Keeping:
    return Keeping((await made(tmp_path, "source"))[0])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "workspaces" / "source"


NAMES = st.binary(min_size=1, max_size=12).filter(lambda n: n not in (b".", b"..") and not set(n) & {0, 47})
TREES = st.recursive(
    st.one_of(
        st.binary(max_size=200).map(lambda data: ("file", data)),
        st.binary(min_size=1, max_size=40).filter(lambda t: 0 not in t).map(lambda target: ("link", target)),
        st.just(("fifo", b"")),
    ),
    lambda below: st.dictionaries(NAMES, below, max_size=5).map(lambda found: ("directory", found)),
    max_leaves=20,
)


def build(place: bytes, tree: object, mode: int) -> None:
    kind, value = cast(tuple[str, object], tree)
    if kind == "directory":
        if not os.path.isdir(place):
            os.mkdir(place)
        for name, below in cast(dict[bytes, object], value).items():
            build(os.path.join(place, name), below, mode)
        os.chmod(place, mode | 0o500)
    elif kind == "file":
        with open(place, "wb") as file:
            file.write(cast(bytes, value))
        os.chmod(place, mode)
    elif kind == "link":
        os.symlink(cast(bytes, value), place)
    else:
        os.mkfifo(place)


@given(
    first=st.dictionaries(NAMES, TREES, max_size=6),
    second=st.dictionaries(NAMES, TREES, max_size=6),
    mode=st.sampled_from([0o644, 0o755, 0o600, 0o640, 0o444]),
)
@pytest.mark.slow
async def test_any_tree_comes_back(first: dict[bytes, object], second: dict[bytes, object], mode: int) -> None:
    """Two snapshots, the second one after entries were added and replaced."""
    with TemporaryDirectory() as folder:
        sandbox, root = await made(Path(folder), "source")
        keeping = Keeping(sandbox)
        build(os.fsencode(root), ("directory", first), mode)
        await keeping.take()
        if first.keys() & second.keys():
            shutil.rmtree(root)
            root.mkdir()
        build(os.fsencode(root), ("directory", second), mode)
        await keeping.take()
        target, restored = await made(Path(folder), "target")
        await keeping.restore_to(target)
        assert content(restored) == content(root)


async def test_links_holes_and_special_files(keeping: Keeping, root: Path, tmp_path: Path) -> None:
    (root / "deep").mkdir()
    (root / "deep" / "file").write_bytes(b"content")
    os.link(root / "deep" / "file", root / "a-hard-link")
    (root / "escape").symlink_to("/etc/passwd")
    (root / "loop").symlink_to("loop")
    (root / "read-only").mkdir(mode=0o555)
    with (root / "sparse").open("wb") as file:
        file.truncate(3 * BLOB_BYTES)
        file.seek(BLOB_BYTES + 5)
        file.write(b"x")
    (root / "set-uid").write_bytes(b"")
    (root / "set-uid").chmod(0o4755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
        await keeping.take()
    target, restored = await made(tmp_path, "target")
    await keeping.restore_to(target)
    assert not (restored / "socket").exists()
    assert os.readlink(restored / "escape") == "/etc/passwd"
    assert (restored / "a-hard-link").stat().st_ino == (restored / "deep" / "file").stat().st_ino
    assert (restored / "sparse").read_bytes() == (root / "sparse").read_bytes()
    assert (restored / "sparse").stat().st_blocks * 512 < BLOB_BYTES, "the holes take no space"
    assert (restored / "set-uid").stat().st_mode & 0o7777 == 0o755
    assert (restored / "read-only").stat().st_mode & 0o777 == 0o555
    assert keeping.store.put_bytes < 100_000, "zeros are stored once, compressed"


async def test_only_changes_are_read_and_stored(keeping: Keeping, root: Path) -> None:
    for number in range(300):
        (root / f"file-{number}").write_bytes(os.urandom(2000))
        os.utime(root / f"file-{number}", (1, 1))
    await keeping.take()
    assert keeping.store.put_bytes > 600_000
    first = keeping.newest
    _wait_for_the_clock(root)
    assert await keeping.take() is not None
    (root / "file-7").write_bytes(b"other")
    await keeping.take()
    assert keeping.store.put_bytes < 100_000
    assert keeping.newest.id != first.id
    (root / "file-7").rename(root / "moved")
    await keeping.take()
    assert keeping.store.put_bytes < 100_000
    assert {entry.path for entry in keeping.newest.tree.entries} >= {b"moved", b"file-8"}
    unchanged = keeping.newest.id
    await keeping.take()
    assert keeping.newest.id == unchanged
    assert keeping.store.put_bytes == 0


def _wait_for_the_clock(root: Path) -> None:
    """Until files that are changed now have another time than those that were."""
    before = os.stat(root / "file-0").st_ctime_ns
    while True:
        (root / ".probe").write_bytes(b"")
        if os.stat(root / ".probe").st_ctime_ns > before + 100_000_000:
            break
    (root / ".probe").unlink()


async def test_a_change_of_the_same_size_and_time_is_noticed(keeping: Keeping, root: Path, tmp_path: Path) -> None:
    (root / "file").write_bytes(b"before")
    os.utime(root / "file", (1, 1))
    await keeping.take()
    (root / "file").write_bytes(b"after!")
    os.utime(root / "file", (1, 1))
    await keeping.take()
    target, restored = await made(tmp_path, "target")
    await keeping.restore_to(target)
    assert (restored / "file").read_bytes() == b"after!"


async def test_only_the_newest_snapshot_is_kept(keeping: Keeping, root: Path, tmp_path: Path) -> None:
    for number in range(MANY_SMALL + 20):
        (root / "log").write_bytes(os.urandom(1000))
        (root / f"kept-{number}").write_bytes(os.urandom(100))
        await keeping.take()
    keys = sorted(keeping.store.objects)
    assert sum("/manifests/" in key for key in keys) == 1
    packs = {key.rpartition("/")[2] for key in keys if "/packs/" in key}
    assert packs == set(keeping.newest.packs)
    assert len(packs) <= MANY_SMALL + 2, "small packs are joined"
    target, restored = await made(tmp_path, "target")
    await keeping.restore_to(target)
    assert content(restored) == content(root)


async def test_a_waiting_command_ends_the_reading_and_nothing_is_stored_twice(
    keeping: Keeping, root: Path, tmp_path: Path
) -> None:
    for number in range(12):
        (root / f"file-{number:02}").write_bytes(os.urandom(2_000_000))
    _wait_for_the_clock_of(root / "file-11", root)
    keeping.gives_way_after = 10
    assert await keeping.take() is None
    assert keeping.has_read
    stored = sum(map(len, keeping.store.objects.values()))
    assert 0 < stored < 24_000_000
    keeping.gives_way_after = None
    assert await keeping.take() is not None
    assert sum(map(len, keeping.store.objects.values())) < 24_100_000
    assert keeping.store.put_bytes < 24_000_000
    target, restored = await made(tmp_path, "target")
    await keeping.restore_to(target)
    assert content(restored) == content(root)


def _wait_for_the_clock_of(path: Path, root: Path) -> None:
    while True:
        (root / ".probe").write_bytes(b"")
        if os.stat(root / ".probe").st_ctime_ns > path.stat().st_ctime_ns + 100_000_000:
            return


async def test_too_large_a_workspace_is_refused_before_it_is_read(keeping: Keeping, root: Path) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(TooLargeError, match="1,099,511,627,776 bytes, holes included") as refused:
        await keeping.take()
    assert refused.value.code == "workspace_too_large"
    assert keeping.store.objects == {}


async def test_a_store_that_is_away_leaves_the_last_snapshot(keeping: Keeping, root: Path, tmp_path: Path) -> None:
    (root / "file").write_bytes(b"one")
    await keeping.take()
    (root / "file").write_bytes(b"two")
    keeping.store.away = True
    with pytest.raises(WorkspaceStoreError):
        await keeping.take()
    keeping.store.away = False
    target, restored = await made(tmp_path, "target")
    await keeping.restore_to(target)
    assert (restored / "file").read_bytes() == b"one"


BLOB = Blob("0" * 64, "00000001-0123456789abcdef", 0, 3, 3)


@pytest.mark.parametrize(
    "entries",
    [
        [Entry(b"../out", "f")],
        [Entry(b"/etc/out", "f")],
        [Entry(b"a/b", "f")],
        [Entry(b"a", "l", target=b"/etc"), Entry(b"a/b", "f")],
        [Entry(b"a", "d"), Entry(b"a/..", "d"), Entry(b"a/../b", "f")],
        [Entry(b"a", "d"), Entry(b"a//b", "f")],
        [Entry(b"a", "f"), Entry(b"a", "f")],
        [Entry(b"a", "d"), Entry(b"a", "l", target=b"/etc")],
        [Entry(b"a\0b", "f")],
        [Entry(b"", "d")],
        [Entry(b".", "d")],
        [Entry(b"a", "c")],
        [Entry(b"a", "f", link=b"/etc/passwd")],
        [Entry(b"a", "f", link=b"b"), Entry(b"b", "f")],
        [Entry(b"a", "l")],
        [Entry(b"a", "f", size=4, blobs=(BLOB,))],
    ],
)
def test_forged_entries_are_refused(entries: list[Entry]) -> None:
    with pytest.raises(InvalidSnapshotError):
        verified(decode(encode(entries)))


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_read(data: bytes) -> None:
    for read in (decode, Manifest.load):
        with suppress(InvalidSnapshotError):
            read(data)


async def test_forged_content_is_refused(keeping: Keeping, root: Path, tmp_path: Path) -> None:
    (root / "file").write_bytes(b"x" * 10_000)
    await keeping.take()
    (pack,) = [key for key in keeping.store.objects if "/packs/" in key]
    keeping.store.objects[pack] = bytes(len(keeping.store.objects[pack]))
    target, _ = await made(tmp_path, "target")
    with pytest.raises(InvalidSnapshotError):
        await keeping.restore_to(target)


async def test_a_forged_archive_cannot_leave_the_workspace(keeping: Keeping, root: Path, tmp_path: Path) -> None:
    """Even if the entries were not verified."""
    forged = Tree((Entry(b"a", "d"), Entry(b"a/../../../out", "d"), Entry(b"link", "l", target=b"/tmp")))
    target, restored = await made(tmp_path, "target")
    with pytest.raises(Exception, match="archive is invalid"):
        await target.restore(archive(keeping.objects, forged))
    assert not (restored.parent.parent / "out").exists()


async def test_missing_content_ends_a_restoration(keeping: Keeping, root: Path, tmp_path: Path) -> None:
    """Another owner's newer snapshot may have replaced it."""
    (root / "file").write_bytes(os.urandom(9_000_000))
    await keeping.take()
    tree = keeping.newest.tree
    for key in [key for key in keeping.store.objects if "/packs/" in key]:
        del keeping.store.objects[key]
    target, _ = await made(tmp_path, "target")
    with pytest.raises(ObjectMissingError):
        await target.restore(archive(keeping.objects, tree))


async def test_files_are_read_from_a_snapshot(keeping: Keeping, root: Path) -> None:
    (root / "a").mkdir()
    data = os.urandom(2 * BLOB_BYTES + 100)
    (root / "a" / "large").write_bytes(data)
    (root / "b").touch()
    links = {"link": "a", "out": "/etc/passwd", "up": "a/../..", "dangling": "a/x", "circle": "circle"}
    links |= {"chain": "/workspace/link/../link/large"}
    for name, target in links.items():
        (root / name).symlink_to(target)
    snapshot = await keeping.take()
    assert snapshot is not None
    view = SnapshotView(keeping.objects, snapshot, now())
    file = await view.open("/workspace/a/large")
    for part in (range(len(data)), range(5), range(BLOB_BYTES - 3, BLOB_BYTES + 3), range(len(data) - 1, len(data))):
        assert b"".join([piece async for piece in file.read(part)]) == data[part.start : part.stop]
    for path in ("link/large", "chain"):
        assert (await view.open(path)).size == len(data)
    assert [info.path for info in await view.list("link")] == ["link/large"]
    entries, pieces = (await view.scan(10)).entries, dict[bytes, bytes]()
    named = sorted(["a", "a/large", "b", *links])
    assert [entry.path.decode() for entry in entries] == named
    async for batch in view.read_entries(entries[1:]):
        for position, piece in batch:
            found = entries[1 + position].path
            pieces[found] = pieces.get(found, b"") + piece
    targets = {name.encode(): target.encode() for name, target in links.items()}
    assert pieces == {b"a/large": data, b"b": b"", **targets}
    assert [info.path for info in await view.list()] == [name for name in named if "/" not in name]
    assert [info.path for info in await view.list(recursive=True)] == named
    for path, code in [
        ("link", "not_a_file"),
        ("out", "outside_workspace"),
        ("up/x", "outside_workspace"),
        ("dangling", "file_not_found"),
        ("circle", "file_not_found"),
        ("a", "not_a_file"),
        ("c", "file_not_found"),
        ("a/large/x", "not_a_directory"),
        ("../etc", "outside_workspace"),
    ]:
        with pytest.raises(PalimpsestError) as refused:
            await view.open(path)
        assert refused.value.code == code, path


@given(st.sets(st.binary(min_size=1, max_size=8), min_size=1, max_size=2000), st.binary(min_size=1, max_size=8))
def test_one_more_path_changes_one_list_or_two(paths: set[bytes], more: bytes) -> None:
    def lists(found: set[bytes]) -> set[bytes]:
        return {encode(run) for run in cut([Entry(path, "d") for path in sorted(found)])}

    assert len(lists(paths | {more}) - lists(paths)) <= 2


def test_an_empty_snapshot_has_no_id() -> None:
    assert Snapshot().id is None
