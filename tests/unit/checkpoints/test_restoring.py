"""Restoring: a workspace comes back byte for byte, whatever was in it and whatever has happened to it."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from app.runtime.checkpoints.coverage import CoverageRules
from app.runtime.checkpoints.repository import Repository
from app.runtime.checkpoints.restoring import restore
from app.runtime.checkpoints.taking import Look, TakingRules, look
from app.sandbox.base import SandboxConfig, SandboxLimits
from app.sandbox.host.local import LocalFactory

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
)
CONTENTS = (b"", b"text\n", b"no newline", bytes(range(256)) * 300, b"\0" * 5000)
MODES = (0o644, 0o755, 0o600, 0o444, 0o777)
TREES = 500 if os.environ.get("PALIMPSEST_TEST_LONG") else 100
RULES = TakingRules(CoverageRules(frozenset({b"node_modules"}), file_bytes=300_000))
UNCOVERED = (b"noise.log", b"large", b"node_modules")
"""What checkpoints leave as it is: an ignored file, one that is too large, and a cache."""


class Tree:
    """A directory that is changed at random."""

    def __init__(self, root: bytes, random: Random) -> None:
        self._root = root
        self._random = random

    def change(self, times: int) -> None:
        for _ in range(times):
            above = self._random.choice(self._directories())
            path = os.path.join(above, self._random.choice(NAMES))
            self._random.choice((self._put, self._put, self._link, self._directory, self._remove, self._move))(path)

    def _directories(self) -> list[bytes]:
        return [above for above, _, _ in os.walk(self._root)][:20]

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

    def _link(self, path: bytes) -> None:
        self._remove(path)
        os.symlink(self._random.choice((b"/etc/passwd", b"..", b"a", b"\xe9\xff")), path)

    def _directory(self, path: bytes) -> None:
        self._remove(path)
        os.mkdir(path)
        os.chmod(path, self._random.choice((0o755, 0o700, 0o555)))

    def _move(self, path: bytes) -> None:
        target = os.path.join(self._root, self._random.choice(NAMES))
        if os.path.lexists(path) and not target.startswith(path) and not path.startswith(target):
            self._remove(target)
            os.rename(path, target)

    def seen(self) -> dict[bytes, tuple[int, bytes]]:
        """All covered entries with type, mode and content."""
        return {path: entry for path, entry in self._entries() if not self._is_uncovered(path)}

    def uncovered(self) -> dict[bytes, tuple[int, bytes]]:
        """The other entries."""
        return {path: entry for path, entry in self._entries() if self._is_uncovered(path)}

    def _is_uncovered(self, path: bytes) -> bool:
        return os.path.relpath(path, self._root).split(b"/")[0] in UNCOVERED

    def change_uncovered(self) -> None:
        noise, large, cache = (os.path.join(self._root, name) for name in UNCOVERED)
        os.makedirs(cache, exist_ok=True)
        for path, size in ((noise, 10), (large, 310_000), (os.path.join(cache, b"x.js"), 10)):
            with open(path, "wb") as file:
                file.write(self._random.randbytes(size))

    def _entries(self) -> Iterator[tuple[bytes, tuple[int, bytes]]]:
        for above, folders, files in os.walk(self._root):
            for path in (os.path.join(above, name) for name in (*folders, *files)):
                mode = os.lstat(path).st_mode
                content = b""
                if stat.S_ISLNK(mode):
                    content = os.readlink(path)
                elif stat.S_ISREG(mode):
                    content = Path(os.fsdecode(path)).read_bytes()
                yield path, (0 if stat.S_ISLNK(mode) else mode, content)


@pytest.mark.parametrize("seed", range(4))
async def test_random_trees_come_back_byte_for_byte(tmp_path: Path, seed: int) -> None:
    sandbox = LocalFactory(tmp_path).open(SandboxConfig("s", "", False, SandboxLimits()))
    await sandbox.start()
    random = Random(seed)
    tree = Tree(os.fsencode(tmp_path / "workspaces" / "s"), random)
    repository = Repository(tmp_path / "repository.git")
    repository.create()
    (tmp_path / "workspaces" / "s" / ".gitignore").write_text("*.log\n")
    last, states = Look(), []
    for _ in range(TREES // 4):
        tree.change(random.randint(1, 25))
        tree.change_uncovered()
        last = await look(sandbox, repository, RULES, last)
        states.append((last, tree.seen()))
        target, expected = random.choice(states)
        kept = tree.uncovered()
        await restore(sandbox, repository, last.entries, target.commit, target.tree)
        assert tree.seen() == expected
        assert tree.uncovered() == kept
        saved, before = states[-1]
        last = await look(sandbox, repository, RULES, last)
        await restore(sandbox, repository, last.entries, saved.commit, saved.tree)
        assert tree.seen() == before
        assert tree.uncovered() == kept
        last = await look(sandbox, repository, RULES, last)
        assert last.commit == saved.commit


async def test_what_is_not_covered_stays(tmp_path: Path) -> None:
    sandbox = LocalFactory(tmp_path).open(SandboxConfig("s", "", False, SandboxLimits()))
    await sandbox.start()
    root = tmp_path / "workspaces" / "s"
    repository = Repository(tmp_path / "repository.git")
    repository.create()
    (root / ".gitignore").write_text("*.log\n")
    first = await look(sandbox, repository, TakingRules(), Look())
    (root / "new").mkdir()
    (root / "new" / "file").write_text("x")
    (root / "new" / "a.log").write_text("stays")
    second = await look(sandbox, repository, TakingRules(), first)
    await restore(sandbox, repository, second.entries, first.commit, first.tree)
    assert sorted(path.name for path in root.rglob("*")) == [".gitignore", "a.log", "new"]
