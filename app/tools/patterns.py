"""Regular expressions from a model or a client: linear in time, bounded in memory."""

from __future__ import annotations

import re
from typing import Any

import re2

MEMORY = 1024 * 1024
"""Maximum bytes of a compiled pattern. With it, the slowest of a hundred hostile patterns compiled in 5 ms and searched
16 KiB of text in 0.4 s; see docs/decisions/0024."""

MAX_CHARS = 2_000
"""Longest pattern, in characters."""

_MISSING = re.compile(r"perl operator|bad repetition operator|escape sequence: \\[1-9gk]")
"""How RE2 refuses syntax that takes more than linear time."""


class PatternError(ValueError):
    """An invalid pattern; the text says why."""


class Pattern:
    """A regular expression in RE2's syntax. Searching does not hold the GIL."""

    def __init__(self, text: str) -> None:
        """Raises `PatternError`."""
        if len(text) > MAX_CHARS:
            raise PatternError(f"it has {len(text):,} characters, and may have {MAX_CHARS:,}")
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
