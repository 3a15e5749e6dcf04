"""Text that comes from a model or from a workspace, made fit to be stored, sent and shown; and regular expressions that
take time in proportion to the text, and bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

import re2
from pydantic import BeforeValidator, Field

from app.errors import TooLargeError, ToolError
from app.messages import CleanText as CleanText
from app.messages import clean_text
from app.sandbox.base import Sandbox

MAX_FILE_BYTES = 10 * 1024 * 1024
"""Largest file that the text tools load; larger ones are read in parts by commands."""
_BLOCK_CHARS = 64 * 1024
BINARY_PROBE_BYTES = 8000
"""A NUL in the first 8,000 bytes marks a binary file, the rule that git and grep use too."""

MEMORY = 1024 * 1024
"""Maximum bytes of a compiled pattern. With it, the slowest of a hundred hostile patterns compiled in 5 ms and searched
16 KiB of text in 0.4 s; see docs/decisions/0024."""
MAX_CHARS = 2_000
"""Longest pattern, in characters."""
_MISSING = re.compile(r"perl operator|bad repetition operator|escape sequence: \\[1-9gk]")
"""How RE2 refuses syntax that takes more than linear time."""


def _whole_path(value: Any) -> Any:
    if isinstance(value, str) and clean_text(value) != value:
        raise ValueError("a path cannot contain NUL or a lone surrogate")
    return value


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
    return text_bytes(await read_bytes(sandbox, path), path)


async def read_bytes(sandbox: Sandbox, path: str) -> bytes:
    """A file's bytes. Raises `ToolError` for one above `MAX_FILE_BYTES`."""
    try:
        return await sandbox.read(path, max_bytes=MAX_FILE_BYTES)
    except TooLargeError as exc:
        raise ToolError(
            f"{escape_name(path)} has more than {MAX_FILE_BYTES:,} bytes; work on parts of it with execute_command "
            "(head, tail, sed -n, grep)."
        ) from exc


def text_bytes(data: bytes, path: str) -> bytes:
    """The bytes of a text file, unchanged. Raises `ToolError` for a binary file."""
    if looks_binary(data):
        raise ToolError(f"{escape_name(path)} is a binary file ({plural(len(data), 'byte')}), not text.")
    return data


class PatternError(ValueError):
    """An invalid pattern; the text says why."""


class Pattern:
    """A regular expression in RE2's syntax. Searching does not hold the GIL."""

    def __init__(self, text: str) -> None:
        """Raises `PatternError`."""
        if len(text) > MAX_CHARS:
            raise PatternError(f"it has {len(text):,} characters; at most {MAX_CHARS:,} are allowed")
        self.text = text
        self._compiled = _compiled(text)

    def search(self, text: str, at: int = 0) -> tuple[int, int] | None:
        """Start and end of the first match from `at` on."""
        match = self._compiled.search(text, at)
        return None if match is None else (match.start(), match.end())

    def over_lines(self) -> Pattern | None:
        """The pattern for texts of many lines, which matches if one of the lines does; None if it has an anchor of the
        whole text, since each line is a text of its own."""
        if re.search(r"\\[Az]", self.text):
            return None
        wide = object.__new__(Pattern)
        wide.text = self.text
        wide._compiled = _compiled(f"(?m){self.text}", never_nl=True)
        return wide


def _compiled(text: str, *, never_nl: bool = False) -> Any:
    options = re2.Options()
    options.max_mem, options.log_errors, options.never_nl = MEMORY, False, never_nl
    try:
        return re2.compile(text, options)
    except re2.error as error:
        raise PatternError(_reason(error)) from error
    except UnicodeEncodeError as error:
        raise PatternError("it has characters that are not valid Unicode") from error


def _reason(error: re2.error) -> str:
    said = error.args[0] if error.args else ""
    reason = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    if "too large" in reason or "repetition size" in reason:
        return f"{reason}; use fewer or smaller repetitions"
    if _MISSING.search(reason):
        return f"{reason}; lookaround, backreferences and atomic groups are not supported"
    return reason
