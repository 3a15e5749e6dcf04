"""Takes a checkpoint: what has changed since the last look is read from the workspace and added to the repository."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal, NamedTuple

import orjson

from app.errors import TooLargeError
from app.runtime.checkpoints.coverage import IGNORE_FILES, CoverageRules, Uncovered, cover, is_ignore_file
from app.runtime.checkpoints.repository import EMPTY_TREE, INDEX, Blob, Import, Repository, write_whole
from app.runtime.checkpoints.secrets import NO_SECRETS, Secrets
from app.sandbox.base import Scan, Scannable, TreeEntry

MAX_ENTRIES = 200_000
"""Files and directories that are looked at."""
UNCOVERED = 1_000
"""Entries without a checkpoint that are listed."""
SEARCHED = 64 * 1024
"""Bytes in which secrets are looked for in the event loop, since a thread would take longer."""
FILE_MODE, PROGRAM_MODE, DIRECTORY_MODE = 0o644, 0o755, 0o755
"""Permissions that need no record."""


class Known(NamedTuple):
    """An entry as a look found it. `blob` is the id of its content, empty for a directory; `settled` is whether an
    equal entry in a later look has the same content."""

    entry: TreeEntry
    blob: str = ""
    settled: bool = True


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look has found: the commit (None if the workspace was empty) and its tree of files, how many files and
    bytes it covers, and up to `UNCOVERED` entries that no checkpoint covers."""

    commit: str | None = None
    tree: str = EMPTY_TREE
    files: int = 0
    bytes: int = 0
    uncovered: Sequence[Uncovered] = ()
    more_uncovered: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """A workspace as it was seen: the commit with it (None if it was empty) and its tree of files, the covered entries,
    the contents of .gitignore files, and what no checkpoint covers."""

    commit: str | None = None
    tree: str = EMPTY_TREE
    entries: Sequence[Known] = ()
    ignores: dict[bytes, tuple[TreeEntry, bytes, bool]] = field(default_factory=dict)
    uncovered: Sequence[Uncovered] = ()
    secrets: frozenset[str] = frozenset()
    """The ids of the secrets that were looked for in all contents."""

    @property
    def seen(self) -> Seen:
        """The look without the entries."""
        files = sum(known.entry.type != "directory" for known in self.entries)
        size = sum(known.entry.size for known in self.entries)
        listed = self.uncovered[:UNCOVERED]
        return Seen(self.commit, self.tree, files, size, listed, len(listed) < len(self.uncovered))


@dataclass(frozen=True, slots=True)
class TakingRules:
    """What is covered, and the most bytes of all covered files together."""

    coverage: CoverageRules = field(default_factory=CoverageRules)
    total_bytes: int = 1024 * 1024 * 1024


async def look(
    sandbox: Scannable, repository: Repository, rules: TakingRules, earlier: Look, secrets: Secrets = NO_SECRETS
) -> Look:
    """Looks at a workspace and adds what has changed since an `earlier` look to the repository, without what has one of
    the secrets. Raises `TooLargeError` (code `workspace_too_large`), and what the sandbox and git raise."""
    if not secrets.ids <= earlier.secrets:
        entries = [known._replace(settled=False) for known in earlier.entries]
        earlier = replace(earlier, entries=entries, ignores={})
    scan = await sandbox.scan(MAX_ENTRIES, rules.coverage.closed)
    scan, hidden = await asyncio.to_thread(_without_secrets, scan, secrets)
    ignores = await _read_ignores(sandbox, scan, earlier)
    texts = {path: text for path, (_, text, _) in ignores.items()}
    coverage = await asyncio.to_thread(cover, scan.entries, texts, rules.coverage)
    if sum(entry.size for entry in coverage.entries) > rules.total_bytes:
        raise TooLargeError(
            f"The workspace has more than {rules.total_bytes // 2**20:,} MiB, not counting ignored files.",
            code="workspace_too_large",
        )
    uncovered = sorted([*hidden, *coverage.uncovered])
    # What is kept of the look must not have them either.
    ignores = {path: known for path, known in ignores.items() if not secrets.are_in(known[1])}
    found = Look(ignores=ignores, uncovered=uncovered, secrets=secrets.ids)
    due, same = await asyncio.to_thread(_compare, coverage.entries, earlier)
    changed = bool(due) or not _is_same(same, uncovered, earlier)
    begun: AbstractAsyncContextManager[Import | None] = repository.importing() if changed else nullcontext()
    async with begun as writing:
        if writing is None:
            return replace(found, commit=earlier.commit, tree=earlier.tree, entries=same)
        contents = await _read(sandbox, writing, due, secrets)
        return await _write(writing, scan, contents, due, same, earlier, found)


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


def _is_same(same: Sequence[Known], uncovered: Sequence[Uncovered], earlier: Look) -> bool:
    """Whether entries that are all known, and those that are not covered, are exactly those of the earlier look."""
    if earlier.commit is None or [left.path for left in uncovered] != [left.path for left in earlier.uncovered]:
        return False
    return [_essence(known) for known in same] == [_essence(known) for known in earlier.entries]


def _essence(known: Known) -> tuple[bytes, str, int, str]:
    return known.entry.path, known.entry.type, known.entry.mode, known.blob


def _compare(entries: Sequence[TreeEntry], earlier: Look) -> tuple[list[TreeEntry], list[Known]]:
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


