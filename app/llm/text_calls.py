"""Tool calls that arrive as text, because a local model's server did not parse them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from app.llm.base import BlockEnd, Finish, StreamEvent, TextDelta, ToolArgumentsDelta, ToolCallStart

_TAG, _END_TAG = "<tool_call>", "</tool_call>"
_FENCE = "```"
_OPENINGS = (_TAG, f"{_FENCE}json", _FENCE)
"""Markers that may precede a call; only the call's object may follow them."""
_FIRST_KEYS = ("name", "type", "function", "arguments", "parameters", "id")
_FIRST_KEY = re.compile(r'\{\s*"([^"]{0,12})')
_BLANKS = re.compile(r"\s*")

HELD_CHARS = 1_000_000
"""Maximum characters held back as a possible call; the largest file that a model writes in one call is smaller."""

_HEAD_CHARS = 200
"""Characters that decide whether a text may be a call; whitespace in front of a tag or a key is shorter."""


@dataclass(frozen=True, slots=True)
class TextCall:
    """A call found in text; `arguments` is the JSON of an object."""

    name: str
    arguments: str


class TextCalls:
    """Filters one response. A text that starts like a call is held back until it can no longer be one, so that a call
    is never shown as an answer; a text with nothing but calls of offered tools becomes calls. Once `done`, events pass
    unchanged."""

    def __init__(self, offered: Collection[str]) -> None:
        self._offered = offered
        self._held: list[StreamEvent] = []
        self._block: int | None = None
        self._head = ""
        self._chars = 0
        self.done = not offered

    def feed(self, event: StreamEvent) -> Iterator[StreamEvent]:
        """Returns the event itself, nothing yet, or the held events."""
        match event:
            case _ if self.done:
                yield event
            case TextDelta(block, text) if self._block in (None, block):
                yield from self._hold(event, block, text)
            case TextDelta() | ToolCallStart():
                # The response has other content than the text.
                yield from self.release()
                yield event
            case BlockEnd(block) if block == self._block:
                self._held.append(event)
            case Finish(reason):
                yield from self._end(event, cut_off=reason not in ("stop", "tool_calls", "other"))
            case _:
                yield event

    def release(self) -> Iterator[StreamEvent]:
        """Returns the held events and clears them."""
        held, self._held, self.done = self._held, [], True
        yield from held

    def _hold(self, event: StreamEvent, block: int, text: str) -> Iterator[StreamEvent]:
        self._block = block
        self._held.append(event)
        self._chars += len(text)
        if len(self._head) < _HEAD_CHARS:
            self._head = (self._head + text).lstrip()[:_HEAD_CHARS]
        if self._chars > HELD_CHARS or not may_be_call(self._head):
            yield from self.release()

    def _end(self, finish: Finish, *, cut_off: bool) -> Iterator[StreamEvent]:
        text = "".join(event.text for event in self._held if isinstance(event, TextDelta))
        calls = [] if cut_off or self._block is None else calls_in(text, self._offered)
        if not calls:
            yield from self.release()
            yield finish
            return
        for block, call in enumerate(calls, self._block or 0):
            yield ToolCallStart(block, call.name)
            yield ToolArgumentsDelta(block, call.arguments)
            yield BlockEnd(block)
        yield Finish("tool_calls")


def may_be_call(head: str) -> bool:
    """Whether a text with this start, stripped of leading whitespace, may still consist only of calls."""
    for opening in _OPENINGS:
        if opening.startswith(head):
            return True
        if head.startswith(opening):
            return _may_begin_object(head[len(opening) :].lstrip())
    return _may_begin_object(head)


def _may_begin_object(head: str) -> bool:
    """Whether the first key of an object, as far as it was received, may be the first key of a call."""
    if not head or (head[0] == "{" and head[1:].lstrip() in ("", '"')):
        return True
    key = _FIRST_KEY.match(head)
    return key is not None and any(known.startswith(key[1]) for known in _FIRST_KEYS)


def calls_in(text: str, offered: Collection[str]) -> list[TextCall]:
    """The calls of offered tools that a text consists of; none if it contains anything else. Takes linear time, since
    the text is untrusted."""
    text = text.strip()
    if text.startswith(_TAG):
        documents = _tagged(text)
    elif text.startswith(_FENCE):
        documents = _fenced(text)
    else:
        documents = [text]
    calls = [_call(document, offered) for document in documents]
    return [call for call in calls if call is not None] if all(calls) else []


def _tagged(text: str) -> list[str]:
    """The contents of the tags of a text that has nothing else; the last tag may be left open."""
    documents = []
    at = 0
    while at < len(text):
        if not text.startswith(_TAG, at):
            return []
        end = text.find(_END_TAG, at)
        documents.append(text[at + len(_TAG) : end if end >= 0 else len(text)])
        blanks = _BLANKS.match(text, end + len(_END_TAG)) if end >= 0 else None
        at = blanks.end() if blanks is not None else len(text)
    return documents


def _fenced(text: str) -> list[str]:
    """The content of a text that is one code block."""
    head, _, rest = text.partition("\n")
    if head[len(_FENCE) :].strip() not in ("", "json") or not rest.endswith(_FENCE):
        return []
    return [rest.removesuffix(_FENCE)]


def _call(document: str, offered: Collection[str]) -> TextCall | None:
    try:
        found = orjson.loads(document)
    except orjson.JSONDecodeError:
        return None
    if isinstance(found, dict) and isinstance(function := found.get("function"), dict):
        found = function
    if not isinstance(found, dict) or found.get("name") not in offered:
        return None
    arguments: Any = next((found[key] for key in ("arguments", "parameters") if key in found), None)
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return None
    return TextCall(str(found["name"]), orjson.dumps(arguments).decode()) if isinstance(arguments, dict) else None
