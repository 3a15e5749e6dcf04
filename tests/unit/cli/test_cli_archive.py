"""A workspace's tar is unpacked only into its folder."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from app.cli.run import unpack

FILE = tarfile.REGTYPE


def _entry(name: str, data: bytes = b"", kind: bytes = FILE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.size = kind, link, mode, len(data)
    return info


def _tar(*entries: tuple[tarfile.TarInfo, bytes]) -> io.BytesIO:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:") as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data))
    raw.seek(0)
    return raw


def _file(name: str, data: bytes = b"x", mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    return _entry(name, data, mode=mode), data


def _link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return _entry(name, kind=kind, link=target), b""


def _tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_files_are_unpacked_byte_for_byte(tmp_path: Path) -> None:
    content = bytes(range(256)) * 5
    folder = tmp_path / "new" / "out"
    tar = _tar((_entry("./", kind=tarfile.DIRTYPE, mode=0o755), b""), _file("a/ä b.bin", content), _file("empty", b""))
    assert unpack(tar, folder) == []
    assert (folder / "a" / "ä b.bin").read_bytes() == content
    assert (folder / "empty").read_bytes() == b""


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "a/../b", "/../evil"])
def test_a_name_that_leads_outside_is_skipped(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "out"
    refused = unpack(_tar(_file(name), _file("good")), folder)
    assert refused == [name]
    assert _tree(tmp_path) == {"out", "out/good"}


def test_an_absolute_name_stays_inside(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert unpack(_tar(_file("/etc/passwd", b"mine")), folder) == []
    assert (folder / "etc" / "passwd").read_bytes() == b"mine"


def test_links_inside_are_kept_and_others_skipped(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    (tmp_path / "secret").write_text("secret")
    refused = unpack(
        _tar(_link("in", "dir/a"), _link("out", "../secret"), _link("abs", "/etc/passwd"), _file("dir/a", b"1")), folder
    )
    assert sorted(refused) == ["abs", "out"]
    assert os.readlink(folder / "in") == "dir/a"
    assert (folder / "in").read_bytes() == b"1"


def test_nothing_is_written_through_a_link_of_the_archive(tmp_path: Path) -> None:
    folder, outside = tmp_path / "out", tmp_path / "outside"
    outside.mkdir()
    unpack(_tar(_link("d", "../outside"), _file("d/evil"), _link("d/link", "x")), folder)
    assert _tree(outside) == set()
    assert (folder / "d" / "evil").read_bytes() == b"x"


def test_nothing_is_written_through_an_existing_link(tmp_path: Path) -> None:
    folder, outside = tmp_path / "out", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (folder / "d").symlink_to(outside)
    (folder / "f").symlink_to(outside / "f")
    assert sorted(unpack(_tar(_file("d/evil"), _file("f"), _link("d/link", "x")), folder)) == ["d/evil", "d/link", "f"]
    assert _tree(outside) == set()


def test_a_link_replaces_a_file_only_inside_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "old").write_text("old")
    (tmp_path / "victim").write_text("keep me")
    refused = unpack(_tar(_link("old", "new"), _link(str(tmp_path / "victim"), "new"), _file("new")), folder)
    assert refused == []
    assert os.readlink(folder / "old") == "new"
    assert (tmp_path / "victim").read_text() == "keep me"


def test_hard_links_within_the_archive_are_unpacked(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    tar = _tar(_link("second", "first", tarfile.LNKTYPE), _file("first", b"same"))
    assert unpack(tar, folder) == []
    assert (folder / "second").read_bytes() == b"same"


def test_devices_are_skipped_and_set_uid_is_dropped(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    pipe = (_entry("pipe", kind=tarfile.FIFOTYPE), b"")
    assert unpack(_tar(pipe, _file("root", mode=0o6755)), folder) == ["pipe"]
    assert (folder / "root").stat().st_mode & 0o7777 == 0o755
