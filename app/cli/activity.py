"""What a run is doing right now, from its events: one line for a person who watches."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from app.cli import screen
from app.cli.approvals import Call
from app.cli.client import ServerEvent

Data = dict[str, Any]
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SPINS_S = 0.1
"""Seconds that the spinner shows one of its forms."""
WAITING = "waiting for the model"
_UNQUEUED = ("message.dequeued", "message.withdrawn")


class Activity:
    """Tracks the current activity and its start, the last one, and the waiting messages."""

    def __init__(self) -> None:
        self.is_active = False
        self._doing = ""
        self._since: datetime | None = None
        self._calls: dict[str, tuple[str, datetime | None]] = {}
        self._asked: set[str] = set()
        self._queued: set[str] = set()
        self._steps = 0
        self._cost: float | None = None
        self._context = ""
        self._handlers: dict[str, Callable[[Data], None]] = {
            "session.running": self._running,
            "session.idle": self._idle,
            "source.started": lambda data: self._do(f"cloning {data['url']}", data),
            "step.started": lambda data: self._do(WAITING, data),
            "step.retrying": lambda data: self._do("waiting to retry", data),
            "reasoning.delta": lambda data: self._do("thinking", data),
            "text.delta": lambda data: self._do("writing", data),
            "tool.arguments": lambda data: self._do(f"writing a call of {data['name']}", data),
            "tool.call": self._call,
            "tool.result": self._result,
            "approval.requested": lambda data: self._asked.add(data["call_id"]),
            "approval.resolved": self._resolved,
            "step.finished": self._step,
            "compaction.started": self._compaction,
            "message.queued": lambda data: self._queued.add(data["message_id"]),
        }

    def take(self, event: ServerEvent) -> None:
        """Handles an event of the session."""
        if event.event in _UNQUEUED:
            self._queued.discard(event.data["message_id"])
        elif (handler := self._handlers.get(event.event)) is not None:
            handler(event.data)

    def line(self, now: datetime, width: int = 200) -> str:
        """`⠋ execute_command pytest -q · 12 s · step 3 · $0.12 · context 14%`, in at most about `width` characters;
        empty if no run is active."""
        if not self.is_active:
            return ""
        doing, since = self._doing, self._since
        if self._calls:
            doing, since = next(iter(self._calls.values()))
            others = len(self._calls) - 1
            doing += f" and {others} more" if others else ""
        if self._asked:
            doing = f"waiting for your decision: {doing}"
        elapsed = max(0.0, (now - since).total_seconds()) if since is not None else 0.0
        waiting = len(self._queued)
        rest = screen.joined(
            screen.seconds(int(elapsed)) if elapsed >= 1 else "",
            f"step {self._steps + 1}",
            screen.money(self._cost) if self._cost is not None else "",
            self._context,
            f"{waiting} queued" if waiting else "",
        )
        turn = _SPINNER[int(now.timestamp() / SPINS_S) % len(_SPINNER)]
        return f"{turn} {screen.one_line(doing, max(10, width - len(rest) - 5))} · {rest}"

    def _do(self, what: str, data: Data) -> None:
        """Deltas of the same kind follow each other: only the first one starts the time."""
        if what != self._doing:
            self._doing, self._since = what, _time(data)

    def _running(self, data: Data) -> None:
        self.is_active = True
        self._steps, self._cost = 0, None
        self._do("starting", data)

    def _idle(self, _: Data) -> None:
        self.is_active = False
        self._calls.clear()
        self._asked.clear()
        self._doing = ""

    def _call(self, data: Data) -> None:
        self._calls[data["call_id"]] = (Call(data["name"], data["arguments"]).summary(), _time(data))

    def _result(self, data: Data) -> None:
        self._calls.pop(data["call_id"], None)
        self._asked.discard(data["call_id"])
        self._do(WAITING, data)

    def _resolved(self, data: Data) -> None:
        self._asked.discard(data["call_id"])

    def _step(self, data: Data) -> None:
        self._steps += 1
        self._context = screen.share(data["context"])
        cost = data["usage"]["cost_usd"]
        if cost is not None:
            self._cost = (self._cost or 0) + cost

    def _compaction(self, data: Data) -> None:
        if not data.get("background"):
            self._do(f"compacting the context, round {data['round']}", data)


def _time(data: Data) -> datetime | None:
    return datetime.fromisoformat(data["at"]) if "at" in data else None
