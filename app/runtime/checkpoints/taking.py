"""Takes a checkpoint: what has changed since the last look is read from the workspace and added to the repository."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Literal, NamedTuple

from app.errors import TooLargeError
from app.runtime.checkpoints.coverage import IGNORE_FILES, CoverageRules, Uncovered, cover, is_ignore_file
from app.runtime.checkpoints.looks import Ignore, Known, Look
from app.runtime.checkpoints.repository import Blob, Import, Repository
from app.runtime.checkpoints.secrets import NO_SECRETS, Secrets
from app.sandbox.base import FilePiece, Scan, Scannable, TreeEntry

MAX_ENTRIES = 200_000
"""Files and directories that are looked at."""
FILE_MODE, PROGRAM_MODE, DIRECTORY_MODE = 0o644, 0o755, 0o755
"""Permissions that need no record."""


@dataclass(frozen=True, slots=True)
class TakingRules:
    """What is covered, and the most bytes of all covered files together."""

    coverage: CoverageRules = field(default_factory=CoverageRules)
    total_bytes: int = 1024 * 1024 * 1024


async def look(
    sandbox: Scannable,
    repository: Repository,
    rules: TakingRules,
    earlier: Look,
    secrets: Secrets = NO_SECRETS,
    *,
    seconds: float = math.inf,
) -> Look:
    """Looks at a workspace and adds what has changed since an `earlier` look to the repository, without what has one of
    the secrets. After some `seconds` of reading it stops, but not without a file. Raises `TooLargeError` (code
    `workspace_too_large`), and what the sandbox and git raise."""
    if not secrets.ids <= earlier.secrets:
        earlier = await asyncio.to_thread(_unsettled, earlier)
    scan = await sandbox.scan(MAX_ENTRIES, rules.coverage.closed)
    scan, hidden, wanted = await asyncio.to_thread(_prepare, scan, secrets)
    ignores = await _read_ignores(sandbox, scan, wanted, earlier)
    compared, ignores = await asyncio.to_thread(
        lambda: (_compare(scan, ignores, hidden, rules, earlier), _without_secret_texts(ignores, secrets))
    )
    found = Look(ignores=ignores, uncovered=compared.uncovered, secrets=secrets.ids)
    begun: AbstractAsyncContextManager[Import | None] = repository.importing() if compared.changed else nullcontext()
    async with begun as writing:
        if writing is None:
            return replace(found, commit=earlier.commit, tree=earlier.tree, entries=compared.same)
        contents = await _read(sandbox, writing, compared.due, secrets, seconds)
        return await writing.in_thread(partial(_write, writing, scan, contents, compared, earlier, found))


def _unsettled(earlier: Look) -> Look:
    """The look, so that all contents are read again."""
    return replace(earlier, entries=[known._replace(settled=False) for known in earlier.entries], ignores={})


def _prepare(scan: Scan, secrets: Secrets) -> tuple[Scan, list[Uncovered], list[TreeEntry]]:
    """The entries without a secret in their paths, and the others; and the .gitignore files to read."""
    scan, hidden = _without_secrets(scan, secrets)
    return scan, hidden, list(islice(filter(is_ignore_file, scan.entries), IGNORE_FILES))


def _without_secrets(scan: Scan, secrets: Secrets) -> tuple[Scan, list[Uncovered]]:
    """The entries without a secret in their paths, and the others."""
    # Nearly always none has, and so many paths are searched faster at once.
    if not secrets.are_in(b"\0".join(entry.path for entry in scan.entries)):
        return scan, []
    entries: list[TreeEntry] = []
    hidden: list[Uncovered] = []
    for entry in scan.entries:
        if not secrets.are_in(entry.path):
            entries.append(entry)
        elif not secrets.are_in(entry.path.rpartition(b"/")[0]):
            hidden.append(Uncovered(secrets.mask(entry.path), "secret"))
    return scan._replace(entries=entries), hidden


def _without_secret_texts(ignores: Mapping[bytes, Ignore], secrets: Secrets) -> dict[bytes, Ignore]:
    """What may be kept of .gitignore files."""
    return {path: known for path, known in ignores.items() if not secrets.are_in(known[1])}


class _Compared(NamedTuple):
    """The entries whose content has to be read, those that are known, and what is not covered; whether anything differs
    from the earlier look."""

    due: list[TreeEntry]
    same: list[Known]
    uncovered: list[Uncovered]
    changed: bool


def _compare(
    scan: Scan, ignores: Mapping[bytes, Ignore], hidden: Sequence[Uncovered], rules: TakingRules, earlier: Look
) -> _Compared:
    """Raises `TooLargeError` (code `workspace_too_large`)."""
    coverage = cover(scan.entries, {path: text for path, (_, text, _) in ignores.items()}, rules.coverage)
    if sum(entry.size for entry in coverage.entries) > rules.total_bytes:
        raise TooLargeError(
            f"The workspace has more than {rules.total_bytes // 2**20:,} MiB, not counting ignored files.",
            code="workspace_too_large",
        )
    uncovered = sorted([*hidden, *coverage.uncovered])
    due, same = _divide(coverage.entries, earlier)
    return _Compared(due, same, uncovered, bool(due) or not _is_same(same, uncovered, earlier))


def _is_same(same: Sequence[Known], uncovered: Sequence[Uncovered], earlier: Look) -> bool:
    """Whether entries that are all known, and those that are not covered, are exactly those of the earlier look."""
    if earlier.commit is None or [left.path for left in uncovered] != [left.path for left in earlier.uncovered]:
        return False
    return len(same) == len(earlier.entries) and all(map(_is_alike, same, earlier.entries))


def _is_alike(known: Known, before: Known) -> bool:
    return (known.entry.path, known.entry.type, known.entry.mode, known.blob) == (
        before.entry.path,
        before.entry.type,
        before.entry.mode,
        before.blob,
    )


def _divide(entries: Sequence[TreeEntry], earlier: Look) -> tuple[list[TreeEntry], list[Known]]:
    """The entries whose content has to be read, and the others."""
    before = {known.entry.path: known for known in earlier.entries}
    due: list[TreeEntry] = []
    same: list[Known] = []
    for entry in entries:
        known = before.get(entry.path)
        if entry.type == "directory":
            same.append(Known(entry))
        elif known is not None and known.settled and _is_untouched(entry, known.entry):
            same.append(Known(entry, known.blob))
        else:
            due.append(entry)
    return due, same


def _is_untouched(entry: TreeEntry, before: TreeEntry) -> bool:
    return (entry.type, entry.size, entry.mtime_ns, entry.ctime_ns, entry.inode) == (
        before.type,
        before.size,
        before.mtime_ns,
        before.ctime_ns,
        before.inode,
    )


async def _read_ignores(
    sandbox: Scannable, scan: Scan, wanted: Sequence[TreeEntry], earlier: Look
) -> dict[bytes, Ignore]:
    """The .gitignore files by path."""
    found: dict[bytes, Ignore] = {}
    due: list[TreeEntry] = []
    for entry in wanted:
        known = earlier.ignores.get(entry.path)
        if known is not None and known[2] and _is_untouched(entry, known[0]):
            found[entry.path] = (entry, known[1], True)
        else:
            due.append(entry)
    if due:
        pieces = _Pieces(due)
        async with aclosing(sandbox.read_entries(due)) as batches:
            async for batch in batches:
                for entry, data in pieces.joined(batch):
                    found[entry.path] = (entry, bytes(data), entry.ctime_ns < scan.settled_ns)
        for entry, data in pieces.last():
            found[entry.path] = (entry, bytes(data), entry.ctime_ns < scan.settled_ns)
    return found


class _Pieces:
    """Joins what is read of entries. Of a file that has grown since the look, only what it had then."""

    def __init__(self, entries: Sequence[TreeEntry]) -> None:
        self._entries = entries
        self._at: int | None = None
        self._held = bytearray()

    def joined(self, batch: Sequence[FilePiece]) -> Iterator[tuple[TreeEntry, bytearray]]:
        """The contents that are complete with these pieces, each with its entry; of several hard links to a file, only
        one has it."""
        for position, data in batch:
            if position != self._at:
                yield from self.last()
                self._at, self._held = position, bytearray()
            entry = self._entries[position]
            room = entry.size - len(self._held) if entry.type == "file" else len(data)
            self._held += data[: max(0, room)]

    def last(self) -> Iterator[tuple[TreeEntry, bytearray]]:
        """The content that the next piece, or the end, completes."""
        if self._at is not None:
            yield self._entries[self._at], self._held


class _Contents(NamedTuple):
    """The ids of what was read by path, and by inode for other hard links; what has a secret, likewise; and whether
    there was time for all."""

    by_path: dict[bytes, str]
    by_inode: dict[int, str]
    secret: set[bytes]
    secret_inodes: set[int]
    is_whole: bool = True


async def _read(
    sandbox: Scannable, writing: Import, due: Sequence[TreeEntry], secrets: Secrets, seconds: float
) -> _Contents:
    """Reads what is due, as far as there is time, and writes what has no secret."""
    found = _Contents({}, {}, set(), set())
    until = math.inf
    pieces = _Pieces(due)

    def take(contents: Iterator[tuple[TreeEntry, bytearray]]) -> None:
        for entry, data in contents:
            if secrets.are_in(data):
                found.secret.add(entry.path)
                found.secret_inodes.add(entry.inode)
            else:
                found.by_path[entry.path] = found.by_inode[entry.inode] = writing.blob(data)

    async with aclosing(sandbox.read_entries(due)) as batches:
        async for batch in batches:
            # From the first content on, which Docker finds late, and never without a file: the next look gets further.
            until = min(until, time.monotonic() + seconds)
            if found.by_path and time.monotonic() >= until:
                return found._replace(is_whole=False)
            await writing.in_thread(partial(take, pieces.joined(batch)))
    await writing.in_thread(partial(take, pieces.last()))
    return found


def _write(writing: Import, scan: Scan, contents: _Contents, compared: _Compared, earlier: Look, found: Look) -> Look:
    """Makes a commit of what was read and of what is the same."""
    ids = {known.entry.inode: known.blob for known in compared.same if known.entry.type == "file"} | contents.by_inode
    entries = compared.same
    left: list[Uncovered] = []
    for entry in compared.due:
        is_file = entry.type == "file"
        id = contents.by_path.get(entry.path) or (ids.get(entry.inode) if is_file else None)
        if entry.path in contents.secret or (is_file and entry.inode in contents.secret_inodes):
            left.append(Uncovered(entry.path, "secret"))
        elif id is not None:
            entries.append(Known(entry, id, settled=entry.ctime_ns < scan.settled_ns))
        elif contents.is_whole:
            # Gone, changed to another type, or closed to the server.
            left.append(Uncovered(entry.path, "unreadable"))
    entries.sort(key=attrgetter("entry.path"))
    removed, put = _difference(earlier, entries)
    uncovered = sorted([*left, *found.uncovered])
    modes = encode_modes([known.entry for known in entries], uncovered)
    commit, tree = writing.commit(earlier.tree, removed, put, modes)
    return replace(found, commit=commit, tree=tree, entries=entries, uncovered=uncovered, is_whole=contents.is_whole)


def _difference(earlier: Look, entries: Sequence[Known]) -> tuple[list[bytes], list[Blob]]:
    """What to remove from the earlier tree, and what to put into it."""
    before = {known.entry.path: known for known in earlier.entries if known.blob}
    put: list[Blob] = []
    for known in entries:
        if known.blob:
            blob, last = git_blob(known.entry, known.blob), before.pop(known.entry.path, None)
            if last is None or git_blob(last.entry, last.blob) != blob:
                put.append(blob)
    return list(before), put


def git_blob(entry: TreeEntry, id: str) -> Blob:
    """The entry in a tree; git knows no permissions but one."""
    if entry.type == "symlink":
        return Blob(entry.path, 0o120000, id)
    return Blob(entry.path, 0o100755 if entry.mode & 0o100 else 0o100644, id)


def encode_modes(entries: Sequence[TreeEntry], uncovered: Sequence[Uncovered]) -> bytes:
    """What a tree cannot hold: permissions that are not the usual ones, empty directories, and the paths that are not
    covered, which a restoration leaves as they are. A NUL ends each."""
    filled = {entry.path.rpartition(b"/")[0] for entry in entries}
    modes = [b"%o %s %s\0" % (e.mode, e.type[0].encode(), e.path) for e in entries if _has_mode(e, filled)]
    return b"".join((*modes, *(b"0 u %s\0" % left.path for left in uncovered)))


_KINDS: dict[bytes, Literal["file", "directory", "uncovered"]] = {b"f": "file", b"d": "directory", b"u": "uncovered"}


def _has_mode(entry: TreeEntry, filled: set[bytes]) -> bool:
    if entry.type == "directory":
        return entry.mode != DIRECTORY_MODE or entry.path not in filled
    return entry.type == "file" and entry.mode != (PROGRAM_MODE if entry.mode & 0o100 else FILE_MODE)


def decode_modes(data: bytes) -> Iterator[tuple[bytes, Literal["file", "directory", "uncovered"], int]]:
    """The paths of `encode_modes`, what each is, and its permissions."""
    for record in data.split(b"\0"):
        if record:
            mode, kind, path = record.split(b" ", 2)
            yield path, _KINDS[kind], int(mode, 8)
