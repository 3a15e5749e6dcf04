"""Makes text from a model or a workspace fit to be stored, sent and shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from app.errors import TooLargeError, ToolError
from app.messages import clean_text
from app.sandbox.base import Sandbox

MAX_FILE_BYTES = 10 * 1024 * 1024
"""Largest file that the text tools load; larger ones are read in parts by commands."""

_BLOCK_CHARS = 64 * 1024

BINARY_PROBE_BYTES = 8000
"""A NUL in the first 8,000 bytes marks a binary file, the rule that git and grep use too."""


def _clean(value: Any) -> Any:
    return clean_text(value) if isinstance(value, str) else value


def _whole_path(value: Any) -> Any:
    if isinstance(value, str) and clean_text(value) != value:
        raise ValueError("a path cannot hold NUL or half of a surrogate pair")
    return value


CleanText = Annotated[str, BeforeValidator(_clean)]
"""Text from a model: NUL and lone surrogates become U+FFFD."""

WorkspacePath = Annotated[str, BeforeValidator(_whole_path), Field(min_length=1, max_length=4096)]
"""A path from a model. Paths with invalid characters are refused, since changing them would mean another file."""


def split_lines(text: str) -> list[str]:
    """The lines with their ends, split only at LF: `"".join` gives the text again, and line numbers agree with grep and
    compilers, which know neither form feeds nor U+2028."""
    lines = text.split("\n")
    ended = [line + "\n" for line in lines[:-1]]
    return [*ended, lines[-1]] if lines[-1] else ended


def lines_of(text: str) -> Iterator[str]:
    """The lines without their ends, one by one: a list of a million short ones takes fifty times the text."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def count_lines(text: str) -> int:
    """How many lines `split_lines` makes."""
    return text.count("\n") + (not text.endswith("\n") and text != "")


def skip_lines(text: str, start: int, count: int) -> int:
    """The index after `count` more lines from `start` on; the end of the text if it has fewer."""
    while count > 0 and start < len(text):
        ends = text.count("\n", start, start + _BLOCK_CHARS)
        if ends < count:
            count -= ends
            start += _BLOCK_CHARS
        else:
            for _ in range(count):
                start = text.index("\n", start) + 1
            return start
    return min(start, len(text))


def escape_name(name: str) -> str:
    """A file's name on one line, unchanged if printable; backslashes and everything else as in a Python literal, so
    that no name can fake an entry, a color or a writing direction."""
    if name.isprintable() and "\\" not in name:
        return name
    return "".join(c if c.isprintable() and c != "\\" else c.encode("unicode_escape").decode() for c in name)


def clip_line(line: str, most: int) -> str:
    """At most `most` characters of a line, with a mark if some are left out."""
    return line if len(line) <= most else f"{line[:most]}…"


def plural(count: int, noun: str) -> str:
    """`1 line`, `1,200 lines`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def looks_binary(data: bytes) -> bool:
    return b"\x00" in data[:BINARY_PROBE_BYTES]


async def read_text_bytes(sandbox: Sandbox, path: str) -> bytes:
    """A text file's bytes. Raises `ToolError` for a binary file and for one above `MAX_FILE_BYTES`."""
    try:
        data = await sandbox.read(path, max_bytes=MAX_FILE_BYTES)
    except TooLargeError as exc:
        raise ToolError(
            f"{escape_name(path)} has more than {MAX_FILE_BYTES:,} bytes; work on parts of it with execute_command "
            "(head, tail, sed -n, grep)."
        ) from exc
    if looks_binary(data):
        raise ToolError(f"{escape_name(path)} is a binary file ({plural(len(data), 'byte')}), not text.")
    return data
