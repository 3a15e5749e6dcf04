"""What a server sends with an answer that only the server understands, kept to be sent back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import orjson

from app.errors import ProviderError
from app.llm.snapshots import GrowingText

MAX_HELD_BYTES = 4 * 1024 * 1024
"""Maximum bytes kept of one answer, apart from its text; providers send a few kilobytes."""
_EMPTY: tuple[Any, ...] = (None, "", [], {})


class HeldBytes:
    """The bytes that are kept of one answer."""

    def __init__(self) -> None:
        self._bytes = 0

    def replace(self, old: Any, new: Any) -> None:
        """Counts a value in place of another. Raises `ProviderError` over the limit."""
        self.add(len(orjson.dumps(new)) - (0 if old is None else len(orjson.dumps(old))))

    def add(self, size: int) -> None:
        self._bytes += size
        if self._bytes > MAX_HELD_BYTES:
            raise ProviderError("The answer has too much data to be sent back.", code="provider_bad_response")


def merge_unknown(fields: dict[str, Any], update: Mapping[str, Any], known: Collection[str], held: HeldBytes) -> None:
    """Adds all fields of `update` that are not known and not empty. Later values win; objects are merged."""
    for name, value in update.items():
        if name in known or value in _EMPTY:
            continue
        before = fields.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            for key, inner in value.items():
                held.replace(before.get(key), inner)
                before[key] = inner
        else:
            held.replace(before, value)
            fields[name] = value


_GROWING = ("text", "summary", "data")


class Details:
    """The list `reasoning_details` of a streamed answer: pieces of one entry, one after the other, are joined."""

    def __init__(self, held: HeldBytes) -> None:
        self._held = held
        self._entries: list[Any] = []
        self._texts: dict[str, GrowingText] = {}
        """The texts of the last entry."""

    def add(self, entries: list[Any], *, is_whole: bool) -> None:
        """Adds entries; those of a complete message replace what was streamed."""
        if is_whole and entries:
            self._entries, self._texts = [], {}
        for entry in entries:
            self._add(entry, joins=not is_whole)

    def end(self) -> list[Any]:
        """The entries as they must be sent back."""
        self._close()
        return self._entries

    def _add(self, entry: Any, *, joins: bool) -> None:
        last = self._entries[-1] if self._entries else None
        if not (joins and isinstance(entry, dict) and isinstance(last, dict) and _is_same(last, entry)):
            self._close()
            self._held.replace(None, entry)
            self._entries.append(entry)
            self._texts = {}
            return
        for name, value in entry.items():
            if name in _GROWING and isinstance(value, str):
                self._grow(last, name, value)
            elif value is not None:
                self._held.replace(last.get(name), value)
                last[name] = value

    def _grow(self, last: dict[str, Any], name: str, value: str) -> None:
        if name not in self._texts:
            self._texts[name] = GrowingText()
            if isinstance(first := last.get(name), str):
                self._texts[name].add(first)
        self._held.add(len(value))
        self._texts[name].add(value)

    def _close(self) -> None:
        for name, growing in self._texts.items():
            growing.settle()
            self._entries[-1][name] = growing.text


def _is_same(last: dict[str, Any], entry: dict[str, Any]) -> bool:
    """Whether two entries are pieces of one. Without an index, encrypted ones may be two."""
    if entry.get("index") is None and "data" in entry:
        return False
    return last.get("index") == entry.get("index") and last.get("type") == entry.get("type")
