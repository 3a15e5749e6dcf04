"""Brings a workspace back to a checkpoint: what differs is removed or written, what no checkpoint covers stays."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tarfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import orjson

from app.errors import PalimpsestError
from app.runtime.checkpoints.repository import Blob, Repository, write_whole
from app.runtime.checkpoints.shared import Taken
from app.runtime.checkpoints.taking import DIRECTORY_MODE, FILE_MODE, PROGRAM_MODE, Known, decode_modes
from app.sandbox import tar
from app.sandbox.base import MovableSandbox, TreeEntry

OWNER = 1000
"""The uid that commands run as in every kind of sandbox, as seen from inside."""
PENDING = "palimpsest-restoring"
"""A file in the repository: the checkpoint that is being restored. Whoever uses the workspace next completes it."""
_LINK, _PROGRAM = 0o120000, 0o100755
_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class Wanted(NamedTuple):
    """An entry of a checkpoint: a directory if it has no `blob`."""

    path: bytes
    type: str
    mode: int
    blob: str = ""


class Plan(NamedTuple):
    """What to do: entries to remove, and entries to make, a directory before its contents."""

    removed: Sequence[TreeEntry]
    made: Sequence[Wanted]


@dataclass(frozen=True, slots=True)
class Target:
    """A checkpoint to restore a workspace to."""

    id: str
    commit: str | None
    tree: str


class Pending:
    """The note of which checkpoint is being restored, in the repository. All methods block."""

    def __init__(self, repository: Repository) -> None:
        self._path = repository.path / PENDING

    def save(self, target: Target) -> None:
        write_whole(self._path, orjson.dumps([target.commit, target.tree]))

    def load(self) -> tuple[str | None, str] | None:
        """The commit and the tree; None if the note is damaged or gone."""
        try:
            commit, tree = orjson.loads(self._path.read_bytes())
            # They become arguments of git.
            return (commit, tree) if _ID.fullmatch(tree) and (commit is None or _ID.fullmatch(commit)) else None
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)


def recovered(folder: Path, known: Collection[str]) -> set[str]:
    """Removes repositories of sessions that are not `known`, and what git has left unfinished in the others; returns
    the sessions whose restoration was cut off. Blocks."""
    found: set[str] = set()
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.stem not in known:
            shutil.rmtree(path, ignore_errors=True)
            continue
        if (path / PENDING).is_file():
            found.add(path.stem)
        for left in (*path.glob("*.lock"), *path.glob("refs/**/*.lock"), *path.glob("objects/pack/tmp_*")):
            with suppress(OSError):
                left.unlink()
    return found


class Restoration:
    """A restoration of a workspace: `save` comes first, then `complete`."""

    def __init__(self, save: Callable[[], Awaitable[Taken]], begin: Callable[[Target], Awaitable[None]]) -> None:
        self.save = save
        """The workspace before the restoration, in a commit that is kept."""
        self._begin = begin

    async def complete(self, target: Target, saved: Target) -> None:
        """Makes the workspace that of a checkpoint, except for what is not covered. If the server ends meanwhile, the
        next one completes it; after an error, the workspace is as it was `saved`."""
        try:
            await self._begin(target)
        except (PalimpsestError, TimeoutError):
            await self._begin(saved)
            raise


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
    for path, is_directory, mode in decode_modes(modes):
        if is_directory:
            _add_above(found, path)
            found[path] = Wanted(path, "directory", mode)
        elif path in found:
            found[path] = found[path]._replace(mode=mode)
    return found


def _add_above(found: dict[bytes, Wanted], path: bytes) -> None:
    """Adds the directories above a path, with the usual permissions."""
    while (path := path.rpartition(b"/")[0]) and path not in found:
        found[path] = Wanted(path, "directory", DIRECTORY_MODE)


def plan(present: Sequence[Known], target: Mapping[bytes, Wanted]) -> Plan:
    """How the covered entries that are present become those of a checkpoint."""
    now = {known.entry.path: known for known in present}
    removed = [
        known.entry for path, known in now.items() if path not in target or target[path].type != known.entry.type
    ]
    made = {path: entry for path, entry in target.items() if not _is_there(now.get(path), entry)}
    # Each change of a directory's contents needs it writable; afterwards it gets its own permissions again.
    changed = {path.rpartition(b"/")[0] for path in (*made, *(entry.path for entry in removed))}
    made |= {path: target[path] for path in changed if path in target}
    return Plan(removed, [made[path] for path in sorted(made)])


def _is_there(known: Known | None, entry: Wanted) -> bool:
    if known is None or (known.entry.type, known.blob) != (entry.type, entry.blob):
        return False
    return entry.type == "symlink" or known.entry.mode == entry.mode


async def restore(
    sandbox: MovableSandbox, repository: Repository, present: Sequence[Known], commit: str | None, tree: str
) -> None:
    """Makes the covered entries of a workspace those of a commit, None for an empty workspace. Done again after a
    failure with a new look at what is present, it has the same result. Raises what the sandbox and git raise."""
    blobs = await repository.files(tree) if commit is not None else []
    modes = await repository.modes(commit) if commit is not None else b""
    target = await asyncio.to_thread(wanted, blobs, modes)
    steps = await asyncio.to_thread(plan, present, target)
    if steps.removed or steps.made:
        await sandbox.update(steps.removed, _archive(repository, steps.made))


async def _archive(repository: Repository, entries: Sequence[Wanted]) -> AsyncGenerator[bytes, None]:
    pieces = _members(repository, entries)
    gathered = tar.gathered(pieces)
    reading: asyncio.Future[bytes | None] | None = None
    try:
        while True:
            reading = asyncio.ensure_future(asyncio.to_thread(next, gathered, None))
            if (piece := await asyncio.shield(reading)) is None:
                return
            yield piece
    finally:
        if reading is not None:
            await asyncio.wait({reading})
        await asyncio.to_thread(pieces.close)


def _members(repository: Repository, entries: Sequence[Wanted]) -> Generator[bytes, None, None]:
    with closing(repository.contents([entry.blob for entry in entries if entry.blob])) as contents:
        for entry in entries:
            data = next(contents) if entry.blob else b""
            yield _header(entry, data)
            if entry.type == "file":
                yield data
                yield bytes(-len(data) % tar.BLOCK)
    yield tar.END


def _header(entry: Wanted, data: bytes) -> bytes:
    info = tarfile.TarInfo(os.fsdecode(entry.path) + ("/" if entry.type == "directory" else ""))
    info.uid = info.gid = OWNER
    # Now, so that whatever compares times sees a change.
    info.mode, info.mtime = entry.mode, int(time.time())
    if entry.type == "directory":
        info.type = tarfile.DIRTYPE
    elif entry.type == "symlink":
        info.type, info.linkname = tarfile.SYMTYPE, os.fsdecode(data)
    else:
        info.size = len(data)
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
