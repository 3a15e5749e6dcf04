"""Tool calls that a local model has written as text, found while its answer streams."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import orjson

from app.llm.base import (
    BlockEnd,
    Finish,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallStart,
    ToolSchema,
)
from app.llm.text_call_formats import MARKERS, Schemas, TextCall, UnreadableError, call_of, read_marked

HELD_CHARS = 1_000_000
"""Maximum characters held back as a possible call; the largest file that a model writes in one call is smaller."""
_HEAD_CHARS = 200
"""Characters that decide whether a text may be a call; whitespace in front of a tag or a key is shorter."""
_FENCE = "```"
_FRESH = re.compile(r"\n|</think>|<\|end\|>")
"""What comes before the place of a marker."""
_INDENT = re.compile(r" {0,3}")
_STARTS = frozenset(marker[0] for marker in (*MARKERS, _FENCE))
_OPENINGS = (f"{_FENCE}json", _FENCE)
"""What may precede the object that is a whole answer."""
_FIRST_KEYS = ("name", "type", "function", "arguments", "parameters", "id")
_FIRST_KEY = re.compile(r'\{\s*"([^"]{0,12})')
_NAME = re.compile(r"[\w.\-]{1,128}")
_TAG = "<tool_call>"
_BEFORE_CHARS = len(_TAG) - 1


class TextCalls:
    """Filters one response. From where a call may begin, text is held back, so that a call is never shown as an answer;
    at the end, calls that nothing else follows become calls. Once `done`, events pass unchanged."""

    def __init__(self, tools: Sequence[ToolSchema]) -> None:
        self._schemas: Schemas = {tool.name: tool.parameters for tool in tools}
        self._block: int | None = None
        self._last_block = 0
        self._finder = CallFinder()
        self._shown = False
        """Whether text of the current block was shown."""
        self._end: BlockEnd | None = None
        self.done = not tools

    def feed(self, event: StreamEvent) -> Iterator[StreamEvent]:
        """Returns the event itself, a part of its text, nothing yet, or what was held."""
        if isinstance(event, TextDelta | ReasoningDelta | ToolCallStart):
            self._last_block = max(self._last_block, event.block)
        match event:
            case _ if self.done:
                yield event
            case TextDelta(block, text) if block == self._block or not self._is_held:
                yield from self._text(block, text)
            case TextDelta() | ToolCallStart():
                # The response has other content than the text.
                yield from self.release()
                yield event
            case BlockEnd(block) if block == self._block:
                self._end = event
                if not self._finder.may_be_call:
                    yield from self._rest()
            case Finish(reason):
                yield from self._finish(event, cut_off=reason not in ("stop", "tool_calls", "other"))
            case _:
                yield event

    def release(self) -> Iterator[StreamEvent]:
        """Returns what was held; nothing is from then on."""
        self.done = True
        yield from self._rest()

    @property
    def _is_held(self) -> bool:
        return self._block is not None and self._finder.may_be_call

    def _text(self, block: int, text: str) -> Iterator[StreamEvent]:
        if block != self._block:
            self._block, self._finder, self._shown = block, CallFinder(), False
        if shown := self._finder.feed(text):
            self._shown = True
            yield TextDelta(block, shown)
        if self._finder.held > HELD_CHARS:
            yield from self.release()

    def _rest(self) -> Iterator[StreamEvent]:
        if self._block is not None and (text := self._finder.take()):
            yield TextDelta(self._block, text)
        if self._end is not None:
            yield self._end
            self._end = None

    def _finish(self, finish: Finish, *, cut_off: bool) -> Iterator[StreamEvent]:
        calls = [] if cut_off or not self._is_held else self._calls()
        if not calls:
            yield from self._rest()
            yield finish
            return
        first = self._last_block + 1
        if self._shown and self._end is not None:
            yield self._end
        elif self._block is not None and not self._shown:
            first = self._block
        for number, call in enumerate(calls):
            block = first if not number else max(first, self._last_block) + number
            yield ToolCallStart(block, call.name)
            yield ToolArgumentsDelta(block, call.arguments)
            yield BlockEnd(block)
        yield Finish("tool_calls")

    def _calls(self) -> list[TextCall]:
        text = self._finder.text.strip()
        if self._finder.quotes_tag and text.startswith("<function="):
            return []
        return read_marked(text, self._schemas) if text.startswith(MARKERS) else read_whole(text, self._schemas)


class CallFinder:
    """Finds in the text of one block where calls may begin, of which nothing is shown.

    A marker counts at the start of a line, or after `</think>`, outside of code blocks. A code block or an object can
    be a call only if the answer is nothing else.
    """

    def __init__(self) -> None:
        self.may_be_call = True
        """Whether what is held may be calls; else it is the start of a line that is not known yet."""
        self.held = 0
        """Characters that are held."""
        self._parts: list[str] = []
        self._head = ""
        self._is_whole = True
        self._is_fresh = True
        self._in_fence = False
        self._before = ""
        """The last characters shown, with which a marker's place or a quoted tag may begin."""
        self.quotes_tag = False
        """Whether `<tool_call>` was shown, so that what follows on the next line is no call."""

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def feed(self, text: str) -> str:
        """Returns the text that can be shown."""
        self._parts.append(text)
        self.held += len(text)
        if self.may_be_call:
            if len(self._head) < _HEAD_CHARS:
                self._head = (self._head + text).lstrip()[:_HEAD_CHARS]
                self.may_be_call = may_be_marked(self._head) or (self._is_whole and may_be_whole(self._head))
            if self.may_be_call:
                return ""
        self._is_whole = False
        return self._walk(self.take())

    def take(self) -> str:
        """Returns what is held, and holds nothing."""
        text = self.text
        self._parts, self.held = [], 0
        return text

    def _walk(self, text: str) -> str:
        shown, text, self._before = len(self._before), self._before + text, ""
        at = shown if self._is_fresh else 0
        while True:
            if self._is_fresh:
                start = _after(_INDENT, text, at)
                begins = self._begins(text[start : start + _HEAD_CHARS])
                if begins is not False:
                    self.may_be_call = begins is True
                    self._head = text[start : start + _HEAD_CHARS]
                    self._parts, self.held = [text[at:]], len(text) - at
                    self.quotes_tag = self.quotes_tag or text.find(_TAG, 0, at) >= 0
                    return text[shown:at]
                if text.startswith(_FENCE, start):
                    self._in_fence = not self._in_fence
                self._is_fresh = False
            found = _FRESH.search(text, at)
            if found is None:
                self._before = text[max(at, len(text) - _BEFORE_CHARS) :]
                self.quotes_tag = self.quotes_tag or _TAG in text
                return text[shown:]
            at, self._is_fresh = found.end(), True

    def _begins(self, head: str) -> bool | None:
        """Whether a call may begin with this; None if too little of it is known."""
        if not head or (len(head) < len(_FENCE) and _FENCE.startswith(head)):
            return None
        if self._in_fence or head[0] not in _STARTS:
            return False
        if head.startswith(MARKERS):
            return may_be_marked(head)
        return None if any(marker.startswith(head) for marker in MARKERS) else False


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match is not None else at


