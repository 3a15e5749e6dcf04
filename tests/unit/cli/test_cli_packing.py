"""`palimpsest run --dir`: what of a folder is packed."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import tarfile
from pathlib import Path

import pytest

from app.cli import packing
from app.cli.packing import Folder, chosen, pack
from app.cli.run import TaskOptions
from app.cli.screen import UsageError
from tests.unit.cli.terminal import Terminal

FILES = {
    ".gitignore": "*.log\n/build/\n!keep.log\ndeep/**/skip\n",
    "a.txt": "1",
    "b.log": "2",
    "keep.log": "3",
    "build/out": "4",
    "src/build/in": "5",
    "src/.gitignore": "*.txt\n!important.txt\n",
    "src/a.txt": "6",
    "src/important.txt": "7",
    "src/sub/b.txt": "8",
    "deep/x/y/skip": "9",
    "deep/x/y/kept": "10",
    " space\nline ": "11",
}
KEPT = {
    ".gitignore",
    "a.txt",
    "keep.log",
    "src/build/in",
    "src/.gitignore",
    "src/important.txt",
    "deep/x/y/kept",
    " space\nline ",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "project"


def packed(folder: Folder) -> tuple[dict[str, tarfile.TarInfo], list[str]]:
    made, notes = io.BytesIO(), list[str]()
    pack(folder, made, notes.append)
    made.seek(0)
    with tarfile.open(fileobj=made) as archive:
        return {member.name: member for member in archive}, notes


def files(found: dict[str, tarfile.TarInfo]) -> set[str]:
    return {name for name, member in found.items() if not member.isdir()}


def test_gitignore_is_honored_with_git_and_without(folder: Path) -> None:
    found, notes = packed(Folder(folder))
    assert files(found) == KEPT
    assert notes[-1].startswith("packed 8 files")
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    assert set(chosen(Folder(folder))) == KEPT
    # What git has is packed even if it is ignored now, and what was removed is not.
    subprocess.run(["git", "-C", str(folder), "add", "--force", "b.log", "a.txt"], check=True)
    (folder / "a.txt").unlink()
    assert files(packed(Folder(folder))[0]) == (KEPT | {"b.log"}) - {"a.txt"}
    assert set(chosen(Folder(folder / "src"))) == {".gitignore", "important.txt", "build/in"}
    everything = files(packed(Folder(folder, all=True))[0])
    assert everything > set(FILES) - {"a.txt"}
    assert ".git/HEAD" in everything


def test_links_out_and_special_files_are_left_out_and_named(folder: Path) -> None:
    os.symlink("../a.txt", folder / "src" / "in")
    os.symlink("../../secret", folder / "src" / "out")
    os.symlink("/etc/passwd", folder / "passwd")
    os.link(folder / "keep.log", folder / "twin")
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(folder / "socket"))
    os.chmod(folder / "a.txt", 0o4755)
    found, notes = packed(Folder(folder, all=True))
    assert found["src/in"].linkname == "../a.txt"
    assert found["twin"].islnk()
    assert (found["a.txt"].mode, found["a.txt"].uid, found["a.txt"].uname) == (0o755, 0, "")
    left_out = {note.split(": ")[0] for note in notes[:-1]}
    assert left_out == {"left out src/out", "left out passwd", "left out pipe", "left out socket"}


def test_a_folder_that_cannot_be_read_does_not_stop_the_others(folder: Path) -> None:
    for name in ("first", "last"):
        (folder / name).mkdir()
        (folder / name / "file").touch()
    found = chosen(Folder(folder, all=True))
    assert "first" in found
    # Tests may run as root, who can read all that is there.
    (folder / "first").rename(folder.with_name("elsewhere"))
    assert "last/file" in [*found]
    with pytest.raises(OSError, match="No such file"):
        list(chosen(Folder(folder / "first", all=True)))


def test_a_repository_may_have_a_ref() -> None:
    def git_of(text: str) -> object:
        return TaskOptions(git=text).body("x")["source"]["git"]

    assert git_of("https://host/a/b.git") == {"url": "https://host/a/b.git"}
    assert git_of("https://host/a/b.git@feature/x") == {"url": "https://host/a/b.git", "ref": "feature/x"}
    for text in ("https://host/a@", "project", "https://host"):
        with pytest.raises(UsageError):
            git_of(text)


@pytest.mark.parametrize(("is_terminal", "written"), [(True, "\rpacking: 1\x1b[K\r\x1b[K"), (False, "")])
def test_progress_is_one_line_of_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, written: str
) -> None:
    out = Terminal() if is_terminal else io.StringIO()
    monkeypatch.setattr("sys.stderr", out)
    monkeypatch.setattr(packing, "SHOW_S", 0)
    monkeypatch.setattr(packing, "columns", lambda _: 11)
    meter = packing.Meter()
    meter.show(lambda: "packing: 1 file, 90.0 MB")
    meter.clear()
    assert out.getvalue() == written
