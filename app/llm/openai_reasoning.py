"""The reasoning of a Chat Completions answer: in a field with one of several names, in a list of details, in parts of
the content, or in the text itself between tags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from app.llm.held import Details, HeldBytes, merge_unknown

Place = Literal["reasoning_content", "reasoning", "reasoning_text", "reasoning_details", "thinking_part", "think_tag"]
"""Where the text of the reasoning was, so that it can be sent back in the same place."""

_FIELDS: tuple[Place, ...] = ("reasoning_content", "reasoning", "reasoning_text")
_DETAILS: Literal["reasoning_details"] = "reasoning_details"
_UNDERSTOOD = frozenset(
    {
        *_FIELDS,
        "role",
        "content",
        "refusal",
        "name",
        "tool_calls",
        "function_call",
        "audio",
        "annotations",
        "logprobs",
        "images",
        "citations",
        "token_ids",
    }
)
"""Fields of a message that are read, or that no server wants back."""
_WITHOUT_REASONING = frozenset({"role", "content", "tool_calls"})
"""Fields of most deltas, for speed."""
_THINKING = ("thinking", "reasoning")
_TEXTS = ("text", "thinking", "reasoning", "content", "summary")
_MAX_NESTING = 5

_TAGS = ("<think>", "<thinking>")
_MAX_BLANKS = 1_000
"""Characters of white space that are held back around tags."""


def text_in(content: Any) -> str:
    """The text of a delta's content; a few servers (Mistral) send a list of typed pieces."""
    if isinstance(content, str):
        return content
    return "".join(str(piece.get("text") or "") for piece in _pieces(content) if not _is_thinking(piece))


def _thinking_in(content: Any) -> str:
    if isinstance(content, str):
        return ""
    return "".join(_plain(piece) for piece in _pieces(content) if _is_thinking(piece))


def _pieces(content: Any) -> list[dict[str, Any]]:
    pieces = [content] if isinstance(content, dict) else content
    return [piece for piece in pieces if isinstance(piece, dict)] if isinstance(pieces, list) else []


def _is_thinking(piece: dict[str, Any]) -> bool:
    return piece.get("type") in _THINKING


def _plain(value: Any, level: int = 0) -> str:
    """The text of reasoning in any known shape: itself, an object with a text, or a list of them."""
    if isinstance(value, str):
        return value
    if level > _MAX_NESTING:
        return ""
    if isinstance(value, list):
        return "".join(_plain(piece, level + 1) for piece in value)
    texts = (_plain(value[name], level + 1) for name in _TEXTS if name in value) if isinstance(value, dict) else ()
    return next(filter(None, texts), "")


class Reasoning:
    """What a message has next to its answer: the reasoning, which several fields may repeat, and fields that only the
    server understands."""

    def __init__(self, held: HeldBytes) -> None:
        self._held = held
        self._place: Place | None = None
        self._fields: dict[str, Any] = {}
        self._details = Details(held)
        self.has_fields = False

    def read(self, message: dict[str, Any]) -> tuple[str, Place] | None:
        """The reasoning in a delta or a message, and its place; None without any."""
        if message.keys() <= _WITHOUT_REASONING and isinstance(message.get("content", ""), str):
            return None
        found = next(self._texts(message), None)
        if found is not None and self._place is None:
            self._place = found[1]
        return found

    def _texts(self, message: dict[str, Any]) -> Iterator[tuple[str, Place]]:
        """All reasoning in a message, which is the same in all places. A place that was seen before comes first: some
        servers fill a second one now and then."""
        details = message.get(_DETAILS)
        if self._place == _DETAILS and details and (text := _plain(details)):
            yield text, _DETAILS
        for place in _FIELDS:
            if (value := message.get(place)) and (text := _plain(value)):
                yield text, place
        content = message.get("content")
        if content and not isinstance(content, str) and (text := _thinking_in(content)):
            yield text, "thinking_part"
        if self._place is None and details and (text := _plain(details)):
            yield text, _DETAILS

    def keep(self, message: dict[str, Any], *, is_whole: bool) -> None:
        """Keeps the fields that only the server understands. Raises `ProviderError` if they are too large."""
        if message.keys() <= _UNDERSTOOD:
            return
        if isinstance(details := message.get(_DETAILS), list) and details:
            self.has_fields = True
            self._details.add(details, is_whole=is_whole)
        known = _UNDERSTOOD | {_DETAILS} if isinstance(details, list) else _UNDERSTOOD
        merge_unknown(self._fields, message, known, self._held)
        self.has_fields = self.has_fields or bool(self._fields)

    def end(self) -> dict[str, Any]:
        """The fields that only the server understands."""
        details = self._details.end()
        return ({_DETAILS: details} if details else {}) | self._fields


class ThinkTag:
    """Takes reasoning between tags from the beginning of a text that arrives in pieces. Once `is_over`, the rest of the
    text is the answer."""

    def __init__(self) -> None:
        self._close: str | None = None
        self._buffer = ""
        self._is_blank = True
        self._is_closed = False
        self.is_over = False

    def feed(self, piece: str) -> tuple[str, str]:
        """The reasoning and the text in the next piece; what may be part of a tag is held back."""
        self._buffer += piece
        if self._close is None:
            self._open()
        if self.is_over or self._is_closed:
            return "", self._answer()
        return self._inside() if self._close is not None else ("", "")

    def flush(self) -> tuple[str, str]:
        """The reasoning and the text that were held back, since something else follows, or nothing."""
        held, self._buffer = self._buffer, ""
        if self._close is None:
            self.is_over = True
        is_reasoning = self._close is not None and not self._is_closed
        return (held if held.strip() else "", "") if is_reasoning else ("", "" if self._is_closed else held)

    def _open(self) -> None:
        text = self._buffer.lstrip()
        tag = next((tag for tag in _TAGS if text.startswith(tag)), None)
        if tag is not None:
            self._close = tag.replace("<", "</")
            self._buffer = text.removeprefix(tag)
        elif len(self._buffer) > _MAX_BLANKS or not any(tag.startswith(text) for tag in _TAGS):
            self.is_over = True

    def _inside(self) -> tuple[str, str]:
        assert self._close is not None
        before, close, after = self._buffer.partition(self._close)
        if close:
            self._is_closed = True
            self._buffer = after
            return self._unblanked(before.rstrip()), self._answer()
        text = before[: len(before) - _partial(before, self._close)]
        shown = text if len(before) > len(text.rstrip()) + _MAX_BLANKS else text.rstrip()
        self._buffer = before[len(shown) :]
        return self._unblanked(shown), ""

    def _unblanked(self, text: str) -> str:
        if self._is_blank:
            text = text.lstrip()
            self._is_blank = not text
        return text

    def _answer(self) -> str:
        """The text after the tags, without the blank lines between."""
        text, self._buffer = self._buffer.lstrip() if self._is_closed else self._buffer, ""
        self.is_over = self.is_over or bool(text)
        return text


def _partial(text: str, tag: str) -> int:
    """How many characters at the end of a text may begin the tag."""
    start = text.rfind("<", len(text) - len(tag) + 1 if len(text) >= len(tag) else 0)
    return len(text) - start if start >= 0 and tag.startswith(text[start:]) else 0
