"""A store in memory, and snapshots of directories without a server."""

from __future__ import annotations

import os
import stat
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import count
from pathlib import Path

from app.errors import WorkspaceStoreError
from app.runtime.workspaces.reading import archive, load
from app.runtime.workspaces.store import ObjectMissingError, SessionObjects
from app.runtime.workspaces.taking import Fence, Progress, Snapshot, superseded, take
from app.sandbox.base import MovableSandbox

LIMIT = 64 * 2**20


class MemoryStore:
    """Implements `ObjectStore`; `away` makes every call fail, `put_bytes` counts what was stored, and `before_next` is
    what happens elsewhere before the next content is read or stored."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.away = False
        self.put_bytes = 0
        self.before_next: Callable[[], Awaitable[object]] | None = None

    async def _meanwhile(self) -> None:
        happens, self.before_next = self.before_next, None
        if happens is not None:
            await happens()

    def _answer(self) -> None:
        if self.away:
            raise WorkspaceStoreError("away")

    async def put(self, key: str, data: bytes) -> None:
        await self._meanwhile()
        self._answer()
        self.objects[key] = data
        self.put_bytes += len(data)

    async def get(self, key: str) -> bytes:
        self._answer()
        if key not in self.objects:
            raise ObjectMissingError("missing")
        return self.objects[key]

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        await self._meanwhile()
        data = await self.get(key)
        return [data[start:end] for start, end in ranges]

    async def copy(self, source: str, target: str) -> None:
        await self.put(target, await self.get(source))

    async def list(self, prefix: str) -> Sequence[str]:
        self._answer()
        return [key for key in self.objects if key.startswith(prefix)]

    async def folders(self, prefix: str) -> Sequence[str]:
        return sorted({key[len(prefix) :].partition("/")[0] for key in await self.list(prefix)})

    async def delete(self, keys: Iterable[str]) -> None:
        self._answer()
        for key in keys:
            self.objects.pop(key, None)

    def describe(self) -> str:
        return "memory"


class Keeping:
    """Takes snapshots of one sandbox, one after the other, as a server does."""

    def __init__(self, sandbox: MovableSandbox) -> None:
        self.store = MemoryStore()
        self.objects = SessionObjects(self.store, "instance", "session")
        self.sandbox = sandbox
        self.newest = Snapshot()
        self.progress = Progress()
        self.gives_way_after: int | None = None
        """The batches after which a command waits."""
        self.has_read = False

    async def take(self, max_bytes: int = LIMIT) -> Snapshot | None:
        def read() -> None:
            self.has_read = True

        looks = count()

        def is_wanted() -> bool:
            return self.gives_way_after is not None and next(looks) >= self.gives_way_after

        fence = Fence(is_wanted, read)
        self.store.put_bytes = 0
        taken = await take(self.objects, self.sandbox, self.newest, self.progress, fence, tenure=1, max_bytes=max_bytes)
        if taken is not None:
            unused = superseded(self.objects, self.newest, taken, self.progress.packs)
            self.progress.clear()
            await self.store.delete(unused)
            self.newest = taken
        return taken

    async def restore_to(self, sandbox: MovableSandbox) -> None:
        """As another machine does, which knows nothing but the snapshot's id."""
        assert self.newest.id is not None
        snapshot = await load(self.objects, self.newest.id)
        await sandbox.restore(archive(self.objects, snapshot.tree, owner=1000))


def content(root: Path) -> dict[bytes, object]:
    """Everything below a directory that a snapshot keeps: types, permissions, contents, targets."""
    found: dict[bytes, object] = {}
    for folder, directories, files in os.walk(os.fsencode(root)):
        for name in [*directories, *files]:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            relative = os.path.relpath(path, os.fsencode(root))
            if stat.S_ISLNK(status.st_mode):
                found[relative] = os.readlink(path)
            elif stat.S_ISDIR(status.st_mode):
                found[relative] = status.st_mode & 0o777
            elif stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    found[relative] = (status.st_mode & 0o777, int(status.st_mtime), file.read())
    return found
