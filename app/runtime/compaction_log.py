"""Log lines of compactions, made of committed events: when a round begins, and how it ends."""

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
    """Logs the rounds of all sessions. What a round began with is kept until it ends, since the events of its end do
    not all repeat it."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, int], dict[str, Any]] = {}

    def observe(self, items: Sequence[StreamItem]) -> None:
        """Takes committed events, in the order of their session."""
        for item in news(items):
            if (line := _LINES.get(item.type)) is not None:
                self._write(item.type, line, orjson.loads(item.data))
            elif item.type == "session.deleted":
                self._forget(orjson.loads(item.data)["session_id"])

    def _forget(self, session_id: str) -> None:
        """Drops the rounds of a session that went in the middle of them."""
        for key in [key for key in self._open if key[0] == session_id]:
            del self._open[key]

    def _write(self, type_: str, line: str, data: dict[str, Any]) -> None:
        """A rung that failed is a line too: `next` is the rung that is tried instead, null where the round is given
        up. No text of a person or a model is logged."""
        key = (data["session_id"], data["round"])
        if type_ == _STARTED:
            self._open[key] = data
        shown = {name: data[name] for name in _FIELDS if name in data}
        begun = self._open.get(key, {})
        shown = {name: begun[name] for name in ("reason", "policy", "tokens_before") if name in begun} | shown
        if type_ == _FAILED:
            log.warning(line, **shown)
        else:
            log.info(line, **shown)
        if type_ != _STARTED and shown.get("next") is None:
            self._open.pop(key, None)
