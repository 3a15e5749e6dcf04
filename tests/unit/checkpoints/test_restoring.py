"""Restoring: what checkpoints cover comes back byte for byte, and nothing else changes, whatever was in the workspace
and whatever has happened to it."""

from __future__ import annotations

import io
import os
import shutil
import stat
import tarfile
import uuid
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import cast

import pytest

from app.runtime.checkpoints.coverage import CoverageRules
from app.runtime.checkpoints.looks import Look
from app.runtime.checkpoints.repository import Repository
from app.runtime.checkpoints.restoring import Goal, restore
from app.runtime.checkpoints.secrets import Secrets
from app.runtime.checkpoints.taking import TakingRules, look
from app.sandbox.base import MovableSandbox, SandboxFactory, TreeEntry
from app.sandbox.tar import END
from app.tools.masking import Masking
from tests.unit.checkpoints.test_keeping import opened
from tests.unit.sandbox.conftest import make_factory
from tests.unit.sandbox.shell import new_config

NAMES = (
    b"a",
    b"b",
    b"with space",
    b"\xe9\xff",
    b'quo"te\\',
    b"new\nline",
    b"-x",
    b"...",
    "ü".encode(),
    b"c.txt",
    b"\t",
    b"node_modules",
)
IGNORED = (b"", b"*.txt\n", b"a\n", b"a/\n", b"/b\n!c.txt\n", b"b/*\n", b"-x\n\xe9\xff\n", b"*a*\n")
"""Contents of .gitignore files, which none of them covers itself."""
CONTENTS = (b"", b"text\n", b"no newline", bytes(range(256)) * 12, b"\0" * 4000)
MODES = (0o644, 0o755, 0o600, 0o444, 0o777)
TREES = 500 if os.environ.get("PALIMPSEST_TEST_LONG") else 50
WALLED = 3
"""Trees in each kind of sandbox with walls."""
RULES = TakingRules(CoverageRules(frozenset({b"node_modules"}), file_bytes=7_000))
Entries = Mapping[bytes, tuple[int, bytes]]
"""Modes and contents by path; of links their targets."""


class Tree:
    """A directory that is changed at random. Names become ignored, too large or caches, and covered again."""

    def __init__(self, root: bytes, random: Random) -> None:
        self.root = root
        self._random = random

    def change(self, times: int) -> None:
        actions = (self._put, self._put, self._link, self._directory, self._remove, self._move, self._ignore)
        for _ in range(times):
            above = self._random.choice(self._directories())
            self._random.choice(actions)(os.path.join(above, self._random.choice(NAMES)))

    def _directories(self) -> list[bytes]:
        return [above for above, _, _ in os.walk(self.root)][:20]

    def _remove(self, path: bytes) -> None:
        if os.path.islink(path) or os.path.isfile(path):
            os.unlink(path)
        elif os.path.isdir(path):
            shutil.rmtree(path)

    def _put(self, path: bytes) -> None:
        self._remove(path)
        with open(path, "wb") as file:
            file.write(self._random.choice(CONTENTS) * self._random.randint(1, 3))
        os.chmod(path, self._random.choice(MODES))

    def _ignore(self, path: bytes) -> None:
        path = os.path.join(os.path.dirname(path), b".gitignore")
        self._remove(path)
        if patterns := self._random.choice(IGNORED):
            Path(os.fsdecode(path)).write_bytes(patterns)

    def _link(self, path: bytes) -> None:
        self._remove(path)
        os.symlink(self._random.choice((b"/etc/passwd", b"..", b"a", b"\xe9\xff")), path)

    def _directory(self, path: bytes) -> None:
        self._remove(path)
        os.mkdir(path)
        os.chmod(path, self._random.choice((0o755, 0o700, 0o555)))

    def _move(self, path: bytes) -> None:
        target = os.path.join(self.root, self._random.choice(NAMES))
        if os.path.lexists(path) and not target.startswith(path) and not path.startswith(target):
            self._remove(target)
            os.rename(path, target)

    def entries(self) -> Entries:
        return dict(self._entries())

    def _entries(self) -> Iterator[tuple[bytes, tuple[int, bytes]]]:
        for above, folders, files in os.walk(self.root):
            for path in (os.path.join(above, name) for name in (*folders, *files)):
                mode = os.lstat(path).st_mode
                content = b""
                if stat.S_ISLNK(mode):
                    content = os.readlink(path)
                elif stat.S_ISREG(mode):
                    content = Path(os.fsdecode(path)).read_bytes()
                yield os.path.relpath(path, self.root), (0 if stat.S_ISLNK(mode) else mode, content)


