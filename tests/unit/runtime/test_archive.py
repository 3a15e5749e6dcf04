"""An archive fails before the response has started, and holds its sandbox only while it is read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.errors import SandboxUnavailableError
from app.runtime.sandboxes.slots import Lease
from app.runtime.services.files import Archive


class Workspace:
    """The part of a sandbox that an archive reads: pieces, and an error in place of a None."""

    def __init__(self, *pieces: bytes | None) -> None:
        self._pieces = pieces

    async def archive(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            if piece is None:
                raise SandboxUnavailableError("It is gone.")
            yield piece


def lease_on(workspace: Any, released: list[str]) -> Lease:
    async def admit(wait_s: float) -> None:
        """There is always room."""

    return Lease(workspace, lambda: released.append("released"), admit, wait_s=0)


async def test_all_pieces_arrive_once_and_in_order() -> None:
    released: list[str] = []
    archive = Archive(lease_on(Workspace(b"a", b"b", b"c"), released))
    await archive.open()
    assert [piece async for piece in archive] == [b"a", b"b", b"c"]
    assert released == []
    await archive.aclose()
    await archive.aclose()
    assert released == ["released"]


async def test_an_unreadable_workspace_fails_at_once() -> None:
    released: list[str] = []
    archive = Archive(lease_on(Workspace(None), released))
    with pytest.raises(SandboxUnavailableError):
        await archive.open()
    await archive.aclose()
    assert released == ["released"]


async def test_an_empty_archive_has_no_pieces() -> None:
    archive = Archive(lease_on(Workspace(), []))
    await archive.open()
    assert [piece async for piece in archive] == []
