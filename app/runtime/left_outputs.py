"""Stored outputs of calls that were interrupted by a crash of the server; the model is shown a part of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.errors import NotFoundError

SHOWN_BYTES = 4096
"""Bytes shown of such an output, half from its start and half from its end; `recall` returns the rest."""


@dataclass(frozen=True, slots=True)
class LeftOutput:
    """The stored output of a call that was never finished. `key` is the store's, `size` in bytes."""

    key: str
    call_id: str
    size: int
    head: bytes
    tail: bytes

    @property
    def is_clipped(self) -> bool:
        return self.size > len(self.head) + len(self.tail)

    @property
    def shown(self) -> str:
        """The part of it that the model sees."""
        if not self.is_clipped:
            return _text(self.head + self.tail).removesuffix("\n")
        missing = self.size - len(self.head) - len(self.tail)
        return f"{_text(self.head)}\n[… {missing:,} bytes left out here …]\n{_text(self.tail)}".removesuffix("\n")

    @property
    def note(self) -> str:
        """The note that tells the model how to read it."""
        return (
            f"[its output until shortly before is kept, {self.size:,} bytes:"
            f' recall("{self.call_id}") returns it, by lines or by grep]'
        )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\x00", "\ufffd")


async def left_outputs(
    session_id: str, call_ids: Sequence[str], output_path: Callable[[str], Path] | None
) -> Mapping[str, LeftOutput]:
    """The stored outputs of these calls, by id; calls without stored output are left out."""
    if not call_ids or output_path is None:
        return {}
    return await asyncio.to_thread(_read_all, session_id, call_ids, output_path)


def _read_all(session_id: str, call_ids: Sequence[str], output_path: Callable[[str], Path]) -> Mapping[str, LeftOutput]:
    found: dict[str, LeftOutput] = {}
    for call_id in call_ids:
        key = f"{session_id}/{call_id}"
        try:
            left = _read(key, call_id, output_path(key))
        except (NotFoundError, OSError):
            continue
        if left.size:
            found[call_id] = left
    return found


def _read(key: str, call_id: str, path: Path) -> LeftOutput:
    half = SHOWN_BYTES // 2
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        head = file.read(half)
        file.seek(max(half, size - half))
        return LeftOutput(key, call_id, size, head, file.read(half))
