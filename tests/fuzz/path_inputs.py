"""Paths from a hostile client or model, and workspaces full of links and other traps."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hypothesis import strategies as st

NAMES = (
    "a",
    "b",
    "link",
    "up",
    "root",
    "loop",
    "pipe",
    ".",
    "..",
    "...",
    "~",
    "-rf",
    "a b",
    "new\nline",
    "é😀",
    "e\u0301",
    "\u202etxt.exe",
    "%2e%2e",
    "%2f",
    "%00",
    "C:",
    "a\\b",
    "..\\..",
    "*",
    "$(id)",
    ".palimpsest-0",
    "MEMORY.md",
    "memory",
    "x" * 255,
    "x" * 256,
    "é" * 128,
)
TRAPS = (
    "/etc/passwd",
    "/etc",
    "/",
    "//",
    "",
    "/workspace",
    "/workspace/../etc/passwd",
    "/workspace2/x",
    "/proc/self/environ",
    "/proc/self/cwd/../../palimpsest.db",
    "../../palimpsest.db",
    "../../../../../../../../etc/passwd",
    "a/../../outside",
    "./././a",
    "a//b",
    "a/",
    "\x00",
    "a\x00b",
    "\ud800",
    "d/" * 2_000 + "x",
    "../" * 1_300,
    "x" * 5_000,
)
names = st.sampled_from(NAMES)
path_texts = st.one_of(
    st.lists(names, min_size=1, max_size=5).map("/".join),
    st.sampled_from(TRAPS),
    st.lists(names, min_size=1, max_size=3).map(lambda parts: "/workspace/" + "/".join(parts)),
    st.text(st.characters(codec=None, categories=None), max_size=12),
)
Kind = Literal["file", "directory", "symlink", "hardlink", "fifo", "socket", "closed"]
KINDS: tuple[Kind, ...] = (
    "file",
    "file",
    "directory",
    "directory",
    "symlink",
    "symlink",
    "symlink",
    "hardlink",
    "fifo",
    "closed",
)
BYTES_NAMES = st.one_of(
    names.filter(lambda name: name not in (".", "..")).map(lambda name: os.fsencode(name.encode()[:255])),
    st.sampled_from([b"\xff\xfe", b"bad\x80name", b"\n", b" ", b"\x1b[2J", b"\x7f"]),
)
TARGETS = st.sampled_from(
    [
        "/",
        "/etc/passwd",
        "..",
        ".",
        "../..",
        "loop",
        "a",
        "a/b",
        "link",
        "missing",
        "/workspace/a",
        "{outside}",
        "{outside}/secret",
        "x" * 4_000,
    ]
)


@dataclass(frozen=True)
class Entry:
    """Something made in a workspace: at `path`, with `target` for a link, both as passed to the system."""

    kind: Kind
    path: tuple[bytes, ...]
    target: str = ""

    def make(self, root: Path, outside: Path) -> bool:
        """Creates it as commands in the sandbox could; returns whether that worked. An existing link at the path itself
        is not followed, but links above it are: they were created the same way."""
        place = os.path.join(os.fsencode(root), *self.path)
        above = os.path.realpath(os.path.dirname(place))
        if not (above + b"/").startswith(os.path.realpath(os.fsencode(root)) + b"/"):
            return False
        try:
            os.makedirs(above, exist_ok=True)
            self._make(place, self.target.replace("{outside}", str(outside)))
        except OSError:
            return False
        return True

    def _make(self, place: bytes, target: str) -> None:
        match self.kind:
            case "file":
                descriptor = os.open(place, os.O_CREAT | os.O_WRONLY | os.O_EXCL | os.O_NOFOLLOW, 0o644)
                os.write(descriptor, b"inside\n")
                os.close(descriptor)
            case "directory":
                os.mkdir(place)
            case "symlink":
                os.symlink(target, place)
            case "hardlink":
                os.link(os.path.join(os.path.dirname(place), b"a"), place, follow_symlinks=False)
            case "fifo":
                os.mkfifo(place)
            case "closed":
                os.mkdir(place, 0)
            case _:
                raise OSError


entries = st.builds(
    Entry,
    st.sampled_from(KINDS),
    st.lists(BYTES_NAMES, min_size=1, max_size=4).map(tuple),
    TARGETS,
)


@dataclass(frozen=True)
class Visit:
    """The entries of a workspace, and the requests for paths in it: `how` and the path."""

    entries: tuple[Entry, ...]
    asked: tuple[tuple[str, str], ...]


HOWS = ("get", "get", "head", "put", "list", "read_file", "write_file", "edit_file", "list_directory", "search_files")


@st.composite
def visits(draw: st.DrawFn) -> Visit:
    """A workspace with traps, and paths that lead into them as well as others."""
    made = tuple(draw(st.lists(entries, max_size=8)))
    inside = ["/".join(os.fsdecode(name) for name in entry.path) for entry in made]
    steps = st.sampled_from(["", "/x", "/etc/passwd", "/..", "/../..", "/secret", "/a/b", "/."])
    aimed = st.builds(lambda path, step: path + step, st.sampled_from(inside), steps) if inside else path_texts
    asked = draw(
        st.lists(st.tuples(st.sampled_from(HOWS), st.one_of(aimed, aimed, path_texts)), min_size=1, max_size=6)
    )
    return Visit(made, tuple(asked))
