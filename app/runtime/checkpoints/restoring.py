"""Brings a workspace back to a checkpoint: what differs is removed or written, what no checkpoint covers stays."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tarfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import orjson

from app.errors import PalimpsestError
from app.runtime.checkpoints.looks import Look
from app.runtime.checkpoints.planning import Plan, Wanted, plan, uncovered_in, wanted
from app.runtime.checkpoints.repository import Blob, Repository, write_whole
from app.runtime.checkpoints.secrets import NO_SECRETS, Secrets
from app.runtime.checkpoints.shared import Taken
from app.sandbox import tar
from app.sandbox.base import MovableSandbox

OWNER = 1000
"""The uid that commands run as in every kind of sandbox, as seen from inside."""
PENDING = "palimpsest-restoring"
"""A file in the repository: the checkpoint that is being restored. Whoever uses the workspace next completes it."""
_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Target:
    """A checkpoint to restore a workspace to."""

    id: str
    commit: str | None
    tree: str


class Goal(NamedTuple):
    """What a restoration leads to: the commit, None for an empty workspace, and its tree. `saved` is the commit of the
    workspace before it."""

    commit: str | None
    tree: str
    saved: str | None = None


class Pending:
    """The note of which checkpoint is being restored, in the repository. All methods block."""

    def __init__(self, repository: Repository) -> None:
        self._path = repository.path / PENDING

    def save(self, goal: Goal) -> None:
        write_whole(self._path, orjson.dumps(list(goal)))

    def load(self) -> Goal | None:
        """None if the note is damaged or gone."""
        try:
            # An earlier version has written no `saved`.
            goal = Goal(*orjson.loads(self._path.read_bytes()))
            # They become arguments of git.
            commits = [commit for commit in (goal.commit, goal.saved) if commit is not None]
            return goal if all(map(_ID.fullmatch, (goal.tree, *commits))) else None
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
        Repository(path).remove_unfinished()
    return found


class Restoration:
    """A restoration of a workspace: `save` comes first, then `complete`."""

    def __init__(
        self, save: Callable[[], Awaitable[Taken]], begin: Callable[[Target, Target], Awaitable[Sequence[bytes]]]
    ) -> None:
        self.save = save
        """The workspace before the restoration, in a commit that is kept."""
        self._begin = begin

    async def complete(self, target: Target, saved: Target) -> Sequence[bytes]:
        """Makes the workspace that of a checkpoint, except for what is not covered; returns what was skipped, see
        `Plan`. If the server ends meanwhile, the next one completes it; after an error, the workspace is as it was
        `saved`."""
        try:
            return await self._begin(target, saved)
        except (PalimpsestError, TimeoutError):
            await self._begin(saved, saved)
            raise


async def restore(
    sandbox: MovableSandbox, repository: Repository, present: Look, goal: Goal, secrets: Secrets = NO_SECRETS
) -> Sequence[bytes]:
    """Makes the covered entries of a workspace those of a commit; returns what was skipped, see `Plan`. Done again
    after a failure with a new look at what is present, it has the same result. Raises what the sandbox and git
    raise."""
    blobs = await repository.files(goal.tree) if goal.commit is not None else []
    modes = await repository.modes(goal.commit) if goal.commit is not None else b""
    # An interrupted restoration may have removed the .gitignore file because of which something was not covered.
    before = b"" if goal.saved is None or goal.saved == present.commit else await repository.modes(goal.saved)
    steps = await asyncio.to_thread(_plan, present, blobs, modes, before, secrets)
    if steps.removed or steps.made:
        await sandbox.update(steps.removed, _archive(repository, steps.made))
    return [secrets.mask(path) for path in steps.skipped]


def _plan(present: Look, blobs: Sequence[Blob], modes: bytes, before: bytes, secrets: Secrets) -> Plan:
    uncovered = {left.path for left in present.uncovered} | uncovered_in(modes) | uncovered_in(before)
    target = wanted(blobs, modes)
    # The lists have masked paths. A secret may have been set after the checkpoint.
    uncovered |= {path for path in target if secrets.are_in(path)}
    return plan(present.entries, target, uncovered)


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
