"""Readers of event streams: steady ones, slow ones, and ones that vanish; each checks its events on arrival."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson

from tests.soak.ledger import Book, SessionLedger, digest
from tests.soak.plan import ReaderKind

READ_S = 60.0
"""Streams send a comment at least every 15 s; the server may be frozen, and the machine busy."""
SLOW_S = 0.3
SLOW_BYTES = 4096
PAUSE_S = 0.5


@dataclass(slots=True)
class Connection:
    """One connection's view: the seq it stands at and the live text of each open part."""

    ledger: SessionLedger
    book: Book
    seq: int
    texts: dict[str, str] = field(default_factory=dict)

    def take(self, block: bytes) -> str | None:
        """Takes one event of the stream; gives its type, None for a comment."""
        fields: dict[bytes, bytes] = {}
        for line in block.split(b"\n"):
            name, _, value = line.partition(b":")
            if name:
                fields[name] = value.removeprefix(b" ")
        if b"data" not in fields:
            return None
        kind, data = fields[b"event"].decode(), fields[b"data"]
        if b"id" in fields:
            self._durable(int(fields[b"id"]), kind, data)
        else:
            self._live(kind, orjson.loads(data))
        return kind

    def _violated(self, rule: str, detail: str) -> None:
        self.book.violated(rule, detail, self.ledger.id)

    def _durable(self, seq: int, kind: str, data: bytes) -> None:
        self.book.counts["events seen"] += 1
        # A reader that had not caught up with a deleted session gets only its end.
        if seq != self.seq + 1 and kind != "session.deleted":
            self._violated("a stream has no holes or repeats", f"{kind} {seq} came after {self.seq}")
        self.seq = seq
        event = (kind, digest(data))
        if self.ledger.seen.setdefault(seq, event) != event:
            self._violated("an event stays as it was seen", f"{seq} is {kind} now, {self.ledger.seen[seq][0]} before")
        if kind in ("text.completed", "reasoning.completed"):
            self._closed(orjson.loads(data))

    def _closed(self, part: dict[str, Any]) -> None:
        """A part's end has all that was shown of it; one that was interrupted may have less, as storing it failed."""
        seen, text = self.texts.pop(part["part_id"], ""), part["text"]
        if not (text.startswith(seen) or (part["interrupted"] and seen.startswith(text))):
            self._violated("deltas are a part's text", f"{part['part_id']}: {seen[-60:]!r} was not in the end")

    def _live(self, kind: str, data: dict[str, Any]) -> None:
        self.book.counts["deltas seen"] += 1
        if kind == "tool.output":
            return
        part, known = data["part_id"], self.texts.get(data["part_id"])
        if known is None or data["offset"] == 0:
            if data["offset"] != 0:
                self._violated("a part's first delta is its beginning", f"{kind} {part} begins at {data['offset']}")
            self.texts[part] = data["text"]
        elif data["offset"] != len(known):
            self._violated("deltas are contiguous", f"{kind} {part}: {data['offset']} after {len(known)}")
        else:
            self.texts[part] = known + data["text"]


def _client(kind: ReaderKind, headers: Mapping[str, str] | None) -> httpx.AsyncClient:
    """A slow reader's socket takes little, so that the server's side fills."""
    options = [(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_BYTES)] if kind == "slow" else None
    transport = httpx.AsyncHTTPTransport(socket_options=options)
    timeout = httpx.Timeout(READ_S, read=READ_S)
    return httpx.AsyncClient(headers=headers, transport=transport, timeout=timeout, trust_env=False)


async def _blocks(response: httpx.Response, pause_s: float) -> AsyncIterator[bytes]:
    held = b""
    async for chunk in response.aiter_raw(SLOW_BYTES if pause_s else None):
        *whole, held = (held + chunk).split(b"\n\n")
        for block in whole:
            yield block
        if pause_s:
            await asyncio.sleep(pause_s)


async def read(
    urls: Sequence[str],
    ledger: SessionLedger,
    book: Book,
    kind: ReaderKind,
    rng: random.Random,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Follows a session until it is deleted or the task is cancelled, across all restarts of the server; each
    connection goes to any of the `urls`."""
    seq = 0
    async with _client(kind, headers) as http:
        while True:
            connection = Connection(ledger, book, seq)
            left_after = rng.randint(1, 60) if kind == "vanishing" else None
            with suppress(httpx.TransportError, httpx.StreamError):
                if not await _read_once(
                    http, rng.choice(urls), connection, SLOW_S if kind == "slow" else 0.0, left_after
                ):
                    return
            seq = connection.seq if left_after is None else rng.choice((0, connection.seq))
            await asyncio.sleep(PAUSE_S)


async def _read_once(
    http: httpx.AsyncClient, url: str, connection: Connection, pause_s: float, left_after: int | None
) -> bool:
    """Reads until the connection ends; returns False if there is nothing more to come."""
    headers = {"Last-Event-ID": str(connection.seq)} if connection.seq else {}
    ledger, count = connection.ledger, 0
    async with http.stream("GET", f"{url}/v1/sessions/{ledger.id}/events", headers=headers) as response:
        if response.status_code == 409:
            connection.book.violated("what was seen is in the log", f"the log ends before {connection.seq}", ledger.id)
            return False
        if connection.seq and response.status_code == 200:
            connection.book.counts["streams continued"] += 1
        if response.status_code != 200:
            return response.status_code >= 500 or ledger.deleted is None
        async for block in _blocks(response, pause_s):
            if connection.take(block) == "session.deleted":
                return False
            count += 1
            if left_after is not None and count >= left_after:
                connection.book.faults["vanished readers"] += 1
                return True
    return True
