"""Looks at a workspace of many files: nothing of their work is done in the event loop, and what is kept is complete."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from itertools import islice
from pathlib import Path

import orjson

from app.runtime.checkpoints.coverage import Uncovered
from app.runtime.checkpoints.differences import parse_changes
from app.runtime.checkpoints.looks import SLICE, Known, Look, last_seen, load_look, replace_look, save_look
from app.runtime.checkpoints.repository import INDEX, Repository, blob_id
from app.runtime.checkpoints.taking import TakingRules, look
from app.runtime.values.checkpoints import FileChange
from app.sandbox.base import FilePiece, Scan, TreeEntry

FILES = 20_000
LOOP_S = 0.025
"""CPU time of the event loop for a look: it takes 5 ms, and each pass over the entries would take 30 ms."""


class Large:
    """A workspace of small files; `changed` of them have other contents."""

    def __init__(self, changed: int, files: int = FILES) -> None:
        self._entries = [entry(number, number < changed) for number in range(files)]

    async def scan(self, limit: int, skip: frozenset[bytes] = frozenset()) -> Scan:
        return Scan(self._entries, settled_ns=10)

    async def read_entries(self, entries: Sequence[TreeEntry]) -> AsyncGenerator[Sequence[FilePiece], None]:
        pieces = (FilePiece(place, b"%d" % each.mtime_ns) for place, each in enumerate(entries))
        while batch := await asyncio.to_thread(lambda: list(islice(pieces, SLICE))):
            yield batch


def entry(number: int, changed: bool) -> TreeEntry:
    return TreeEntry(b"file-%05d" % number, "file", 0o644, 1, 1 + changed, 1 + changed, number)


async def test_the_event_loop_has_no_part_in_a_large_look(tmp_path: Path) -> None:
    repository, last = Repository(tmp_path / "repository.git"), Look()
    repository.create()
    for changed in (0, FILES // 2):
        workspace, before = Large(changed), time.thread_time()
        last = await look(workspace, repository, TakingRules(), last)
        assert time.thread_time() - before < LOOP_S
    assert len(last.entries) == FILES
    assert {known.blob for known in last.entries} == {blob_id(b"1"), blob_id(b"2")}


async def test_a_look_without_time_continues_where_the_last_one_ended(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repository.git")
    repository.create()
    workspace, found = Large(SLICE, 3 * SLICE), []
    for is_whole in (False, False, False, True):
        last = await look(workspace, repository, TakingRules(), load_look(repository), seconds=0)
        save_look(repository, last)
        assert (last.is_whole, last.uncovered) == (is_whole, [])
        found.append(len(await repository.files(last.tree)))
    assert found == [SLICE - 1, 2 * SLICE - 2, 3 * SLICE - 3, 3 * SLICE]
    assert len(last.entries) == 3 * SLICE


def test_a_look_is_read_as_it_was_kept(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repository.git")
    repository.create()
    known = [Known(entry(number, False), blob_id(b""), number % 2 == 0) for number in range(2 * SLICE + 1)]
    ignores = {b"\xff\n.gitignore": (entry(0, True), b"*.log\n\xff", True)}
    found = Look("c" * 40, "d" * 40, known, ignores, [Uncovered(b"a\xff.log", "ignored")], frozenset({"s"}))
    assert load_look(repository) == Look()
    save_look(repository, found)
    assert load_look(repository) == found

    # An earlier version kept all of it in one line.
    whole = (repository.path / INDEX).read_bytes()
    head, *slices = map(orjson.loads, whole.splitlines())
    (repository.path / INDEX).write_bytes(orjson.dumps(head | {"entries": [each for some in slices for each in some]}))
    assert load_look(repository) == found

    for size in range(0, len(whole), 4_999):
        (repository.path / INDEX).write_bytes(whole[:size])
        assert load_look(repository) == Look()
    for damaged in (b"", b"[]", b"null", b"1", b"{}", whole[: whole.rindex(b"\n")], whole.partition(b"\n")[0]):
        (repository.path / INDEX).write_bytes(damaged)
        assert load_look(repository) == Look()

    seen = replace_look(repository, Look(), found)
    assert (seen.commit, seen.tree, seen.files, seen.bytes) == ("c" * 40, "d" * 40, 2 * SLICE + 1, 2 * SLICE + 1)
    assert (seen.uncovered, seen.more_uncovered) == (found.uncovered, False)
    assert last_seen(repository) == seen
    assert found.entries == []


def test_of_many_changes_only_some_are_listed_and_all_counted() -> None:
    ids = b"%s %s" % (b"1" * 40, b"2" * 40)
    raw = [b":100644 100644 %s %s\0%s\0" % (ids, status, path) for status, path in ((b"M", b"b"), (b"R090", b"a\0c"))]
    counted = [b"3\t4\tb\0", b"1\t2\t\0a\0c\0"]
    found = parse_changes(b"".join([*raw, b"\0", *counted]), most=1)
    b = FileChange(path="b", status="modified", additions=3, deletions=4, binary=False)
    assert (found.items, found.files, found.additions, found.deletions) == ([b], 2, 4, 6)
