"""Responses and events that the users of a run received; the other half of every check."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal

from tests.soak.plan import SessionPlan

Outcome = Literal["accepted", "refused", "unknown"]
"""`unknown`: the connection broke, or the server answered with a 5xx, so it may or may not have been executed."""


def digest(data: bytes) -> bytes:
    """Sixteen bytes that stand for an event's data."""
    return blake2b(data, digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that did not hold: which, of which session, and what was seen instead."""

    rule: str
    detail: str
    session_id: str | None = None


@dataclass(slots=True)
class Edit:
    """An edit of a pending message; `content` is the new one."""

    content: str
    outcome: Outcome


@dataclass(slots=True)
class Said:
    """A message as its user knows it. Times are `time.monotonic()` in seconds; `answered_at` is set with the answer
    that accepted it."""

    id: str
    content: str
    mode: str
    sent_at: float
    answered_at: float | None = None
    outcome: Outcome = "unknown"
    edits: list[Edit] = field(default_factory=list)
    withdrawn: Outcome | None = None


@dataclass(slots=True)
class SessionLedger:
    """One session from outside. `seen` is every event with an id that a reader got: type and digest by seq. `last_seq`
    is the highest that an answer named. `posted` are the results that were accepted, by call. `ran` are the lines of
    the workspace's log of commands, None if not read."""

    id: str
    plan: SessionPlan
    task: str
    said: list[Said] = field(default_factory=list)
    seen: dict[int, tuple[str, bytes]] = field(default_factory=dict)
    last_seq: int = 0
    cleared: bool = False
    deleted: Outcome | None = None
    settled: bool = False
    posted: dict[str, str] = field(default_factory=dict)
    ran: list[str] | None = None


@dataclass(slots=True)
class Book:
    """Everything of a run: its sessions, violations seen on the way, and counts of what was done."""

    sessions: dict[str, SessionLedger] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    met_sessions: Counter[str] = field(default_factory=Counter)
    """Sessions active when a server ended, by activity."""
    met_ends: Counter[str] = field(default_factory=Counter)
    """Server ends with at least one session in that activity."""
    slowest_cancel_s: float = 0.0
    slowest_start_s: float = 0.0
    _excused: list[tuple[float, float, bool]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def violated(self, rule: str, detail: str, session_id: str | None = None) -> None:
        with self._lock:
            self.violations.append(Violation(rule, detail, session_id))

    def take(self, violations: Iterable[Violation]) -> None:
        with self._lock:
            self.violations.extend(violations)

    def met(self, doings: Counter[str]) -> None:
        """Records that a server ended during these activities."""
        self.met_sessions.update(doings)
        self.met_ends.update(doings.keys())

    def living(self) -> list[SessionLedger]:
        """The sessions whose deletion has not started."""
        return [ledger for ledger in list(self.sessions.values()) if ledger.deleted is None]

    @contextmanager
    def excusing(self, seconds_after: float, *, calls: bool = True) -> Iterator[None]:
        """Inside the context, and `seconds_after` after it, the server may be late, and with `calls` it may answer with
        errors."""
        begun = time.monotonic()
        # Open to the end of time while it lasts: a call that fails meanwhile asks before this is over.
        under_way = (begun, float("inf"), calls)
        self._excused.append(under_way)
        try:
            yield
        finally:
            self._excused.remove(under_way)
            self._excused.append((begun, time.monotonic() + seconds_after, calls))

    def is_excused(self, begun: float, ended: float, *, calls: bool = False) -> bool:
        """Whether a fault that explains lateness, or with `calls` errors, fell into this time."""
        return any(
            first <= ended and begun <= last and (of_calls or not calls) for first, last, of_calls in self._excused
        )
