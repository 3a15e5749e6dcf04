"""A sink that keeps what it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field

from app.agent.ports import Change, LivePart
from app.sandbox.base import Stream


@dataclass
class KeptSink:
    """Keeps changes and live text in order, and gives seqs as the log would."""

    changes: list[Change] = field(default_factory=list)
    lives: list[tuple[LivePart, str, Stream]] = field(default_factory=list)

    def record(self, *changes: Change) -> Awaitable[int]:
        seq = len(self.changes) + 1
        self.changes += changes
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        future.set_result(seq)
        return future

    def live(self, part: LivePart, text: str, *, stream: Stream = "stdout") -> None:
        self.lives.append((part, text, stream))

    def text_of(self, part_id: str) -> str:
        return "".join(text for part, text, _ in self.lives if part.part_id == part_id)
