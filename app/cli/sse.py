"""Reads the server's event stream."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event of a session; `id` is its seq, None for a live event."""

    id: int | None
    event: str
    data: dict[str, Any]

    def json_line(self) -> str:
        """The event on one line, in ASCII."""
        return json.dumps({"id": self.id, "event": self.event, "data": self.data}, separators=(",", ":"))


async def read_events(chunks: AsyncIterator[bytes]) -> AsyncGenerator[ServerEvent, None]:
    """The events in a stream of arbitrary chunks; comments and an incomplete last event are skipped.

    Lines are split only at LF, as the server writes them: JSON may contain other line separators.
    """
    rest = b""
    async for chunk in chunks:
        *blocks, rest = (rest + chunk).split(b"\n\n")
        for block in blocks:
            event = _parse(block)
            if event is not None:
                yield event


def _parse(block: bytes) -> ServerEvent | None:
    fields: dict[bytes, bytes] = {}
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        fields[name] = value.removeprefix(b" ")
    if b"data" not in fields:
        return None
    seq = int(fields[b"id"]) if b"id" in fields else None
    return ServerEvent(seq, fields.get(b"event", b"message").decode(), json.loads(fields[b"data"]))
