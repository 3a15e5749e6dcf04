"""What a store of snapshots must do, and the names of its objects."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Protocol

from app.errors import PalimpsestError


class ObjectMissingError(PalimpsestError):
    """The object does not exist, for example because a newer snapshot has replaced it."""

    code = "snapshot_missing"


class ObjectStore(Protocol):
    """Objects by key. All methods raise `WorkspaceStoreError` if the store does not answer or refuses."""

    async def put(self, key: str, data: bytes) -> None:
        """Writes an object; readers see all of it or nothing."""
        ...

    async def get(self, key: str) -> bytes:
        """Raises `ObjectMissingError`."""
        ...

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        """Parts of an object, each from a start up to an end. Raises `ObjectMissingError`."""
        ...

    async def copy(self, source: str, target: str) -> None:
        """Raises `ObjectMissingError`."""
        ...

    async def list(self, prefix: str) -> Sequence[str]:
        """The keys below a prefix, which ends with a slash."""
        ...

    async def folders(self, prefix: str) -> Sequence[str]:
        """The names that follow a prefix in keys with a further slash."""
        ...

    async def delete(self, keys: Iterable[str]) -> None:
        """Deletes objects; missing ones are ignored."""
        ...

    def describe(self) -> str:
        """One sentence for the operator, without secrets."""
        ...


class SessionObjects:
    """The objects of one session: everything below `{instance}/{session}/`, or of a part of them."""

    def __init__(self, store: ObjectStore, instance_id: str, session_id: str, part: str = "") -> None:
        """`part` is empty, or ends with a slash."""
        self.store = store
        self.prefix = f"{instance_id}/{session_id}/{part}"
        self.put_s: float | None = None
        """Seconds that storing an object may take."""

    async def put(self, key: str, data: bytes) -> None:
        """Raises `TimeoutError` after `put_s`."""
        async with asyncio.timeout(self.put_s):
            await self.store.put(key, data)

    def manifest(self, snapshot_id: str) -> str:
        return f"{self.prefix}manifests/{snapshot_id}"

    def pack(self, name: str) -> str:
        return f"{self.prefix}packs/{name}"

    async def delete_all(self) -> None:
        await self.store.delete(await self.store.list(self.prefix))
