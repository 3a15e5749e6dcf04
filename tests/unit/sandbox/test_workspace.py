"""The workspace as a directory of the host, against an owner who changes it while it is used."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.errors import InvalidRequestError, NotFoundError, PalimpsestError, SandboxError, WorkspaceFullError
from app.sandbox.host.copying import copy_workspace
from app.sandbox.host.directories import delete_tree
from app.sandbox.host.workspace import MAX_DEPTH, Workspace, translate

NAMES = 30_000
"""So many that a list of them takes more than a batch does."""
AT_FDCWD, RENAME_EXCHANGE = -100, 2


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path / "workspace")
    made.create()
    return made


def deep(root: Path, depth: int) -> None:
    """Makes a tree whose paths are too long for the system to take whole."""
    current = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d" * 100, dir_fd=current)
        below = os.open("d" * 100, os.O_RDONLY, dir_fd=current)
        os.close(current)
        current = below
    os.close(current)


@contextmanager
def swapping(first: Path, second: Path) -> Iterator[None]:
    """Exchanges two names all the time, as a command could."""
    done = threading.Event()

    def swap() -> None:
        libc = ctypes.CDLL(None)
        while not done.is_set():
            libc.renameat2(AT_FDCWD, bytes(first), AT_FDCWD, bytes(second), RENAME_EXCHANGE)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_it_is_closed_to_others(workspace: Workspace) -> None:
    assert workspace.root.stat().st_mode & 0o777 == 0o700


def test_a_directory_swapped_for_a_link_is_never_followed(workspace: Workspace, tmp_path: Path) -> None:
    """Another thread swaps all the time, as a command would; no read and no write may ever get outside."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"outside")
    place, other = workspace.root / "place", workspace.root / "other"
    place.mkdir()
    other.symlink_to(outside)
    with swapping(place, other):
        seen = {_attempt(workspace) for _ in range(2000)}
    assert b"outside" not in seen
    assert b"inside" in seen
    assert (outside / "file").read_bytes() == b"outside"
    assert os.listdir(outside) == ["file"]


def _attempt(workspace: Workspace, path: str = "place/file") -> bytes | None:
    try:
        workspace.write(path, b"inside")
        return workspace.read(path, None)
    except PalimpsestError:
        return None


Place = tuple[str, str]
SWAPS: dict[str, tuple[Place, Place]] = {
    "a link's target": (("d/link", "a"), ("d/other", "{outside}")),
    "a link's climb": (("d/link", "../d/a"), ("d/other", "../../outside")),
    "a directory of a target": (("d/a", ""), ("d/other", "{outside}")),
    "the directory that a link climbs from": (("d", ""), ("e/deeper", "")),
    "a file for a link": (("d/a/file", "inside"), ("d/a/other", "{outside}/file")),
    "the directory of a file": (("d/a", ""), ("away", "{outside}")),
}


@pytest.mark.parametrize("swap", SWAPS)
def test_a_swap_on_the_way_along_links_leads_nowhere(workspace: Workspace, tmp_path: Path, swap: str) -> None:
    """Links that stay inside are followed; whatever is swapped meanwhile, nothing outside is read or written."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"outside")
    (workspace.root / "file").write_bytes(b"inside")
    for folder in ("d/a", "e"):
        (workspace.root / folder).mkdir(parents=True)
    (workspace.root / "way").symlink_to("d/link/../../d/link")
    first, second = (_placed(workspace.root, *place, outside) for place in SWAPS[swap])
    if not (workspace.root / "d/link").is_symlink():
        (workspace.root / "d/link").symlink_to("/workspace/d/a")
    with swapping(first, second):
        seen = {_attempt(workspace, path) for _ in range(100) for path in ("way/file", "way/new/file", "d/link/file")}
    assert b"outside" not in seen
    assert b"inside" in seen
    assert (outside / "file").read_bytes() == b"outside"
    assert os.listdir(outside) == ["file"]
    assert sorted(os.listdir(tmp_path)) == ["outside", "workspace"]


def _placed(root: Path, path: str, target: str, outside: Path) -> Path:
    place = root / path
    if target == "inside":
        place.write_text(target)
    elif target:
        place.symlink_to(target.format(outside=outside))
    else:
        place.mkdir(parents=True, exist_ok=True)
    return place


def test_no_temporary_file_is_left_if_writing_fails(workspace: Workspace) -> None:
    (workspace.root / "dir").mkdir()
    with pytest.raises(InvalidRequestError):
        workspace.write("dir", b"x")
    assert os.listdir(workspace.root) == ["dir"]


def test_sockets_and_devices_are_no_files(workspace: Workspace) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(workspace.root / "socket"))
        with pytest.raises(InvalidRequestError):
            workspace.read("socket", None)
        assert workspace.list(".", False, 10)[0].type == "other"


def test_a_session_without_a_workspace(tmp_path: Path) -> None:
    gone = Workspace(tmp_path / "gone")
    for attempt in (lambda: gone.list(".", False, 1), lambda: gone.read("x", None), lambda: gone.write("x", b"")):
        with pytest.raises(SandboxError):
            attempt()
    gone.delete()


def test_a_workspace_that_is_itself_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/")
    with pytest.raises((PalimpsestError, OSError)):
        Workspace(tmp_path / "link").list(".", False, 1)


def test_a_very_deep_tree_is_listed_archived_and_deleted(workspace: Workspace) -> None:
    deep(workspace.root, 1200)
    assert len(workspace.list(".", True, 10_000)) == MAX_DEPTH
    assert sum(1 for _ in workspace.archive()) == MAX_DEPTH + 1
    workspace.delete()
    assert not workspace.root.exists()


def test_a_tree_with_closed_directories_is_deleted(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "b" / "file").write_text("x")
    (tree / "a" / "link").symlink_to("/etc")
    os.mkfifo(tree / "a" / "pipe")
    (tree / "a" / "b").chmod(0)
    (tree / "a").chmod(0)
    delete_tree(tree)
    assert not tree.exists()
    assert Path("/etc").exists()
    delete_tree(tree)


def test_a_tree_is_deleted_by_several_at_once(tmp_path: Path) -> None:
    """As nodes on one machine do that notice the end of a session at the same moment."""
    tree, deletions = tmp_path / "tree", 4
    for number in range(200):
        (tree / str(number) / "below").mkdir(parents=True)
    with ThreadPoolExecutor(deletions) as pool:
        list(pool.map(delete_tree, [tree] * deletions))
    assert not tree.exists()


def test_a_file_that_is_written_during_a_deletion_is_deleted_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another node may be storing an upload."""
    tree, remove = tmp_path / "tree", os.rmdir
    tree.mkdir()
    uploads = [tree / "upload"]

    def late(*arguments: Any, **more: Any) -> None:
        if uploads:
            uploads.pop().write_bytes(b"x")
        remove(*arguments, **more)

    monkeypatch.setattr("os.rmdir", late)
    delete_tree(tree)
    assert not tree.exists()
    assert uploads == []