def may_be_marked(head: str) -> bool:
    """Whether a text with this start, stripped of leading whitespace, may begin with a marked call."""
    if not head.startswith(MARKERS):
        return any(marker.startswith(head) for marker in MARKERS)
    if head.startswith(_TAG):
        return _may_be_tagged(head[len(_TAG) :].lstrip())
    if head.startswith("<|") and "<|message|>" in head:
        return "to=" in head.partition("<|message|>")[0]  # else it is a message to the user
    return True


def _may_be_tagged(head: str) -> bool:
    """Whether an object, a `<function=` or the name of a call, as far as it was received, follows the tag."""
    if head.startswith("["):
        return True
    if not head or head[0] in "<{":
        return _is_begun("<function=", head) if head.startswith("<") else _may_begin_object(head)
    rest = head[_after(_NAME, head, 0) :]
    following = rest.lstrip()
    return rest != head and any(_is_begun(tag, following) for tag in ("<arg_key>", "</tool_call>"))


def _is_begun(marker: str, head: str) -> bool:
    return head.startswith(marker) or marker.startswith(head)


def may_be_whole(head: str) -> bool:
    """Whether a text with this start, stripped of leading whitespace, may be a code block or an object that is a
    call."""
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


def read_whole(text: str, schemas: Schemas) -> list[TextCall]:
    """The call of an offered tool that a text is, alone or as a code block; none if it is anything else."""
    if text.startswith(_FENCE):
        head, _, rest = text.partition("\n")
        if head[len(_FENCE) :].strip() not in ("", "json") or not rest.endswith(_FENCE):
            return []
        text = rest.removesuffix(_FENCE)
    try:
        found = orjson.loads(text)
        if not _has_arguments(found):
            return []
        call = call_of(found)
    except (orjson.JSONDecodeError, UnreadableError):
        return []
    return [call] if call.name in schemas else []


def _has_arguments(found: object) -> bool:
    if isinstance(found, dict) and isinstance(function := found.get("function"), dict):
        found = function
    return isinstance(found, dict) and ("arguments" in found or "parameters" in found)
