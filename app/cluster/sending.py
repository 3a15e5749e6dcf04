"""What waits to be sent through the broker, and what was sent."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

import structlog

from app.cluster.outlet import Outlet
from app.cluster.wire import MalformedUpdateError

MAX_WAITING = 10_000
MAX_WAITING_BYTES = 8 << 20
"""Messages, other than live text, that may wait to be sent; others are dropped and readers find their events in the
log."""

MALFORMED_S = 60.0
"""Seconds between two lines in the log about malformed messages."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Traffic:
    """Counts since the start. `dropped` are messages that were not sent, `malformed` received ones that mean
    nothing."""

    sent: int = 0
    sent_bytes: int = 0
    received: int = 0
    received_bytes: int = 0
    dropped: int = 0
    malformed: int = 0
    losses: int = 0
    """How often the broker was lost."""
    _logs_at: float = 0.0

    def refuse(self, error: MalformedUpdateError) -> None:
        """Counts a malformed message, and logs the first one of each minute: they may be many."""
        self.malformed += 1
        at = monotonic()
        if at >= self._logs_at:
            self._logs_at = at + MALFORMED_S
            log.warning("broker_message_malformed", error=str(error)[:200], so_far=self.malformed)


class Message(NamedTuple):
    channel: str
    data: bytes
    outlet: Outlet | None = None
    """Learns whether anyone listens."""
    asked: int = 0


class WaitingMessages:
    """Messages in the order in which they are sent, bounded."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, message: Message) -> bool:
        """Returns False if there is no room."""
        if len(self._messages) >= MAX_WAITING or self._bytes > MAX_WAITING_BYTES:
            return False
        self._messages.append(message)
        self._bytes += len(message.data)
        return True

    def take(self) -> Message:
        """Removes the first one."""
        message = self._messages.popleft()
        self._bytes -= len(message.data)
        return message

    def clear(self) -> None:
        self._messages.clear()
        self._bytes = 0