def test_names_that_are_invalid_in_a_path_are_translated() -> None:
    assert translate(OSError(40, ""), "x").code == "outside_workspace"
    assert translate(PermissionError(13, ""), "x").code == "permission_denied"
    for full in (errno.ENOSPC, errno.EDQUOT):
        assert isinstance(translate(OSError(full, ""), "x"), WorkspaceFullError)
        assert translate(OSError(full, ""), "x").status == 507
    assert isinstance(translate(OSError(errno.EIO, ""), "x"), SandboxError)
    assert "Input/output error" in translate(OSError(errno.EIO, ""), "x").detail


def test_links_and_files_in_a_path_are_distinguished(workspace: Workspace) -> None:
    workspace.write("file", b"")
    (workspace.root / "link").symlink_to("file")
    for path in ("link/x", "file/x"):
        with pytest.raises(InvalidRequestError) as refused:
            workspace.read(path, None)
        assert refused.value.code == "not_a_directory"


def test_links_that_climb_and_descend_forever_cost_little(workspace: Workspace) -> None:
    """Each climb begins at the root again, here a path of many directories."""
    deep(workspace.root, 30)
    names = "/".join(["d" * 100] * 30)
    (workspace.root / names / "way").symlink_to("a/../" * 800)
    (workspace.root / names / "a").mkdir()
    with pytest.raises(NotFoundError, match="too many links"):
        workspace.list(f"{names}/way", False, 1)


@pytest.mark.parametrize("recursive", [True, pytest.param(False, marks=pytest.mark.extended)])
def test_a_listing_keeps_no_more_names_than_it_gives(workspace: Workspace, recursive: bool) -> None:
    for number in range(40_000):
        os.close(os.open(workspace.root / f"{number:05}-{'x' * 60}", os.O_CREAT | os.O_WRONLY))
    tracemalloc.start()
    try:
        found = workspace.list(".", recursive, 100)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [info.path[:5] for info in found] == [f"{number:05}" for number in range(100)]
    print(f"most memory: {most:,} bytes")
    assert most < 500_000


@pytest.mark.extended
def test_a_million_names_are_never_held_at_once(workspace: Workspace) -> None:
    """An archive, a copy and a deletion take a workspace with names of one file by the batch."""
    most = NAMES * 100  # bytes; a list of the names alone takes more
    (workspace.root / "file").write_bytes(b"x")
    for number in range(NAMES):
        (workspace.root / f"{number:05}-{'x' * 60}").hardlink_to(workspace.root / "file")
    copy = Workspace(workspace.root.with_name("copy"))
    for work in (
        lambda: sum(map(len, workspace.archive())),
        lambda: copy_workspace(workspace, copy, 2**30),
        copy.delete,
    ):
        tracemalloc.start()
        try:
            work()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        print(f"most memory: {peak:,} bytes")
        assert peak < most
    assert not copy.root.exists()
