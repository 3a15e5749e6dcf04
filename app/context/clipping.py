"""Texts made shorter: head and tail of a part that is too long for its context, and excerpts for a summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import orjson

from app.context.content import replaced, with_parts
from app.context.tokens import estimate_part, estimate_text
from app.messages import (
    ImageContent,
    ImagePart,
    Message,
    Part,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    clean_text,
    parse_arguments,
)

LEFT_OUT = "\n[… {count:,} characters left out here]\n"
LEFT_OUT_OF_MESSAGE = '\n[… {count:,} characters left out here; recall("{message_id}") returns the whole message]\n'
LEFT_OUT_OF_REQUEST = (
    '\n[… {count:,} characters left out here; recall("{message_id}") returns the whole message, which is also in'
    " {path}]\n"
)
LEFT_OUT_OF_RESULT = '\n[… {count:,} characters left out here; recall("{call_id}") returns them]\n'
SPILL_FILE = ".palimpsest/messages/{message_id}.txt"
"""The workspace file with the full text of a user message whose context shows only its head and tail."""
_MARGIN = 8
"""Characters that a clip must save beyond its note, whose quotes and line breaks are escaped in a result's JSON."""
_CLIPPED = "_clipped"
"""The only key of arguments that could not be clipped value by value."""

CHARS_PER_TOKEN = 4
"""The maximum number of characters that `estimate_text` counts as one token."""


def clip_message(message: Message, clips: Mapping[str, int], pruned: AbstractSet[str] = frozenset()) -> Message:
    """The message with each part named in `clips` cut to that many characters plus a note, the same object if none is
    cut. Reasoning is never cut (it is sent whole or not at all), nor are the placeholders of `pruned` results. The note
    in a text names the message, which `recall` returns in full. An image that counts more becomes its placeholder."""
    if not clips or clips.keys().isdisjoint(part.id for part in message.parts):
        return message
    whole, message = message, replaced(message, lambda image: _clipped_image(message, image, clips))
    note = _note_of(message)
    parts = [clip_part(p, clips[p.id], note) if _is_named(p, clips, pruned) else p for p in message.parts]
    if message is whole and all(new is old for new, old in zip(parts, message.parts, strict=True)):
        return message
    return with_parts(message, parts)


def _clipped_image(message: Message, image: ImagePart, clips: Mapping[str, int]) -> str | None:
    is_cut = image.id in clips and part_length(image) > clips[image.id]
    return image_placeholder(message, image) if is_cut else None


def spill_file(message: Message) -> str:
    """The workspace file with the full text of a clipped user message."""
    return SPILL_FILE.format(message_id=message.id)


def _note_of(message: Message) -> str:
    """The note for the gap in a clipped text of the message; `clip_text` fills in the count."""
    note = LEFT_OUT_OF_REQUEST if message.role is Role.USER and not message.is_summary else LEFT_OUT_OF_MESSAGE
    return note.replace("{message_id}", _escaped(message.id)).replace("{path}", _escaped(spill_file(message)))


def _is_named(part: Part, clips: Mapping[str, int], pruned: AbstractSet[str]) -> bool:
    return part.id in clips and not (isinstance(part, ToolResultPart) and part.call_id in pruned)


def clip_part(part: Part, limit: int, text_note: str = LEFT_OUT) -> Part:
    """The part cut to `limit` characters plus a note, the same object if that would not make it shorter. `text_note` is
    the note for a text; a result's note names its call."""
    match part:
        case TextPart():
            return _changed(part, "text", part.text, clip_text(part.text, limit, text_note))
        case ToolResultPart():
            note = LEFT_OUT_OF_RESULT.replace("{call_id}", _escaped(part.call_id))
            return _changed(part, "output", part.output, clip_text(part.output, limit, note))
        case ToolCallPart():
            return _changed(part, "arguments_text", part.arguments_text, clip_arguments(part.arguments_text, limit))
    return part


def part_length(part: Part) -> int:
    """Characters that a clip could shorten; 0 for parts that are never clipped. For an image, the characters of a text
    that counts as much."""
    match part:
        case TextPart():
            return len(part.text)
        case ToolResultPart():
            return len(part.output)
        case ToolCallPart():
            return len(part.arguments_text)
        case ImagePart():
            return CHARS_PER_TOKEN * (part.tokens or estimate_part(part))
    return 0


def clip_text(text: str, limit: int, note: str = LEFT_OUT) -> str:
    """The first and last half of `limit` characters with `note` between them; the text itself if the note would cost as
    much as it saves."""
    between = note.format(count=len(text) - limit)
    if len(text) <= limit + len(between) + _MARGIN:
        return text
    head = (limit + 1) // 2
    return text[:head] + between + text[len(text) - (limit - head) :]


