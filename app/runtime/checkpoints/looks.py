"""Looks at a workspace, as they are kept for the next one: in the repository's index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

import orjson

from app.runtime.checkpoints.coverage import Uncovered
from app.runtime.checkpoints.repository import EMPTY_TREE, INDEX, Repository, write_whole
from app.sandbox.base import TreeEntry

UNCOVERED = 1_000
"""Entries without a checkpoint that are listed."""
SLICE = 1000
"""Entries that are encoded, decoded or freed at once: no other thread runs meanwhile."""


class Known(NamedTuple):
    """An entry as a look found it. `blob` is the id of its content, empty for a directory; `settled` is whether an
    equal entry in a later look has the same content."""

    entry: TreeEntry
    blob: str = ""
    settled: bool = True


Ignore = tuple[TreeEntry, bytes, bool]
"""A .gitignore file with its content, and whether that is settled."""


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
    entries: list[Known] = field(default_factory=list)
    ignores: dict[bytes, Ignore] = field(default_factory=dict)
    uncovered: Sequence[Uncovered] = ()
    secrets: frozenset[str] = frozenset()
    """The ids of the secrets that were looked for in all contents."""
    is_whole: bool = True
    """Whether there was time for all contents; otherwise the other entries are missing."""

    @property
    def seen(self) -> Seen:
        """The look without the entries. Blocks."""
        files = sum(known.entry.type != "directory" for known in self.entries)
        size = sum(known.entry.size for known in self.entries)
        listed = self.uncovered[:UNCOVERED]
        return Seen(self.commit, self.tree, files, size, listed, len(listed) < len(self.uncovered))


def load_look(repository: Repository) -> Look:
    """The newest look of a repository; one at nothing if it is unknown. Blocks."""
    try:
        head, *slices = (repository.path / INDEX).read_bytes().split(b"\n")
        raw = orjson.loads(head)
        count = raw["entries"]
        # An earlier version has written them here, and no list of what is not covered.
        earlier, count = (count, len(count)) if isinstance(count, list) else ((), count)
        listed = chain(earlier, chain.from_iterable(map(orjson.loads, slices)))
        entries = [Known(_entry(entry), blob, settled) for entry, blob, settled in listed]
        if len(entries) != count:
            raise ValueError("it is incomplete")
        return Look(
            raw["commit"],
            raw["tree"],
            entries,
            {
                path.encode("latin-1"): (_entry(entry), text.encode("latin-1"), settled)
                for path, entry, text, settled in raw["ignores"]
            },
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
        "ignores": [
            (path.decode("latin-1"), _raw(entry), text.decode("latin-1"), settled)
            for path, (entry, text, settled) in found.ignores.items()
        ],
        "not_covered": [(path.decode("latin-1"), reason) for path, reason in found.uncovered],
        "secrets": sorted(found.secrets),
        "entries": len(found.entries),
    }
    records = ((_raw(known.entry), known.blob, known.settled) for known in found.entries)
    slices = iter(lambda: list(islice(records, SLICE)), [])
    write_whole(repository.path / INDEX, b"\n".join(map(orjson.dumps, chain([raw], slices))))


def replace_look(repository: Repository, earlier: Look, found: Look) -> Seen:
    """Keeps a look instead of the one before, and frees the entries of both. Blocks."""
    save_look(repository, found)
    seen = found.seen
    release(earlier, found)
    return seen


def last_seen(repository: Repository) -> Seen:
    """The newest look of a repository without its entries. Blocks."""
    last = load_look(repository)
    seen = last.seen
    release(last)
    return seen


def release(*looks: Look) -> None:
    """Frees the entries of looks, a few at a time; they cannot be used any more. Blocks."""
    for look in looks:
        while look.entries:
            del look.entries[-SLICE:]


def _raw(entry: TreeEntry) -> tuple[object, ...]:
    return (entry.path.decode("latin-1"), *entry[1:])


def _entry(raw: Sequence[object]) -> TreeEntry:
    path, *rest = raw
    assert isinstance(path, str)
    return TreeEntry(path.encode("latin-1"), *rest)  # type: ignore[arg-type]
