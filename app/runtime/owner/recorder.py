"""The sink of a run: commits changes in order, publishes them after the commit, and publishes live text at once."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

import structlog
from sqlalchemy import Connection

from app.agent.changes import (
    Change,
    GenerationOpened,
    ResponseClosed,
    RoundCompleted,
    RoundEnded,
    RoundOpening,
    StepClosed,
    StepOpened,
)
from app.agent.protocols import LivePart
from app.context.checkpoints import InForce
from app.context.validator import Repair
from app.db.engine import Database
from app.db.repositories import parts
from app.eventlog.bus import Bus
from app.eventlog.channel import OpenPart
from app.eventlog.log import Appender, StreamItem
from app.messages import Part, ReasoningPart, TextPart, ToolCallPart
from app.runtime.transactions import compactions
from app.runtime.transactions.changes import commit_changes, write_changes
from app.sandbox.base import Stream

log = structlog.get_logger(__name__)

T = TypeVar("T")

FLUSH_S = 0.25
"""Interval in seconds for storing the text of open parts; a crash can lose that much of it."""

FRESH_S = 0.01
"""Seconds after the beginning of a call's commit in which its owner need not check again that it still has the session:
a check takes about a millisecond, and says nothing about the milliseconds after it either. A server that was frozen, or
a sandbox that had to be started, took longer; only the clock of a paused virtual machine may not show it."""

_EVENTS = {
    "text": "text.delta",
    "reasoning": "reasoning.delta",
    "tool_call": "tool.arguments",
    "tool_result": "tool.output",
}


class Recorder:
    """The sink of one owner of one session. After a failed write nothing more is written for this owner, since its view
    of the session would differ from the stored one."""

    def __init__(
        self,
        database: Database,
        bus: Bus,
        session_id: str,
        epoch: int,
        repaired: Callable[[Sequence[Repair]], None] = lambda _: None,
        fence: Callable[[Connection], None] = lambda _: None,
    ) -> None:
        """`repaired` is called with the repairs of a context once they are stored. `fence` raises `SupersededError` if
        another server holds the database; the write that lets calls start checks it."""
        self._database = database
        self._bus = bus
        self.session_id = session_id
        self.epoch = epoch
        self._channel = bus.channel(session_id)
        self._dirty: dict[str, tuple[LivePart, OpenPart]] = {}
        self._flush_timer: asyncio.TimerHandle | None = None
        self._failure: Exception | None = None
        self._repaired = repaired
        self._fence = fence
        self._owned_at = -math.inf
        self._nudges: int | None = None
        self.last_seq = 0
        """Seq of the newest event that this owner has committed; 0 before the first one."""

    @property
    def has_just_owned(self) -> bool:
        """Whether a commit has shown within `FRESH_S` that this owner has the session, and its server the database."""
        return time.monotonic() - self._owned_at < FRESH_S

    def record(self, *changes: Change) -> asyncio.Future[int]:
        """See `ports.Sink.record`."""
        # The next request is sent first.
        is_awaited = not all(isinstance(change, StepClosed | StepOpened) for change in changes)
        lets_start = any(isinstance(change, ResponseClosed) for change in changes)
        asked_at = math.inf
        nudges: int | None = None

        def work(connection: Connection) -> tuple[int, list[StreamItem]]:
            nonlocal asked_at, nudges
            if lets_start:
                # Before the transaction shows it: if the server is frozen in between, the time counts.
                asked_at = time.monotonic()
                self._fence(connection)
            appender = Appender(connection, self.session_id, epoch=self.epoch)
            nudges = appender.nudges
            return write_changes(connection, appender, changes)

        def committed() -> None:
            if lets_start:
                self._owned_at = asked_at
            if is_awaited:
                self._nudges = nudges
            self._report_repairs(changes)

        return self.submit(work, committed, is_awaited=is_awaited)

    def take_nudges(self) -> int | None:
        """How often others had changed the session as of the newest awaited changes; None if there were none since this
        was last called."""
        nudges, self._nudges = self._nudges, None
        return nudges

    def submit(
        self,
        work: Callable[[Connection], tuple[T, list[StreamItem]]],
        committed: Callable[[], None] = lambda: None,
        *,
        is_awaited: bool = True,
    ) -> asyncio.Future[T]:
        """Submits a custom write of this owner, which returns a value and the events to publish; it is ordered with the
        changes by the order of calls. `committed` is called after the commit."""

        items: list[StreamItem] = []

        def fenced(connection: Connection) -> T:
            nonlocal items
            if self._failure is not None:
                raise self._failure
            try:
                value, items = work(connection)
                return value
            except Exception as error:
                # Set at once: the next write may be in the same batch.
                self._fail(error)
                raise

        def publish(_: T) -> None:
            if items:
                self.last_seq = items[-1].seq or 0
            self._bus.publish(self.session_id, items)
            committed()

        return self._database.writer.submit(
            fenced, publish, self._fail, session_id=self.session_id, is_awaited=is_awaited
        )

    def _report_repairs(self, changes: Sequence[Change]) -> None:
        """Reports repairs, which have no event, since the history is unchanged."""
        for change in changes:
            if isinstance(change, GenerationOpened) and change.repairs:
                kinds = dict(Counter(repair.kind for repair in change.repairs))
                number = change.generation.number
                log.warning("context_repaired", session_id=self.session_id, generation=number, repairs=kinds)
                self._repaired(change.repairs)

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error

    def open_round(self, opening: RoundOpening) -> asyncio.Future[int]:
        """See `ports.Sink.open_round`."""
        return self.submit(lambda c: compactions.open_round(c, self.session_id, self.epoch, opening))

    def complete_round(self, completed: RoundCompleted, *changes: Change) -> asyncio.Future[int | InForce]:
        """See `ports.Sink.complete_round`."""
        return self.submit(lambda c: _complete_round(c, self.session_id, self.epoch, completed, changes))

    def live(self, part: LivePart, text: str, *, stream: Stream = "stdout") -> None:
        """See `ports.Sink.live`."""
        open_part = self._channel.parts.get(part.part_id)
        if open_part is None:
            open_part = self._channel.open_part(part.part_id, _EVENTS[part.type], _fields(part))
        open_part.append(text, stream if part.type == "tool_result" else "")
        self._channel.wake()
        if part.type != "tool_result":
            self._dirty[part.part_id] = (part, open_part)
            if self._flush_timer is None:
                loop = asyncio.get_running_loop()
                at = loop.time() + FLUSH_S
                if self._database.writer.has_one_lane:
                    # A multiple of the interval, so that the flushes of all sessions share one commit. With a lane for
                    # each, they would all commit at the same time, and hold up live text meanwhile.
                    at -= at % FLUSH_S
                self._flush_timer = loop.call_at(at, self._flush)

    def _flush(self) -> None:
        """Stores what has been written of the open parts, so that a crash loses little of it."""
        self._flush_timer = None
        written = [
            parts.Unfinished(self.session_id, self.epoch, live.message_id, _partial(live, text.text))
            for live, text in self._dirty.values()
            if live.part_id in self._channel.parts
        ]
        self._dirty.clear()
        if written and self._failure is None:
            self._database.writer.gather(parts.put_unfinished, written, session_id=self.session_id)

    def close(self) -> None:
        """Stops the timer; submitted writes are still committed."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None


