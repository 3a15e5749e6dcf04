"""A workspace's tar is unpacked only into its folder."""

from __future__ import annotations

import errno
import io
import os
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from uuid import uuid4

import pytest
from typer.testing import CliRunner, Result

from app.cli.commands import app
from app.cli.screen import CliError
from app.cli.unpacking import PIECE, unpack

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


@contextmanager
def _serving(body: bytes) -> Iterator[str]:
    """The URL of a server that answers every request with `body`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def _take_out(tar: io.BytesIO, folder: Path) -> Result:
    with _serving(tar.getvalue()) as url:
        command = ["sessions", "files", str(uuid4()), "-o", str(folder), "--server", url]
        return CliRunner().invoke(app, command)


def test_the_command_takes_out_what_is_harmless(tmp_path: Path) -> None:
    folder, outside = tmp_path / "out", tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    hostile = {
        "../up": _file("../up"),
        "a/../../up": _file("a/../../up"),
        "abs": _link("abs", str(outside / "secret")),
        "rel": _link("rel", "../outside/secret"),
        "through/hard": _link("through/hard", "../outside/secret", tarfile.LNKTYPE),
        "tty\x1b": (_entry("tty\x1b", kind=tarfile.CHRTYPE), b""),
    }
    harmless = [_link("d", str(outside)), _file("d/evil"), _file("/etc/passwd"), _file("root", mode=0o6755)]
    ran = _take_out(_tar(*hostile.values(), *harmless), folder)
    assert ran.exit_code == 0, ran.output
    for name in (*hostile, "d"):
        assert f"skipped {name}: ".replace("\x1b", "\\x1b") in ran.stderr
    assert _tree(outside) == {"secret"}
    assert {name for name in _tree(folder) if (folder / name).is_file()} == {"d/evil", "etc/passwd", "root"}
    assert (folder / "root").stat().st_mode & 0o7777 == 0o755


def test_the_command_reports_an_archive_that_is_none(tmp_path: Path) -> None:
    ran = _take_out(io.BytesIO(b"x" * 1024), tmp_path / "out")
    assert (ran.exit_code, "(bad_archive)" in ran.stderr) == (1, True)


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
    assert sorted(unpack(_tar(_file("d/evil"), _file("f"), _link("d/link", "x")), folder)) == ["d/evil", "d/link"]
    assert _tree(outside) == set()
    assert not (folder / "f").is_symlink(), "the file has replaced it"
    assert (folder / "f").read_bytes() == b"x"


def test_a_link_replaces_a_file_only_inside_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "old").write_text("old")
    (tmp_path / "victim").write_text("keep me")
    refused = unpack(_tar(_link("old", "new"), _link(str(tmp_path / "victim"), "new"), _file("new")), folder)
    assert refused == []
    assert os.readlink(folder / "old") == "new"
    assert (tmp_path / "victim").read_text() == "keep me"


@pytest.mark.parametrize("up", ["d/up", "./d/./up/"])
def test_links_lead_out_neither_alone_nor_together(tmp_path: Path, up: str) -> None:
    """Where `d/up` is a link to the folder, `d/up/..` is outside of it, though it reads like `d`."""
    folder = tmp_path / "out"
    (tmp_path / "secret").write_text("secret")
    tar = _tar(_file("d/a"), _link("evil", f"{up}/.."), _link("e/evil", f"../{up}/../../.."), _link("d/up", ".."))
    assert unpack(tar, folder) == ["e/evil", "evil"]
    assert (folder / "d" / "up" / "d" / "a").read_bytes() == b"x"
    assert all(path.resolve().is_relative_to(folder) for path in folder.rglob("*"))


def test_no_link_leads_out_through_one_of_the_user(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    (folder / "up").symlink_to("..")
    assert unpack(_tar(_link("evil", "up/secret"), _link("up2", "up")), folder) == ["evil", "up2"]
    assert _tree(folder) == {"up"}


def test_a_hard_link_is_to_another_file_in_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    (folder / "link").symlink_to("../secret")
    (folder / "up").symlink_to("..")
    targets = ["../secret", str(tmp_path / "secret"), "up/secret", "link", "missing", "hard5"]
    links = [_link(f"hard{number}", target, tarfile.LNKTYPE) for number, target in enumerate(targets)]
    assert unpack(_tar(_file("hard5"), *links), folder) == [f"hard{number}" for number in range(5)]
    assert (folder / "hard5").read_bytes() == b"x"
    assert not list(folder.glob("hard[0-4]"))


def test_a_hard_link_is_only_to_a_file_of_the_archive(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "mine").write_text("mine")
    links = [_link("public", "mine", tarfile.LNKTYPE), _link("a/b", "no/such/file", tarfile.LNKTYPE)]
    assert unpack(_tar(*links), folder) == ["public", "a/b"]
    assert _tree(folder) == {"mine"}


def test_what_cannot_be_made_replaces_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "notes").write_text("mine")
    assert (
        unpack(_tar(_link("notes", "x/" * 3000), (_entry("notes", kind=tarfile.FIFOTYPE), b"")), folder)
        == ["notes"] * 2
    )
    with pytest.raises(CliError, match="ended unexpectedly"):
        unpack(io.BytesIO(_tar(_file("notes", b"y" * 600)).getvalue()[:700]), folder)
    assert (folder / "notes").read_text() == "mine"
    assert _tree(folder) == {"notes"}


def test_a_directory_replaces_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "d").write_text("a module that became a package")
    assert unpack(_tar(_file("d/f")), folder) == []
    assert (folder / "d" / "f").read_bytes() == b"x"


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell():
                raise OSError(errno.EIO, "Input/output error")
            return super().read(100)

    with pytest.raises(CliError, match="cannot be read: Input/output error"):
        unpack(Broken(_tar(_file("a")).getvalue()), tmp_path / "out")


def test_nothing_after_the_end_is_read(tmp_path: Path) -> None:
    archive = io.BytesIO(_tar(_file("a")).getvalue() + bytes(10 * PIECE))
    assert unpack(archive, tmp_path / "out") == []
    assert archive.tell() == PIECE


def test_what_is_unpacked_again_replaces_what_was(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    for data in (b"old", b"new"):
        tar = _tar(_file("d/f", data), _link("hard", "d/f", tarfile.LNKTYPE), _link("soft", "d"))
        assert unpack(tar, folder) == []
        assert (folder / "hard").read_bytes() == (folder / "soft" / "f").read_bytes() == data
    assert unpack(_tar(_file("d"), _link("d", "soft")), folder) == ["d", "d"], "directories are kept"


@pytest.mark.parametrize("cut", [100, 700, 1536])
def test_an_archive_that_breaks_off_is_an_error(tmp_path: Path, cut: int) -> None:
    whole = _tar(_file("a", b"x" * 600)).getvalue()
    with pytest.raises(CliError, match="ended unexpectedly"):
        unpack(io.BytesIO(whole[:cut]), tmp_path / "out")


def test_hard_links_within_the_archive_are_unpacked(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    tar = _tar(_link("second", "first", tarfile.LNKTYPE), _file("first", b"same"))
    assert unpack(tar, folder) == []
    assert (folder / "second").read_bytes() == b"same"


def test_devices_are_skipped_and_set_uid_is_dropped(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    kinds = {
        "pipe": tarfile.FIFOTYPE,
        "tty": tarfile.CHRTYPE,
        "disk": tarfile.BLKTYPE,
        "sparse": tarfile.GNUTYPE_SPARSE,
    }
    special = [(_entry(name, kind=kind), b"") for name, kind in kinds.items()]
    assert unpack(_tar(*special, _file("root", mode=0o6777)), folder) == [*kinds]
    assert (folder / "root").stat().st_mode & 0o7777 == 0o755
