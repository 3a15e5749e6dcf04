"""A copy of a workspace: the same content, for another owner, and nothing from outside."""

from __future__ import annotations

import os
import resource
import signal
import threading
from pathlib import Path

import pytest

from app.errors import SandboxError, WorkspaceFullError
from app.sandbox.host.copying import copy_workspace
from app.sandbox.host.disk import ENTRY_BYTES, count
from app.sandbox.host.workspace import Workspace

LIMIT = 64 * 2**20


@pytest.fixture
def source(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path / "source")
    made.create()
    return made


@pytest.fixture
def target(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "target")


def test_files_links_times_and_permissions_come_along(source: Workspace, target: Workspace, tmp_path: Path) -> None:
    root = source.root
    (root / "a" / "deep").mkdir(parents=True)
    (root / "a" / "deep" / "run").write_bytes(b"#!/bin/sh\n")
    (root / "a" / "deep" / "run").chmod(0o4751)
    (root / os.fsdecode(b"bad \xff name")).write_bytes(bytes(range(256)) * 5_000)
    (root / "inside").symlink_to("a/deep/run")
    (root / "outside").symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("secret")
    os.mkfifo(root / "pipe")
    (root / "closed").mkdir(mode=0o500)
    for path in (root / "a" / "deep" / "run", root / "a" / "deep", root / "a"):
        os.utime(path, ns=(10**18, 10**18 + 7))

    copy_workspace(source, target, LIMIT)
    copied = target.root
    assert sorted(p.name for p in copied.iterdir()) == sorted(p.name for p in root.iterdir() if p.name != "pipe")
    run = copied / "a" / "deep" / "run"
    assert (run.read_bytes(), run.stat().st_mode & 0o7777) == (b"#!/bin/sh\n", 0o751)
    assert [(copied / p).stat().st_mtime_ns for p in ("a", "a/deep", "a/deep/run")] == [10**18 + 7] * 3
    assert (copied / os.fsdecode(b"bad \xff name")).read_bytes() == bytes(range(256)) * 5_000
    assert (copied / "inside").readlink() == Path("a/deep/run")
    assert (copied / "outside").readlink() == tmp_path / "secret"
    assert (copied / "closed").stat().st_mode & 0o777 == 0o500
    run.write_text("changed")
    assert (root / "a" / "deep" / "run").read_bytes() == b"#!/bin/sh\n"


def test_holes_stay_holes(source: Workspace, target: Workspace) -> None:
    with (source.root / "sparse").open("wb") as file:
        file.truncate(1 << 40)
        file.seek(1 << 30)
        file.write(b"in the middle")
    copy_workspace(source, target, LIMIT)
    copied = target.root / "sparse"
    assert copied.stat().st_size == 1 << 40
    assert copied.stat().st_blocks * 512 < 1 << 20
    with copied.open("rb") as file:
        file.seek((1 << 30) - 1)
        assert file.read(14) == b"\0in the middle"


def test_a_changing_workspace_is_copied_as_far_as_possible(
    source: Workspace, target: Workspace, tmp_path: Path
) -> None:
    """Another thread swaps a directory for a link all the time: nothing outside of either workspace is read or made."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    place = source.root / "place"
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            place.mkdir()
            (place / "file").write_text("inside")
            (place / "file").unlink()
            place.rmdir()
            place.symlink_to(outside)
            place.unlink()

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for number in range(200):
            copy_workspace(source, Workspace(tmp_path / "copies" / str(number)), LIMIT)
    finally:
        done.set()
        swapping.join()
    assert [p.name for p in outside.iterdir()] == ["secret"]
    copied = [place for place in (tmp_path / "copies").glob("*/place") if not place.is_symlink()]
    assert not any((place / "secret").exists() for place in copied)


def test_disk_errors_are_translated(source: Workspace, target: Workspace) -> None:
    (source.root / "large").write_bytes(bytes(range(256)) * 1024)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, limits[1]))
    try:
        with pytest.raises(SandboxError) as caught:
            copy_workspace(source, target, LIMIT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert "cannot be copied" in caught.value.detail


def test_hard_links_stay_links(source: Workspace, target: Workspace) -> None:
    """A thousand names of one megabyte are one megabyte."""
    (source.root / "deep").mkdir()
    (source.root / "a").write_bytes(os.urandom(2**20))
    for number in range(1000):
        os.link(source.root / "a", source.root / "deep" / f"b{number}")
    copy_workspace(source, target, LIMIT)
    copies = [target.root / "a", *(target.root / "deep").iterdir()]
    assert len(copies) == 1001
    assert {path.stat().st_ino for path in copies} == {(target.root / "a").stat().st_ino}
    assert (target.root / "deep" / "b7").read_bytes() == (source.root / "a").read_bytes()
    assert count([target.root]).used < 2 * 2**20 + 1001 * ENTRY_BYTES


def test_a_copy_has_a_limit(source: Workspace, target: Workspace) -> None:
    for number in range(10):
        (source.root / f"file{number}").write_bytes(bytes(2**20))
    with pytest.raises(WorkspaceFullError, match="2 MiB"):
        copy_workspace(source, target, 2 * 2**20)
    assert count([target.root]).used < 4 * 2**20
