"""What checkpoints cover: .gitignore files as git reads them, caches, sizes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from app.runtime.checkpoints.coverage import CoverageRules, cover
from app.sandbox.base import TreeEntry

RULES = CoverageRules(frozenset({b"node_modules"}), file_bytes=100)
IGNORES = {
    b".gitignore": b"*.log\n!keep.log\n/only\nout/\n# a comment\n\n[\ndocs/**/draft\n\xff*\ntrail\\ \r\n",
    b"sub/.gitignore": b"!*.log\n/local\n*.tmp",
    b"out/.gitignore": b"!*",
}
FILES = (
    *(b"a.log", b"keep.log", b"only", b"x/only", b"out/file", b"x/out/file", b"docs/draft", b"docs/a/b/draft"),
    *(b"sub/b.log", b"sub/local", b"sub/x/local", b"sub/x/c.tmp", b"c.tmp", b"\xffname", b"trail ", b"x/.log"),
)


def entry(path: bytes, type: str = "file", size: int = 1) -> TreeEntry:
    return TreeEntry(path, type, 0o644, size, 0, 0, 0)  # type: ignore[arg-type]


def entries(*paths: bytes) -> list[TreeEntry]:
    """These files with the directories above them."""
    above = {b"/".join(path.split(b"/")[:depth]) for path in paths for depth in range(1, path.count(b"/") + 1)}
    return sorted([*(entry(path, "directory") for path in above), *map(entry, paths)])


def test_ignored_files_are_those_that_git_ignores(tmp_path: Path) -> None:
    for path, content in [*IGNORES.items(), *((path, b"") for path in FILES)]:
        file = tmp_path / path.decode("utf-8", "surrogateescape")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    listing = ["git", "ls-files", "-z", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=tmp_path, check=True, capture_output=True).stdout
    found = cover(entries(*FILES, *IGNORES), IGNORES, RULES)
    assert {e.path for e in found.entries if e.type == "file"} == {path for path in listed.split(b"\0") if path}
    assert {left.reason for left in found.uncovered} == {"ignored"}


@pytest.mark.parametrize(
    ("path", "type", "size", "reason"),
    [
        (b"a/node_modules", "directory", 0, "cache"),
        (b"a/node_modules", "file", 1, None),
        (b"a/.git", "directory", 0, "git"),
        (b"a/.GIT", "file", 1, "git"),
        (b".gitmodules", "symlink", 0, "git"),
        (b".palimpsest", "directory", 0, "internal"),
        (b"a/large", "file", 101, "too_large"),
        (b"a/small", "file", 100, None),
    ],
)
def test_what_is_not_covered_says_why(path: bytes, type: str, size: int, reason: str | None) -> None:
    found = cover([entry(b"a", "directory"), entry(path, type, size)], {}, RULES)
    assert [left.reason for left in found.uncovered] == ([reason] if reason else [])


def test_hostile_patterns_take_linear_time() -> None:
    pattern = b"*a" * 2_000 + b"b\n" + b"**/" * 2_000 + b"x\n"
    paths = [b"a" * 255 + b"%d" % number for number in range(50)]
    assert len(cover(entries(*paths), {b".gitignore": pattern}, RULES).entries) == 50
