"""What git prints about two trees, as the changes of files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from app.runtime.values.checkpoints import FileChange
from app.sandbox.paths import clean_name

Status = Literal["added", "modified", "deleted", "renamed"]
_STATUS: dict[bytes, Status] = {b"A": "added", b"D": "deleted", b"R": "renamed"}


class Differences(NamedTuple):
    """The first of the changed files, sorted by path; the number of all of them, and of their lines."""

    items: list[FileChange]
    files: int
    additions: int
    deletions: int


class _Raw(NamedTuple):
    old_path: bytes | None
    status: Status


def parse_changes(printed: bytes, most: int) -> Differences:
    """What `git diff-tree -z --raw --numstat` has printed, with up to `most` files."""
    raws: dict[bytes, _Raw] = {}
    counts: dict[bytes, tuple[bytes, bytes]] = {}
    fields = _fields(printed)
    for field in fields:
        if field.startswith(b":"):
            path, raw = _raw(field, fields)
            raws[path] = raw
        elif field:
            added, deleted, path = field.split(b"\t", 2)
            if not path:  # a rename: both paths follow
                next(fields)
                path = next(fields)
            counts[path] = (added, deleted)
    return _differences(raws, counts, most)


def _differences(raws: dict[bytes, _Raw], counts: dict[bytes, tuple[bytes, bytes]], most: int) -> Differences:
    items: list[FileChange] = []
    additions = deletions = 0
    files = len(raws)
    for path in sorted(raws):
        # Freed one by one: no other thread runs while a hundred thousand are freed at once.
        change = _change(path, raws.pop(path), *counts.pop(path, (b"0", b"0")))
        additions += change.additions
        deletions += change.deletions
        if len(items) < most:
            items.append(change)
    return Differences(items, files, additions, deletions)


def _fields(printed: bytes) -> Iterator[bytes]:
    """What is between NULs. Not by `split`, during which no other thread runs."""
    start = 0
    while (end := printed.find(b"\0", start)) >= 0:
        yield printed[start:end]
        start = end + 1


def _raw(field: bytes, fields: Iterator[bytes]) -> tuple[bytes, _Raw]:
    letter = field.rpartition(b" ")[2][:1]
    path = next(fields)
    status = _STATUS.get(letter, "modified")
    return (next(fields), _Raw(path, status)) if status == "renamed" else (path, _Raw(None, status))


def _change(path: bytes, raw: _Raw, added: bytes, deleted: bytes) -> FileChange:
    binary = added == b"-"
    return FileChange(
        path=clean_name(path),
        status=raw.status,
        additions=0 if binary else int(added),
        deletions=0 if binary else int(deleted),
        binary=binary,
        old_path=None if raw.old_path is None else clean_name(raw.old_path),
    )
