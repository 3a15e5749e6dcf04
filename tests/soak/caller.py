"""Calls to the server that survive its restarts, with their known outcomes."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from tests.soak.ledger import Book, Outcome

TIMEOUT_S = 150.0
"""Total seconds for retrying a call; the server may be down, or its disk full."""
CALL_S = 60.0
"""Timeout of one response: the server may be frozen, and the machine busy."""
PAUSE_S = 0.2
LONGEST_PAUSE_S = 0.4
"""Short, so that users of a repeatedly killed server resume before its next end."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A response, or none if `status` is None. Times are `time.monotonic()` in seconds."""

    status: int | None
    body: dict[str, Any]
    sent_at: float
    answered_at: float

    @property
    def outcome(self) -> Outcome:
        if self.status is None or self.status >= 500:
            return "unknown"
        return "accepted" if self.status < 300 else "refused"


class Caller:
    """Calls the server of a run, or for each call any of its nodes; forbidden responses are recorded in the book."""

    def __init__(
        self, urls: Sequence[str], book: Book, headers: Mapping[str, str] | None = None, call_s: float = CALL_S
    ) -> None:
        self.urls = urls
        self.headers = headers
        self._book = book
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        self._clients = [
            httpx.AsyncClient(
                base_url=url, headers=headers, timeout=call_s, trust_env=False, verify=False, limits=limits
            )
            for url in urls
        ]

    @property
    def http(self) -> httpx.AsyncClient:
        """The client of one server."""
        return random.choice(self._clients)

    async def aclose(self) -> None:
        for client in self._clients:
            await client.aclose()

    async def once(self, method: str, path: str, *, json: Any = None, content: bytes | None = None) -> Answered:
        """One call; the connection may break."""
        sent = time.monotonic()
        headers = {"Content-Type": "application/octet-stream"} if content is not None else None
        try:
            response = await self.http.request(method, path, json=json, content=content, headers=headers)
        except httpx.TransportError:
            self._book.counts["calls lost"] += 1
            return Answered(None, {}, sent, time.monotonic())
        self._book.counts["calls"] += 1
        ended = time.monotonic()
        if response.status_code >= 500 and not self._book.is_excused(sent, ended, calls=True):
            self._book.violated("no server errors", f"{method} {path}: {response.status_code} {response.text[:300]}")
        is_json = response.headers.get("content-type", "").startswith(("application/json", "application/problem+json"))
        body = response.json() if is_json and response.content else {}
        return Answered(response.status_code, body if isinstance(body, dict) else {}, sent, ended)

    async def until_known(self, method: str, path: str, *, json: Any = None) -> Answered:
        """Repeats a call until a response says what happened; for calls that may be repeated. The times are those of
        the first call and the last response."""
        first, pause_s = time.monotonic(), PAUSE_S
        while True:
            answer = await self.once(method, path, json=json)
            if answer.outcome != "unknown" or time.monotonic() > first + TIMEOUT_S:
                return Answered(answer.status, answer.body, first, answer.answered_at)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)

    async def get(self, path: str) -> dict[str, Any] | None:
        """A document, None if the server does not know it, or did not answer for very long."""
        answer = await self.until_known("GET", path)
        return answer.body if answer.outcome == "accepted" else None
