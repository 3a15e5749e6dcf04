"""Logs compactions from committed events: when a round starts, and how it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import structlog

from app.eventlog.log import StreamItem
from app.runtime.observed import news

log = structlog.get_logger(__name__)

_STARTED = "compaction.started"
_FAILED = "compaction.failed"
_LINES = {
    _STARTED: "compaction_started",
    "compaction.completed": "compaction_completed",
    _FAILED: "compaction_failed",
    "compaction.cancelled": "compaction_cancelled",
    "compaction.discarded": "compaction_discarded",
}
_FIELDS = (
    "session_id",
    "round",
    "reason",
    "policy",
    "background",
    "rung",
    "code",
    "next",
    "tokens_before",
    "tokens_after",
    "duration_ms",
)


class CompactionLog:
    """Logs the rounds of all sessions. The fields of a round's start are kept until it ends, since not all final events
    repeat them."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, int], dict[str, Any]] = {}

    def observe(self, items: Sequence[StreamItem]) -> None:
        """Handles committed events, in the order of their session."""
        for item in news(items):
            if (line := _LINES.get(item.type)) is not None:
                self._write(item.type, line, orjson.loads(item.data))
            elif item.type == "session.deleted":
                self._forget(orjson.loads(item.data)["session_id"])

    def _forget(self, session_id: str) -> None:
        """Drops the rounds of a session that was deleted during them."""
        for key in [key for key in self._open if key[0] == session_id]:
            del self._open[key]

    def _write(self, type_: str, line: str, data: dict[str, Any]) -> None:
        """Logs an event. A failed rung is also logged: `next` is the rung tried next, null if the round failed. No text
        of a user or a model is logged."""
        key = (data["session_id"], data["round"])
        if type_ == _STARTED:
            self._open[key] = data
        shown = {name: data[name] for name in _FIELDS if name in data}
        started = self._open.get(key, {})
        shown = {name: started[name] for name in ("reason", "policy", "tokens_before") if name in started} | shown
        if type_ == _FAILED:
            log.warning(line, **shown)
        else:
            log.info(line, **shown)
        if type_ != _STARTED and shown.get("next") is None:
            self._open.pop(key, None)