def clip_arguments(arguments: str, limit: int) -> str:
    """A call's arguments as a valid JSON object of about `limit` characters: its longest strings are clipped as much as
    necessary. Arguments that are long for other reasons, or no object, become `{"_clipped": "…"}`."""
    if len(arguments) <= limit + _MARGIN:
        return arguments
    shorter = _clip_values(arguments, limit) or _dumped({_CLIPPED: clip_text(clean_text(arguments), limit // 2)})
    return shorter if len(shorter) < len(arguments) else arguments


def _clip_values(arguments: str, limit: int) -> str | None:
    values = parse_arguments(arguments)
    if isinstance(values, str):
        return None
    most = limit
    while most > 0:
        text = _dumped(_clip_strings(values, most))
        if len(text) <= limit + len(LEFT_OUT):
            return text
        most //= 2
    return None


def _clip_strings(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return clip_text(value, limit)
    if isinstance(value, dict):
        return {key: _clip_strings(inner, limit) for key, inner in value.items()}
    if isinstance(value, list):
        return [_clip_strings(inner, limit) for inner in value]
    return value


def _dumped(value: object) -> str:
    return orjson.dumps(value).decode()


def _escaped(text: str) -> str:
    """Double the braces for `str.format`."""
    return text.replace("{", "{{").replace("}", "}}")


def _changed(part: Part, field: str, old: str, new: str) -> Part:
    """The part with another text, to be counted again, since `tokens` is that of the whole part."""
    return part if new is old or new == old else part.model_copy(update={field: new, "tokens": 0})


def clip_middle(text: str, chars: int, where: str = "") -> str:
    """At most `chars` characters of the text, half of them from its end, with a note of how many are left out; the text
    itself if it is not longer. `where` says how to see the rest."""
    if len(text) <= chars:
        return text
    tail = chars // 2
    note = f"[… {len(text) - chars:,} characters left out{where}]"
    return f"{text[: chars - tail]}\n{note}\n{text[len(text) - tail :]}"


def fit_tokens(text: str, tokens: int, where: str = "") -> str:
    """The text, clipped in its middle if it has more than `tokens` estimated tokens. If not even the note fits, as much
    of the text's beginning as does."""
    if _fits(text, tokens):
        return text
    most = min(len(text), CHARS_PER_TOKEN * max(0, tokens))
    chars = most_that_fit(most, lambda count: _fits(clip_middle(text, count, where), tokens))
    if chars:
        return clip_middle(text, chars, where)
    return text[: most_that_fit(most, lambda count: _fits(text[:count], tokens))]


def most_that_fit(total: int, fits: Callable[[int], bool]) -> int:
    """The largest count up to `total` that fits, if `fits` turns false only once; 0 is not tried.

    Doubles first, so that texts that are far too large are never built.
    """
    low, high = 0, 1
    while high < total and fits(high):
        low, high = high, 2 * high
    high = min(high, total) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def one_line(text: str, chars: int) -> str:
    """The text on one line, only its beginning if it is longer than `chars`. Unprintable characters are escaped as in a
    Python literal, so that no name can start a line or change the direction of writing."""
    cut = text[: chars + 1]
    shown = cut if cut.isprintable() else "".join(map(_visible, cut))
    return shown if len(shown) <= chars else f"{shown[:chars]}…"


def plural(count: int, noun: str) -> str:
    """`1 file`, `1,200 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def image_label(image: ImagePart | ImageContent) -> str:
    """`[image docs/a.png image/png 800×600]`; without the path or the size if it has none."""
    return f"[{image_name(image)}]"


def image_name(image: ImagePart | ImageContent) -> str:
    """The label without brackets."""
    path = f" {one_line(image.path, 300)}" if image.path else ""
    size = f" {image.width}×{image.height}" if image.width and image.height else ""
    return f"image{path} {one_line(image.media_type, 100)}{size}"


def image_placeholder(message: Message, image: ImagePart) -> str:
    """What stands for an image that was cleared."""
    again = f'recall("{message.id}")'
    if image.path is not None:
        again = f'read_file("{image.path}")' if image.path.isprintable() and '"' not in image.path else "read_file"
    return f"[{image_name(image)}, cleared; {again} shows it again]"


def readable(message: Message) -> str:
    """What a user wrote: the texts unchanged, images as labels on their own lines."""
    if not any(isinstance(part, ImagePart) for part in message.parts):
        return message.text
    pieces = [_piece(part) for part in message.parts if isinstance(part, TextPart | ImagePart)]
    return "\n".join(filter(None, pieces))


def _piece(part: TextPart | ImagePart) -> str:
    return part.text if isinstance(part, TextPart) else image_label(part)


def _visible(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def _fits(text: str, tokens: int) -> bool:
    # The estimate is never below a quarter of the characters; this avoids counting texts that are far too long.
    return len(text) <= CHARS_PER_TOKEN * max(0, tokens) and estimate_text(text) <= tokens
