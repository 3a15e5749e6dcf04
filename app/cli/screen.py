"""What a command prints: text that cannot steer the terminal, amounts and ids as a person reads them, and the sentence
that ends it."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Collection, Iterable
from datetime import datetime
from textwrap import TextWrapper
from typing import Any, TextIO

from typer import style

from app.errors import PalimpsestError

COMPLETED, FAILED, USAGE, LIMIT, UNANSWERED, CANCELLED, CLOSED_PIPE = 0, 1, 2, 3, 4, 130, 141
"""Exit statuses; `UNANSWERED` is a run in which a call was denied because nobody decided in time. Shells use 130 for a
program ended by Ctrl-C, and 141 for one that wrote to a closed pipe."""

# C0 except newline and tab, DEL and C1, which start all escape sequences, and characters that reorder text (bidi).
_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

SHORTEST = 4
"""Min characters of an abbreviated id."""
SHOWN = 8
"""Characters of a call's id that are shown: the random bits."""
FULL = 36
MAX_LISTED = 10


class CliError(PalimpsestError):
    """The command cannot be carried out."""

    code = "command_failed"
    title = "The command failed"
    exit_status = FAILED


class UsageError(CliError):
    """An argument or option is missing or invalid."""

    exit_status = USAGE


class InvalidSettingsError(UsageError):
    """A variable or an option has an invalid value."""

    code = "invalid_settings"
    title = "Invalid setting"


class NoServerError(CliError):
    code = "no_server"
    title = "No server answers"


class ConnectionLostError(CliError):
    """The connection to the server was lost after it was established."""

    code = "connection_lost"
    title = "The connection was lost"


class SessionDeletedError(CliError):
    """The session was deleted elsewhere while the command followed it."""

    code = "session_deleted"
    title = "The session was deleted"


class ServerRefusedError(CliError):
    """The server responded with a problem; `code` is the problem's."""

    title = "The server refused the request"


def visible(text: str) -> str:
    """`text` with control characters escaped, as `\\x1b`; newlines and tabs stay."""
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n"))


def json_text(value: Any) -> str:
    """A value as indented JSON, without characters that could control the terminal."""
    return visible(json.dumps(value, indent=2, ensure_ascii=False))


def one_line(text: str, width: int = 120) -> str:
    """`text` on one line of at most `width` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def silence() -> None:
    """Discards further output: the reader has closed the pipe, and the interpreter would report an error at exit."""
    with open(os.devnull, "w") as nowhere:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere.fileno(), stream.fileno())


class Screen:
    """Writes untrusted text to `out` as it arrives, and tracks whether a line is open. Styles are those of
    `typer.style` and apply only on a terminal."""

    def __init__(self, out: TextIO | None = None, *, color: bool | None = None) -> None:
        self._out = out or sys.stdout
        self._color = is_capable(self._out) if color is None else color
        self._wraps = self._out.isatty()
        self._at_start = True
        reconfigure = getattr(self._out, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")

    def write(self, text: str, **styles: Any) -> None:
        """Continues where the last text ended."""
        shown = visible(text)
        if not shown:
            return
        self._out.write(style(shown, **styles) if self._color and styles else shown)
        self._out.flush()
        self._at_start = shown.endswith("\n")

    def prose(self, text: str) -> None:
        """Continues a text in Markdown, which is written as it is."""
        self.write(text)

    def fresh(self) -> None:
        """Ends an open line."""
        if not self._at_start:
            self.write("\n")

    def line(self, text: str = "", *, indent: str = "", wrap: bool = True, **styles: Any) -> None:
        """Writes `text` on its own line or lines. At a terminal they are wrapped between words, with `indent` before
        those that continue; not with `wrap=False`, for commands that are copied."""
        self.fresh()
        self.write(wrapped(text, columns(self._out), indent) if wrap and self._wraps else text, **styles)
        self.write("\n")


def columns(out: TextIO) -> int:
    """The width of a terminal; 80 if unknown."""
    try:
        return os.get_terminal_size(out.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def wrapped(text: str, width: int, indent: str = "") -> str:
    """Lines of at most `width` characters, broken between words; a longer word stays whole."""
    wrapper = TextWrapper(
        width,
        subsequent_indent=indent,
        expand_tabs=False,
        replace_whitespace=False,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join("\n".join(wrapper.wrap(line)) for line in text.split("\n"))


class Notes:
    """Sentences for the person who watches, on standard error; above the region of a live screen while one is drawn."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.screen = Screen(sys.stderr)
        self._quiet = quiet

    def say(self, text: str) -> None:
        if not self._quiet:
            self.screen.line(text, dim=True)

    def warn(self, text: str) -> None:
        self.screen.line(text, fg="yellow")


def is_capable(out: TextIO) -> bool:
    """Whether `out` is a terminal with colors and a cursor that can be moved."""
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def seconds(value: float) -> str:
    """`40 ms`, `2.5 s`, `12 s`, `3 min 20 s`, `2 h 05 min`."""
    if value < 1:
        return f"{round(value * 1000)} ms"
    if value < 10:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def money(cost_usd: float | None) -> str:
    """`$0.0123`, or `cost unknown`."""
    if cost_usd is None:
        return "cost unknown"
    return f"${cost_usd:.2f}" if cost_usd >= 1 or cost_usd == 0 else f"${cost_usd:.4f}"


def tokens(usage: dict[str, Any]) -> str:
    """`1,714 in (1,200 cached) · 132 out`."""
    cached = usage["cache_read_tokens"]
    read = usage["input_tokens"] + cached + usage["cache_write_tokens"]
    return f"{read:,} in{f' ({cached:,} cached)' if cached else ''} · {usage['output_tokens']:,} out"


def share(context: dict[str, Any]) -> str:
    """`context 14%` of the usable window, at most 100%; empty if the window is unknown."""
    usable = context.get("usable") or 0
    return f"context {min(100, round(100 * context.get('tokens', 0) / usable))}%" if usable else ""


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `3rd`, `11th`."""
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def joined(*items: str) -> str:
    return " · ".join(item for item in items if item)


def between(start: str | None, end: str | None) -> str:
    """The time between two RFC 3339 times; empty if one is missing."""
    if start is None or end is None:
        return ""
    return seconds((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


def typed(given: str, noun: str) -> str:
    """A typed id, or a part of one, in lower case. Raises `CliError` if it is too short."""
    piece = given.strip().lower()
    if len(piece) < SHORTEST:
        raise CliError(f"Give at least {SHORTEST} characters of the {noun}'s id.", code="short_id")
    return piece


def matching(piece: str, ids: Iterable[str]) -> list[str]:
    """The ids that start or end with `piece`."""
    return [each for each in ids if each.startswith(piece) or each.endswith(piece)]


def short(call_id: str, among: Collection[str] = ()) -> str:
    """The end of a call's id, long enough to be unique among `among`."""
    for length in range(SHOWN, len(call_id)):
        end = call_id[-length:]
        if all(each == call_id for each in matching(end, among)):
            return end
    return call_id


def listed(found: list[str]) -> str:
    """The first ten matches, and how many more there are."""
    rest = len(found) - MAX_LISTED
    return ", ".join(found[:MAX_LISTED]) + (f" and {rest} more" if rest > 0 else "")