async def _read_ignores(sandbox: Scannable, scan: Scan, earlier: Look) -> dict[bytes, tuple[TreeEntry, bytes, bool]]:
    """The .gitignore files with their contents, and whether those are settled."""
    wanted = list(islice(filter(is_ignore_file, scan.entries), IGNORE_FILES))
    found: dict[bytes, tuple[TreeEntry, bytes, bool]] = {}
    due: list[TreeEntry] = []
    for entry in wanted:
        known = earlier.ignores.get(entry.path)
        if known is not None and known[2] and _is_untouched(entry, known[0]):
            found[entry.path] = (entry, known[1], True)
        else:
            due.append(entry)
    if due:
        async with aclosing(_contents(sandbox, due)) as contents:
            async for entry, data in contents:
                found[entry.path] = (entry, bytes(data), entry.ctime_ns < scan.settled_ns)
    return found


async def _contents(
    sandbox: Scannable, entries: Sequence[TreeEntry]
) -> AsyncGenerator[tuple[TreeEntry, bytearray], None]:
    """The contents of entries, as far as they can be read, each with its entry; of several hard links to a file, only
    one has it. Of a file that has grown since the look, only what it had then."""
    held = bytearray()
    at: int | None = None
    async with aclosing(sandbox.read_entries(entries)) as batches:
        async for batch in batches:
            for position, data in batch:
                if at is not None and position != at:
                    yield entries[at], held
                    held = bytearray()
                at = position
                room = entries[position].size - len(held) if entries[position].type == "file" else len(data)
                held += data[: max(0, room)]
    if at is not None:
        yield entries[at], held


class _Contents(NamedTuple):
    """The ids of what was read by path, and by inode for other hard links; and what has a secret, likewise."""

    by_path: dict[bytes, str]
    by_inode: dict[int, str]
    secret: set[bytes]
    secret_inodes: set[int]


async def _read(sandbox: Scannable, writing: Import, due: Sequence[TreeEntry], secrets: Secrets) -> _Contents:
    """Reads what is due, and writes what has no secret."""
    found = _Contents({}, {}, set(), set())
    async with aclosing(_contents(sandbox, due)) as contents:
        async for entry, data in contents:
            is_long = len(data) > SEARCHED
            if await asyncio.to_thread(secrets.are_in, data) if is_long else secrets.are_in(data):
                found.secret.add(entry.path)
                found.secret_inodes.add(entry.inode)
            else:
                found.by_path[entry.path] = found.by_inode[entry.inode] = await writing.blob(data)
    return found


async def _write(
    writing: Import,
    scan: Scan,
    contents: _Contents,
    due: Sequence[TreeEntry],
    same: Sequence[Known],
    earlier: Look,
    found: Look,
) -> Look:
    """Makes a commit of what was read and of what is the same."""
    ids = {known.entry.inode: known.blob for known in same if known.entry.type == "file"} | contents.by_inode
    entries = list(same)
    left: list[Uncovered] = []
    for entry in due:
        is_file = entry.type == "file"
        id = contents.by_path.get(entry.path) or (ids.get(entry.inode) if is_file else None)
        if entry.path in contents.secret or (is_file and entry.inode in contents.secret_inodes):
            left.append(Uncovered(entry.path, "secret"))
        elif id is None:
            # Gone, changed to another type, or closed to the server.
            left.append(Uncovered(entry.path, "unreadable"))
        else:
            entries.append(Known(entry, id, settled=entry.ctime_ns < scan.settled_ns))
    entries.sort(key=lambda known: known.entry.path)
    removed, put = _difference(earlier, entries)
    uncovered = sorted([*left, *found.uncovered])
    modes = await asyncio.to_thread(encode_modes, [known.entry for known in entries], uncovered)
    commit, tree = await writing.commit(earlier.tree, removed, put, modes)
    return replace(found, commit=commit, tree=tree, entries=entries, uncovered=uncovered)


def _difference(earlier: Look, entries: Sequence[Known]) -> tuple[list[bytes], list[Blob]]:
    """What to remove from the earlier tree, and what to put into it."""
    blobs = {known.entry.path: git_blob(known.entry, known.blob) for known in entries if known.blob}
    before = {known.entry.path: git_blob(known.entry, known.blob) for known in earlier.entries if known.blob}
    removed = [path for path in before if path not in blobs]
    return removed, [blob for path, blob in blobs.items() if before.get(path) != blob]


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


def load_look(repository: Repository) -> Look:
    """The newest look of a repository; one at nothing if it is unknown. Blocks."""
    try:
        raw = orjson.loads((repository.path / INDEX).read_bytes())
        return Look(
            raw["commit"],
            raw["tree"],
            [Known(_entry(entry), blob, settled) for entry, blob, settled in raw["entries"]],
            {
                path.encode("latin-1"): (_entry(entry), text.encode("latin-1"), settled)
                for path, entry, text, settled in raw["ignores"]
            },
            # What an earlier version has written lacks the complete list.
            [Uncovered(path.encode("latin-1"), reason) for path, reason in raw.get("not_covered", ())],
            frozenset(raw.get("secrets", ())),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return Look()


def save_look(repository: Repository, found: Look) -> None:
    """Keeps the newest look. Blocks."""
    raw = {
        "commit": found.commit,
        "tree": found.tree,
        "entries": [(_raw(known.entry), known.blob, known.settled) for known in found.entries],
        "ignores": [
            (path.decode("latin-1"), _raw(entry), text.decode("latin-1"), settled)
            for path, (entry, text, settled) in found.ignores.items()
        ],
        "not_covered": [(path.decode("latin-1"), reason) for path, reason in found.uncovered],
        "secrets": sorted(found.secrets),
    }
    write_whole(repository.path / INDEX, orjson.dumps(raw))


def _raw(entry: TreeEntry) -> tuple[object, ...]:
    return (entry.path.decode("latin-1"), *entry[1:])


def _entry(raw: Sequence[object]) -> TreeEntry:
    path, *rest = raw
    assert isinstance(path, str)
    return TreeEntry(path.encode("latin-1"), *rest)  # type: ignore[arg-type]