def _complete_round(
    connection: Connection, session_id: str, epoch: int, completed: RoundCompleted, changes: Sequence[Change]
) -> tuple[int | InForce, list[StreamItem]]:
    in_force = compactions.in_force(connection, session_id)
    if in_force.rounds == completed.base:
        return commit_changes(connection, session_id, epoch, [completed, *changes])
    # A revert came first: the round was made from an outdated context.
    ended = RoundEnded(completed.checkpoint.round, "discarded")
    _, items = commit_changes(connection, session_id, epoch, [ended])
    return in_force, items


def _fields(part: LivePart) -> dict[str, object]:
    """The fields of a part's deltas other than text and offset."""
    if part.type == "tool_result":
        return {"call_id": part.call_id, "part_id": part.part_id}
    fields: dict[str, object] = {"message_id": part.message_id, "part_id": part.part_id, "index": part.index}
    return fields | {"name": part.name} if part.type == "tool_call" else fields


def _partial(live: LivePart, text: str) -> Part:
    """A part with the text written so far."""
    if live.type == "text":
        return TextPart(id=live.part_id, index=live.index, text=text)
    if live.type == "reasoning":
        return ReasoningPart(id=live.part_id, index=live.index, text=text)
    return ToolCallPart(
        id=live.part_id, index=live.index, call_id=live.call_id or "", name=live.name or "", arguments_text=text
    )
