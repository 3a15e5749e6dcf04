"""What a checkpoint covers of a workspace: pure functions of its entries and of the contents of its .gitignore files.

Everything is chosen by whoever writes to the workspace, so patterns are matched in linear time and nothing is read from
anywhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pathspec import GitIgnoreSpec

from app.sandbox.base import TreeEntry

GIT = b".git"
IGNORE_FILE = b".gitignore"
IGNORE_BYTES = 64 * 1024
"""Bytes of a .gitignore file that are read."""
IGNORE_FILES, IGNORE_LINES = 500, 5_000
"""Bounds of all .gitignore files of a workspace together; further ones are not read and have no effect."""
OWN_DIRECTORY = b".palimpsest"
"""Where Palimpsest puts the full text of messages that the context shows in part."""

Reason = Literal["ignored", "too_large", "cache", "git", "internal", "unreadable", "secret"]


class Uncovered(NamedTuple):
    """An entry that is in no checkpoint, with everything below it."""

    path: bytes
    reason: Reason


@dataclass(frozen=True, slots=True)
class CoverageRules:
    """`caches` are names of directories that can be made again; `file_bytes` is the size of the largest file."""

    caches: frozenset[bytes] = frozenset()
    file_bytes: int = 10 * 1024 * 1024

    @property
    def closed(self) -> frozenset[bytes]:
        """Names of directories whose contents are not looked at."""
        return self.caches | {GIT, OWN_DIRECTORY}


@dataclass(frozen=True, slots=True)
class Coverage:
    """The covered entries, sorted by path, and those that are not covered."""

    entries: Sequence[TreeEntry]
    uncovered: Sequence[Uncovered]


def cover(entries: Sequence[TreeEntry], ignores: Mapping[bytes, bytes], rules: CoverageRules) -> Coverage:
    """Splits the entries of a workspace, sorted by path. `ignores` has the contents of .gitignore files by path."""
    patterns = _Patterns(ignores)
    covered: list[TreeEntry] = []
    uncovered: list[Uncovered] = []
    open_directories = {b""}
    for entry in entries:
        above, _, name = entry.path.rpartition(b"/")
        if above not in open_directories:
            continue
        reason = _reason(entry, name, rules) or ("ignored" if patterns.match(entry) else None)
        if reason is not None:
            uncovered.append(Uncovered(entry.path, reason))
            continue
        covered.append(entry)
        if entry.type == "directory":
            open_directories.add(entry.path)
    return Coverage(covered, uncovered)


def _reason(entry: TreeEntry, name: bytes, rules: CoverageRules) -> Reason | None:
    # In lower case, since git refuses the name in all cases.
    if name.lower() == GIT:
        return "git"
    if entry.type == "directory":
        return "internal" if name == OWN_DIRECTORY else "cache" if name in rules.caches else None
    if entry.type == "symlink" and name.lower() == b".gitmodules":
        return "git"
    return "too_large" if entry.size > rules.file_bytes else None


def is_ignore_file(entry: TreeEntry) -> bool:
    """Whether the entry is a .gitignore file that has an effect."""
    return entry.type == "file" and entry.size <= IGNORE_BYTES and entry.path.rpartition(b"/")[2] == IGNORE_FILE


class _Patterns:
    """The patterns of all .gitignore files, each for the paths below its directory."""

    def __init__(self, ignores: Mapping[bytes, bytes]) -> None:
        self._specs: dict[bytes, GitIgnoreSpec] = {}
        left = IGNORE_LINES
        for path in sorted(ignores):
            # As Latin-1, since neither names nor patterns need to be text.
            lines = ignores[path][:IGNORE_BYTES].decode("latin-1").split("\n")[:left]
            left -= len(lines)
            self._specs[path.rpartition(b"/")[0]] = _spec([line.removesuffix("\r") for line in lines])

    def match(self, entry: TreeEntry) -> bool:
        """Whether the entry is ignored: the last matching pattern of the deepest file decides. Only for entries whose
        directory is not ignored."""
        if not self._specs:
            return False
        for directory in _directories(entry.path):
            spec = self._specs.get(directory)
            if spec is None:
                continue
            below = entry.path[len(directory) + 1 :] if directory else entry.path
            path = below.decode("latin-1") + ("/" if entry.type == "directory" else "")
            found = spec.check_file(path).include
            if found is not None:
                return found
        return False


def _directories(path: bytes) -> Iterator[bytes]:
    """The directories above a path, the deepest first; the last one is the workspace, empty."""
    while path:
        path = path.rpartition(b"/")[0]
        yield path


def _spec(lines: Sequence[str]) -> GitIgnoreSpec:
    try:
        return GitIgnoreSpec.from_lines(lines, backend="re2")
    except Exception:
        # Whatever the library or its compiler refuses: that line has no effect, as in git.
        return GitIgnoreSpec.from_lines([line for line in lines if _is_valid(line)], backend="re2")


def _is_valid(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line], backend="re2")
    except Exception:
        return False
    return True
