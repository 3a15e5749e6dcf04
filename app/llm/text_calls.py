"""Tool calls that a local model has written as text, found while its answer streams."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing

import orjson

from app.errors import ProviderError
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
from app.llm.text_call_formats import (
    ANY_MARKER,
    HARMONY,
    INNER_MARKER,
    MARKERS,
    TAGS,
    Schemas,
    TextCall,
    UnreadableError,
    call_of,
    read_marked,
)
from app.llm.tool_names import ARGUMENTS
from app.llm.wire import MAX_BLOCKS

HELD_CHARS = 1_000_000
"""Maximum characters held back as a possible call; the largest file that a model writes in one call is smaller."""
_HEAD_CHARS = 200
"""Characters that decide whether a text may be a call; whitespace in front of a tag or a key is shorter."""
_FENCE = "```"
_OPENINGS = (f"{_FENCE}json", _FENCE)
"""What may precede the object that is a whole answer."""
_FENCE_LINE = re.compile(r"[\s>]*(?:(?:[-*+]|\d+[.)])\s+)?(`{3,}|~{3,})([^`]*)\Z")
"""A line that begins or ends a code block, also in a list or a block quote."""
_QUOTATION_MARKS = frozenset("`\"'“‘«")
_TOKEN = re.compile(rf"\n|`+|{ANY_MARKER.pattern}")
_TOKEN_CHARS = max(map(len, MARKERS))
_BEGUN = frozenset(marker[:length] for marker in MARKERS for length in range(1, len(marker)))
_BODY = re.compile(r"[\"'\w]|\s*[\[{<]")
"""What follows the marker of a call. A sentence about the marker continues with a space or a stop."""
_MESSAGE = "<|message|>"
_RECIPIENTS = ("commentary", "analysis", "to=", "<|channel|>")
"""What follows a marker of gpt-oss, up to the message."""
_FIRST_KEYS = ("name", "type", "function", "id", *ARGUMENTS)
_FIRST_KEY = re.compile(r"""\{\s*["']([^"']{0,12})""")
_NAME = re.compile(r"\w[\w.\-]{0,127}")


async def with_text_calls(
    events: AsyncIterator[StreamEvent], tools: Sequence[ToolSchema]
) -> AsyncIterator[StreamEvent]:
    """The events of a response, with the calls in its text; see `TextCalls`."""
    calls = TextCalls(tools)
    async with aclosing(events) as received:  # type: ignore[type-var]
        try:
            async for event in received:
                if calls.done:
                    yield event
                else:
                    for found in calls.feed(event):
                        yield found
        except ProviderError:
            for held in calls.release():
                yield held
            raise


class TextCalls:
    """Filters one response. From where a call may begin, text is held back, so that a call is never shown as an answer;
    at the end, the calls in it become calls after the text around them. Once `done`, events pass unchanged."""

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
        text, calls = (self._finder.take(), []) if cut_off else self._finder.end(self._schemas)
        if calls and not self._shown:
            text = text.lstrip()
        if text and self._block is not None:
            self._shown = True
            yield TextDelta(self._block, text)
        if not calls:
            yield from self._rest()
            yield finish
            return
        first = self._last_block + 1
        if self._shown:
            yield from self._rest()
        elif self._block is not None:
            first = self._block
        for number, call in enumerate(calls):
            block = first if not number else max(first, self._last_block) + number
            yield ToolCallStart(block, call.name)
            yield ToolArgumentsDelta(block, call.arguments)
            yield BlockEnd(block)
        yield Finish("tool_calls")


class Code:
    """Where a text that is read token by token is code, or quotes something."""

    def __init__(self) -> None:
        self._line = ""
        """The beginning of the current line."""
        self._last = ""
        self._fence = ""
        self._ticks = 0
        """The number of backticks that began inline code."""
        self._has_quoted = False
        """Whether a marker in this paragraph is quoted, and what belongs to it as well."""

    def read(self, text: str) -> None:
        """Reads text within a line: a run of backticks, or text without any."""
        if not text:
            return
        self._line = (self._line + text)[:_HEAD_CHARS]
        self._last = text[-1]
        if self._last == "`":
            self._ticks = len(text) if not self._ticks else 0 if self._ticks == len(text) else self._ticks

    def end_line(self) -> None:
        """Reads the end of a line, which also ends inline code: apostrophes may be written as backticks."""
        fence = _FENCE_LINE.match(self._line)
        if fence is not None and not self._fence:
            self._fence = fence[1]
        elif fence is not None and fence[1].startswith(self._fence) and not fence[2].strip():
            self._fence = ""
        self._has_quoted = self._has_quoted and bool(self._line.strip())
        self._line, self._last, self._ticks = "", "", 0

    def quotes(self, marker: str) -> bool:
        """Whether a marker that comes next is an example."""
        if self._fence or self._ticks or self._last in _QUOTATION_MARKS or self._line.lstrip().startswith(">"):
            self._has_quoted = True
            return True
        return self._has_quoted and INNER_MARKER.match(marker) is not None


class CallFinder:
    """Finds in the text of one block where calls may begin, of which nothing is shown.

    A marker counts everywhere but in code and quotations. A code block or an object can be a call only if the answer is
    nothing else.
    """

    def __init__(self) -> None:
        self.may_be_call = True
        """Whether what is held may be calls; else it may be the beginning of a marker."""
        self.held = 0
        """Characters that are held."""
        self._parts: list[str] = []
        self._head = ""
        self._is_whole = True
        self._is_blank = True
        self._code = Code()

    def feed(self, text: str) -> str:
        """Returns the text that can be shown."""
        self._parts.append(text)
        self.held += len(text)
        if self.may_be_call:
            if len(self._head) < _HEAD_CHARS:
                self._head = (self._head + text).lstrip()[:_HEAD_CHARS]
                self.may_be_call = may_be_whole(self._head) if self._is_whole else may_be_marked(self._head)
            if self.may_be_call:
                return ""
        self._is_whole = False
        return self._walk(self.take())

    def take(self) -> str:
        """Returns what is held, and holds nothing."""
        text = "".join(self._parts)
        self._parts, self.held, self.may_be_call = [], 0, False
        return text

    def end(self, schemas: Schemas) -> tuple[str, list[TextCall]]:
        """The rest of the text, and the calls in it."""
        text = self.take()
        if self._is_whole and (call := read_whole(text.strip(), schemas)) is not None:
            return "", [call]
        calls: list[TextCall] = []
        shown = [self._walk(text)]
        while self.may_be_call and len(calls) < MAX_BLOCKS:
            text = self.take()
            found, at = read_marked(text, schemas)
            calls += found
            shown.append(self._walk(text[at:]) if at else text)
        return "".join([*shown, self.take()]), calls

    def _walk(self, text: str) -> str:
        """Returns the text before the next marker that may begin a call, and holds the rest."""
        at, end = 0, len(text) - _undecided(text)
        for token in _TOKEN.finditer(text, 0, end):
            self._code.read(text[at : token.start()])
            at = token.end()
            if token[0] == "\n":
                self._code.end_line()
            elif token[0][0] != "`" and self._begins_call(token[0], text, token.start()):
                return self._hold(text, token.start())
            else:
                self._code.read(token[0])
        self._code.read(text[at:end])
        return self._hold(text, end)

    def _begins_call(self, marker: str, text: str, at: int) -> bool:
        self._head = text[at : at + _HEAD_CHARS]
        self.may_be_call = not self._code.quotes(marker) and may_be_marked(self._head)
        return self.may_be_call

    def _hold(self, text: str, at: int) -> str:
        """Holds a text from here on, with blanks that nothing comes before; returns the rest."""
        self._is_blank = self._is_blank and not text[:at].strip()
        shown = "" if self._is_blank else text[:at]
        self._parts, self.held = [text[len(shown) :]], len(text) - len(shown)
        return shown


def _undecided(text: str) -> int:
    """The number of characters at the end that the next ones may make a marker or a run of backticks."""
    end = text[-_TOKEN_CHARS:]
    begin = max(end.rfind("<"), end.rfind("["))
    if begin >= 0 and end[begin:] in _BEGUN:
        return len(end) - begin
    return len(end) - len(end.rstrip("`"))


def may_be_marked(head: str) -> bool:
    """Whether what begins with a marker, as far as it was received, may be a call and not a sentence about it."""
    marker = ANY_MARKER.match(head)
    if marker is None:
        return False
    body = head[marker.end() :]
    if marker[0] in TAGS:
        return _may_be_tagged(body.lstrip())
    if marker[0] in HARMONY:
        recipient, has_message, _ = body.lstrip().partition(_MESSAGE)
        is_for_user = (has_message or len(head) >= _HEAD_CHARS) and "to=" not in recipient
        return not is_for_user and any(_is_begun(word, recipient) for word in _RECIPIENTS)
    return not body.strip() or _BODY.match(body) is not None


def _may_be_tagged(head: str) -> bool:
    """Whether an object, a function or the name of a call, as far as it was received, follows the tag."""
    if not head or head[0] in "[{":
        return head[:1] == "[" or _may_begin_object(head)
    if head[0] == "<":
        return any(_is_begun(tag, head) for tag in ("<function=", "<invoke name="))
    name = _NAME.match(head)
    following = head[name.end() :].lstrip() if name is not None else None
    return following is not None and any(_is_begun(tag, following) for tag in ("<arg_key>", "</tool_call>"))


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
    if not head or (head[0] == "{" and head[1:].lstrip() in ("", '"', "'")):
        return True
    key = _FIRST_KEY.match(head)
    return key is not None and any(known.startswith(key[1]) for known in _FIRST_KEYS)


def read_whole(text: str, schemas: Schemas) -> TextCall | None:
    """The call of an offered tool that a text is, alone or as a code block; None if it is anything else."""
    if text.startswith(_FENCE):
        head, _, rest = text.partition("\n")
        if head[len(_FENCE) :].strip() not in ("", "json") or not rest.endswith(_FENCE):
            return None
        text = rest.removesuffix(_FENCE)
    try:
        found = orjson.loads(text)
        call = call_of(found)
    except (orjson.JSONDecodeError, UnreadableError):
        return None
    return call if call.name in schemas and _has_arguments(found) else None


def _has_arguments(found: object) -> bool:
    if isinstance(found, dict) and isinstance(function := found.get("function"), dict):
        found = function
    return isinstance(found, dict) and any(name in found for name in ARGUMENTS)