class Mirror:
    """A tree of this machine that is that of a sandbox: of one without walls the workspace itself, else a copy."""

    def __init__(self, sandbox: MovableSandbox, tree: Tree, *, is_copy: bool) -> None:
        self.sandbox = sandbox
        self.tree = tree
        self._is_copy = is_copy

    async def push(self) -> Entries:
        """After the tree was changed."""
        if self._is_copy:
            await self.sandbox.restore(pieces(packed(self.tree)))
        return self.tree.entries()

    async def pull(self) -> Entries:
        """After the sandbox was changed."""
        if self._is_copy:
            shutil.rmtree(self.tree.root)
            data = b"".join([piece async for piece in self.sandbox.archive()])
            with tarfile.open(fileobj=io.BytesIO(data), errors="surrogateescape") as members:
                # Python before 3.11.4 has no filters.
                members.extraction_filter = lambda member, _: member
                members.extractall(os.fsdecode(self.tree.root))
        return self.tree.entries()


def packed(tree: Tree) -> bytes:
    """A tree as a tar."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.GNU_FORMAT) as members:
        for path, (_, content) in sorted(tree.entries().items()):
            member = members.gettarinfo(os.fsdecode(os.path.join(tree.root, path)), os.fsdecode(path))
            member.uid = member.gid = 1000
            members.addfile(member, io.BytesIO(content) if member.isreg() else None)
    return output.getvalue()


async def pieces(*data: bytes) -> AsyncIterator[bytes]:
    for piece in data:
        yield piece


class CutOffError(Exception):
    """A restoration was killed."""


class CutOff:
    """A sandbox whose restoration ends when everything is removed and nothing is made."""

    def __init__(self, sandbox: MovableSandbox) -> None:
        self._sandbox = sandbox

    async def update(self, removed: Sequence[TreeEntry], archive: AsyncIterator[bytes]) -> None:
        async with aclosing(archive):  # type: ignore[type-var]
            await self._sandbox.update(removed, pieces(END))
        raise CutOffError


def at_or_below(entries: Entries, tops: Collection[bytes]) -> Entries:
    return {path: entry for path, entry in entries.items() if is_at_or_below(path, tops)}


def is_at_or_below(path: bytes, tops: Collection[bytes]) -> bool:
    names = path.split(b"/")
    return any(b"/".join(names[:depth]) in tops for depth in range(1, len(names) + 1))


def check(then: Entries, before: Entries, after: Entries, looks: tuple[Look, Look], skipped: Sequence[bytes]) -> None:
    """`after` a restoration, what is not covered is as it was `before`, and the rest as it was `then`."""
    first, second = ({left.path for left in seen.uncovered} for seen in looks)
    assert at_or_below(after, second) == at_or_below(before, second)
    stays = {*first, *second, *skipped}
    expected = {path: entry for path, entry in then.items() if not is_at_or_below(path, stays)}
    assert {path: after.get(path) for path in expected} == expected
    more = [path for path in after if path not in expected and not is_at_or_below(path, stays)]
    assert all(any(top.startswith(path + b"/") for top in stays) for path in more)
    for path in skipped:
        assert path in first | second or any(top.startswith(path + b"/") for top in second)


async def come_back(mirror: Mirror, repository: Repository, random: Random) -> int:
    """Restores a state of a random tree and undoes that; returns how many paths were skipped."""
    sandbox, tree = mirror.sandbox, mirror.tree
    tree.change(random.randint(5, 25))
    then = await mirror.push()
    first = await look(sandbox, repository, RULES, Look())
    tree.change(random.randint(1, 15))
    before = await mirror.push()
    second = await look(sandbox, repository, RULES, first)
    goal, last = Goal(first.commit, first.tree, second.commit), second
    if random.random() < 0.5:
        try:
            await restore(cast(MovableSandbox, CutOff(sandbox)), repository, last, goal)
        except CutOffError:
            last = await look(sandbox, repository, RULES, last)
    skipped = await restore(sandbox, repository, last, goal)
    check(then, before, await mirror.pull(), (first, second), skipped)
    last = await look(sandbox, repository, RULES, last)
    await restore(sandbox, repository, last, Goal(second.commit, second.tree, last.commit))
    assert await mirror.pull() == before
    assert (await look(sandbox, repository, RULES, last)).commit == second.commit
    return len(skipped)


async def run(kind: str, folder: Path, seeds: range) -> int:
    """Returns how many paths were skipped in all restorations."""
    os.chmod(folder, 0o700)
    factory = make_factory(kind, folder, f"test-{uuid.uuid4().hex}")
    skipped = 0
    try:
        for seed in seeds:
            try:
                skipped += await run_one(kind, folder, factory, seed)
            except AssertionError as error:
                error.add_note(f"The seed is {seed}.")
                raise
    finally:
        await factory.remove_orphans(set())
        await factory.aclose()
    return skipped


async def run_one(kind: str, folder: Path, factory: SandboxFactory, seed: int) -> int:
    sandbox = cast(MovableSandbox, factory.open(new_config(f"s{seed}")))
    await sandbox.start()
    repository = Repository(folder / f"{seed}.git")
    repository.create()
    root = folder / "workspaces" / f"s{seed}"
    root.mkdir(parents=True, exist_ok=True)
    random = Random(seed)
    mirror = Mirror(sandbox, Tree(os.fsencode(root), random), is_copy=kind == "docker")
    return await come_back(mirror, repository, random)


@pytest.mark.slow
async def test_random_trees_come_back_byte_for_byte(tmp_path: Path) -> None:
    assert await run("local-unsafe", tmp_path, range(TREES)) > TREES // 10


@pytest.mark.bubblewrap
async def test_random_trees_come_back_in_bubblewrap(tmp_path: Path) -> None:
    await run("bubblewrap", tmp_path, range(TREES, TREES + WALLED))


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.measured
async def test_random_trees_come_back_in_docker(tmp_path: Path) -> None:
    await run("docker", tmp_path, range(TREES, TREES + WALLED))


async def test_what_is_not_covered_stays(tmp_path: Path) -> None:
    sandbox, repository = await opened(tmp_path)
    root = tmp_path / "workspaces" / "s"
    (root / ".gitignore").write_text("*.log\n")
    first = await look(sandbox, repository, TakingRules(), Look())
    (root / "new").mkdir()
    (root / "new" / "file").write_text("x")
    (root / "new" / "a.log").write_text("stays")
    second = await look(sandbox, repository, TakingRules(), first)
    assert await restore(sandbox, repository, second, Goal(first.commit, first.tree)) == []
    assert sorted(path.name for path in root.rglob("*")) == [".gitignore", "a.log", "new"]


async def test_what_is_covered_no_more_stays_and_survives_undoing(tmp_path: Path) -> None:
    sandbox, repository = await opened(tmp_path)
    root = tmp_path / "workspaces" / "s"
    (root / "dev.db").write_text("one")
    first = await look(sandbox, repository, TakingRules(), Look())
    (root / ".gitignore").write_text("*.db\n")
    (root / "dev.db").write_text("two")
    second = await look(sandbox, repository, TakingRules(), first)
    # As if it were long ago: what is covered is not read again.
    second = replace(second, entries=[known._replace(settled=True) for known in second.entries])
    (root / "new.db").write_text("three")
    saved = await look(sandbox, repository, TakingRules(), second)
    goal = Goal(first.commit, first.tree, saved.commit)
    assert await restore(sandbox, repository, saved, goal) == [b"dev.db"]
    last = await look(sandbox, repository, TakingRules(), saved)
    assert not last.uncovered
    assert await restore(sandbox, repository, last, Goal(saved.commit, saved.tree)) == [b"dev.db", b"new.db"]
    found = {path.name: path.read_text() for path in root.iterdir()}
    assert found == {".gitignore": "*.db\n", "dev.db": "two", "new.db": "three"}


async def test_a_file_whose_name_has_become_secret_stays(tmp_path: Path) -> None:
    sandbox, repository = await opened(tmp_path)
    root = tmp_path / "workspaces" / "s"
    (root / "key-0123456789").write_text("one")
    first = await look(sandbox, repository, TakingRules(), Look())
    (root / "key-0123456789").write_text("two")
    secrets = Secrets(Masking({"KEY": "0123456789"}), frozenset({"KEY"}))
    saved = await look(sandbox, repository, TakingRules(), first, secrets)
    goal = Goal(first.commit, first.tree, saved.commit)
    assert await restore(sandbox, repository, saved, goal, secrets) == [b"key-[secret KEY]"]
    assert (root / "key-0123456789").read_text() == "two"
