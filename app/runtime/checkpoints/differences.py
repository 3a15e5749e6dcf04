"""What git prints about two trees, as the changes of files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from app.runtime.values.checkpoints import FileChange
from app.sandbox.paths import clean_name

Status = Literal["added", "modified", "deleted", "renamed"]
_STATUS: dict[bytes, Status] = {b"A": "added", b"D": "deleted", b"R": "renamed"}


class _Raw(NamedTuple):
    path: bytes
    old_path: bytes | None
    status: Status


def parse_changes(printed: bytes) -> list[FileChange]:
    """The changes that `git diff-tree -z --raw --numstat` has printed, sorted by path."""
    fields = iter(printed.split(b"\0"))
    raws: dict[bytes, _Raw] = {}
    counts: dict[bytes, tuple[bytes, bytes]] = {}
    for field in fields:
        if field.startswith(b":"):
            raw = _raw(field, fields)
            raws[raw.path] = raw
        elif field:
            added, deleted, path = field.split(b"\t", 2)
            if not path:  # a rename: both paths follow
                next(fields)
                path = next(fields)
            counts[path] = (added, deleted)
    return [_change(raws[path], *counts.get(path, (b"0", b"0"))) for path in sorted(raws)]


def _raw(field: bytes, fields: Iterator[bytes]) -> _Raw:
    letter = field.rpartition(b" ")[2][:1]
    path = next(fields)
    status = _STATUS.get(letter, "modified")
    return _Raw(next(fields), path, status) if status == "renamed" else _Raw(path, None, status)


def _change(raw: _Raw, added: bytes, deleted: bytes) -> FileChange:
    binary = added == b"-"
    return FileChange(
        path=clean_name(raw.path),
        status=raw.status,
        additions=0 if binary else int(added),
        deletions=0 if binary else int(deleted),
        binary=binary,
        old_path=None if raw.old_path is None else clean_name(raw.old_path),
    )
