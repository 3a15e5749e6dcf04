"""What a restoration does: pure functions of a look at the workspace and of what a checkpoint has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from app.runtime.checkpoints.looks import Known
from app.runtime.checkpoints.repository import Blob
from app.runtime.checkpoints.taking import DIRECTORY_MODE, FILE_MODE, PROGRAM_MODE, decode_modes
from app.sandbox.base import TreeEntry

_LINK, _PROGRAM = 0o120000, 0o100755


class Wanted(NamedTuple):
    """An entry of a checkpoint: a directory if it has no `blob`."""

    path: bytes
    type: str
    mode: int
    blob: str = ""


class Plan(NamedTuple):
    """What to do: entries to remove, and entries to make, a directory before its contents. `skipped` are the paths that
    stay as they are, with everything below them, although the checkpoint has them or covers them no more."""

    removed: Sequence[TreeEntry]
    made: Sequence[Wanted]
    skipped: Sequence[bytes]


def wanted(blobs: Iterable[Blob], modes: bytes) -> dict[bytes, Wanted]:
    """The entries of a checkpoint by path."""
    found: dict[bytes, Wanted] = {}
    for blob in blobs:
        _add_above(found, blob.path)
        if blob.mode == _LINK:
            found[blob.path] = Wanted(blob.path, "symlink", 0o777, blob.id)
        else:
            mode = PROGRAM_MODE if blob.mode == _PROGRAM else FILE_MODE
            found[blob.path] = Wanted(blob.path, "file", mode, blob.id)
    for path, kind, mode in decode_modes(modes):
        if kind == "directory":
            _add_above(found, path)
            found[path] = Wanted(path, "directory", mode)
        elif kind == "file" and path in found:
            found[path] = found[path]._replace(mode=mode)
    return found


def uncovered_in(modes: bytes) -> set[bytes]:
    """The paths that a checkpoint does not cover, without those below them."""
    return {path for path, kind, _ in decode_modes(modes) if kind == "uncovered"}


def _add_above(found: dict[bytes, Wanted], path: bytes) -> None:
    """Adds the directories above a path, with the usual permissions."""
    for directory in _directories(path):
        if directory in found:
            return
        found[directory] = Wanted(directory, "directory", DIRECTORY_MODE)


def plan(present: Sequence[Known], target: Mapping[bytes, Wanted], uncovered: Collection[bytes]) -> Plan:
    """How the covered entries that are present become those of a checkpoint. What is `uncovered`, now or in one of both
    checkpoints, stays with everything below it: no checkpoint has its content."""
    now = {known.entry.path: known for known in present}
    stays = _staying([*now, *target], uncovered)
    # No file replaces a directory that has something uncovered below it.
    above = {directory for path in uncovered for directory in _directories(path)}
    stays |= {path: path for path in above if path in target and target[path].type != "directory"}
    removed = [
        known.entry
        for path, known in now.items()
        if path not in stays and (path not in target or target[path].type != known.entry.type)
    ]
    made = {path: entry for path, entry in target.items() if path not in stays and not _is_there(now.get(path), entry)}
    # Each change of a directory's contents needs it writable; afterwards it gets its own permissions again.
    changed = {path.rpartition(b"/")[0] for path in (*made, *(entry.path for entry in removed))}
    made |= {path: target[path] for path in changed if path in target and path not in stays}
    return Plan(removed, [made[path] for path in sorted(made)], sorted({*stays.values()}))


def _staying(paths: Iterable[bytes], uncovered: Collection[bytes]) -> dict[bytes, bytes]:
    """The paths that are uncovered, or below one that is, each with that one."""
    found = ((path, next((top for top in (path, *_directories(path)) if top in uncovered), None)) for path in paths)
    return {path: top for path, top in found if top is not None}


def _directories(path: bytes) -> Iterator[bytes]:
    """The directories above a path."""
    while path := path.rpartition(b"/")[0]:
        yield path


def _is_there(known: Known | None, entry: Wanted) -> bool:
    if known is None or (known.entry.type, known.blob) != (entry.type, entry.blob):
        return False
    return entry.type == "symlink" or known.entry.mode == entry.mode
