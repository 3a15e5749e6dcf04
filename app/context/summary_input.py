"""The input of a separate summarizer: the covered messages as delimited text, in windows that fit it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from app.context.excerpts import clip_middle, fit_tokens, image_label, one_line
from app.context.facts import lived
from app.context.tokens import estimate_text
from app.messages import ImagePart, Message, Part, TextPart, ToolCallPart, ToolResultPart

RESULT_CHARS = 2_000
"""Characters of one tool result, and of one call's arguments, that a summarizer reads."""

ATTRIBUTE_CHARS = 100

_DELIMITERS = re.compile(r"<(?=\W{0,8}(?:item|transcript|task|previous_summary|instructions)\b)", re.IGNORECASE)
"""The `<` of anything like one of these delimiters, even with blanks or invisible characters in it."""

_ITEM = re.compile(r"(<item [^>]*>\n)(.*)(\n</item>)", re.DOTALL)


def escaped(text: str) -> str:
    """The text with `&lt;` for the `<` of these delimiters, so that nothing inside an item can close it. Everything
    else is unchanged: code is easier to read that way, and costs less."""
    return _DELIMITERS.sub("&lt;", text)


def transcript_items(messages: Sequence[Message]) -> list[str]:
    """One delimited text for each text, call, result and image, numbered from 1; a result names its call's number.

    Results and arguments are clipped to `RESULT_CHARS`. Left out are reasoning, voided attempts, messages that say
    nothing, and summaries, which a summarizer gets separately.
    """
    writer = _Writer()
    return [item for message in lived(messages) for part in message.parts for item in writer.write(message, part)]


def windows(items: Sequence[str], max_tokens: int) -> list[str]:
    """The items joined into texts of at most `max_tokens` estimated tokens, in order. An item that is larger is clipped
    inside its delimiters. Raises `ValueError` if `max_tokens` is below 1."""
    if max_tokens < 1:
        raise ValueError("a window needs at least one token")
    joined: list[list[str]] = []
    used = max_tokens
    for item in items:
        fitted = _clipped_item(item, max_tokens)
        # One more for the line break: estimates round up, so their sum is never below that of the whole.
        tokens = estimate_text(fitted) + 1
        if used + tokens > max_tokens:
            joined.append([])
            used = -1
        joined[-1].append(fitted)
        used += tokens
    return ["\n".join(window) for window in joined]


@dataclass(slots=True)
class _Writer:
    """Numbers the items; `calls` has the number of each call."""

    written: int = 0
    calls: dict[str, int] = field(default_factory=dict)

    def write(self, message: Message, part: Part) -> Iterator[str]:
        match part:
            case TextPart() if part.text.strip():
                yield self._item(part.text, kind=str(message.role))
            case ImagePart():
                yield self._item(image_label(part), kind="image")
            case ToolCallPart():
                self.calls[part.call_id] = self.written + 1
                yield self._item(_clipped(part.arguments_text), kind="tool_call", tool=part.name)
            case ToolResultPart():
                yield self._result(part)

    def _result(self, part: ToolResultPart) -> str:
        of = self.calls.get(part.call_id)
        code = {} if part.exit_code is None else {"exit_code": str(part.exit_code)}
        answers = {} if of is None else {"of": str(of)}
        return self._item(
            _clipped(part.output), kind="tool_result", **answers, tool=part.name, status=str(part.status), **code
        )

    def _item(self, content: str, **attributes: str) -> str:
        self.written += 1
        named = "".join(f' {name}="{_attribute(value)}"' for name, value in attributes.items())
        return f'<item n="{self.written}"{named}>\n{escaped(content)}\n</item>'


def _attribute(value: str) -> str:
    return html.escape(one_line(value, ATTRIBUTE_CHARS))


def _clipped(text: str) -> str:
    return clip_middle(text, RESULT_CHARS)


def _clipped_item(item: str, max_tokens: int) -> str:
    if estimate_text(item) <= max_tokens:
        return item
    parts = _ITEM.fullmatch(item)
    if parts is None:
        return fit_tokens(item, max_tokens)
    head, content, end = parts.groups()
    room = max_tokens - estimate_text(head + end)
    return f"{head}{fit_tokens(content, room)}{end}" if room > 0 else fit_tokens(item, max_tokens)
