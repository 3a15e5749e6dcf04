"""Reads the server's log as it grows: an unexpected crash is a violation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import orjson

from tests.soak.ledger import Book

PERIOD_S = 1.0
EXPECTED = (
    *(b"database or disk is full", b"No space left on device", b"disk I/O error"),
    *(b"server closed the connection", b"idle-in-transaction timeout"),
)
"""What a full disk is called, and what Postgres does to the transaction of a frozen server; no other fault excuses an
error."""


class LogWatch:
    """Checks new lines once a second. Errors that a fault explains, while it lasts and shortly after, are only
    counted."""

    def __init__(self, path: Path, book: Book, expected: Sequence[bytes] = EXPECTED) -> None:
        self._path = path
        self._book = book
        self._expected = expected
        self._offset = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(PERIOD_S)
            self.look()

    def look(self) -> None:
        now = time.monotonic()
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            *lines, rest = file.read().split(b"\n")
            self._offset = file.tell() - len(rest)
        was_faulty = self._book.is_excused(now - PERIOD_S, now)
        for line in lines:
            self._take(line, was_faulty and any(reason in line for reason in self._expected))

    def _take(self, line: bytes, excused: bool) -> None:
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError:
            entry = {
                "event": line.decode("utf-8", "replace"),
                "level": "error" if line.startswith(b"Traceback") else "",
            }
        if not isinstance(entry, dict) or entry.get("level") not in ("error", "critical"):
            return
        self._book.counts["errors logged"] += 1
        if not excused:
            session_id = entry.get("session_id")
            detail = f"{entry.get('event')}: {str(entry.get('exception') or entry.get('error') or '')[-600:]}"
            self._book.violated("the log has no errors", detail, session_id if isinstance(session_id, str) else None)
