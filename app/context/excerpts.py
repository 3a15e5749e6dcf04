"""Shortens texts for a summary: by characters, by tokens, and onto one line."""

from __future__ import annotations

from collections.abc import Callable

from app.context.tokens import estimate_text
from app.messages import ImagePart, Message, TextPart

CHARS_PER_TOKEN = 4
"""The maximum number of characters that `estimate_text` counts as one token."""


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


def image_label(part: ImagePart) -> str:
    """`[image image/png 800×600]`; without the size if it is unknown."""
    size = f" {part.width}×{part.height}" if part.width and part.height else ""
    return f"[image {one_line(part.media_type, 100)}{size}]"


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
