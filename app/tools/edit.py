"""`edit_file`: one exact replacement."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from heapq import nlargest
from io import StringIO
from itertools import islice
from typing import ClassVar, NamedTuple

from pydantic import Field

from app.errors import ToolError
from app.tools.base import Arguments, ToolContext, ToolOutcome
from app.tools.line_ends import in_crlf, inserted, place_in, rewritten, unix
from app.tools.text import (
    CleanText,
    WorkspacePath,
    clip_line,
    escape_name,
    lines_of,
    read_text_bytes,
    skip_lines,
    split_lines,
)

SNIPPET_CONTEXT = 3
"""Lines shown before and after a change, as in a diff."""

MAX_SNIPPET_LINES = 40
MAX_LINE_CHARS = 200
MAX_NAMED_MATCHES = 10
MAX_COMPARED_LINES = 5000
"""Maximum lines compared to find the one most similar to a text that was not found; takes about 0.2 s."""

MAX_EXACT_COMPARISONS = 5

_SAME = "old_text and new_text are the same; nothing would change."

SIMILAR = 0.6
"""Minimum similarity of a line to be named, the cutoff of `difflib.get_close_matches`."""


class Edited(NamedTuple):
    """A changed text, and where its new part is."""

    content: str
    at: int
    length: int


def replace_once(content: str, old: str, new: str) -> Edited:
    """`content` with its only occurrence of `old` replaced. If it has none, `old` matches with other line ends too;
    `new` gets those of the lines that it replaces. Raises `ToolError`, with a hint, if there is none or more than one,
    including overlapping ones."""
    if not old:
        raise ToolError("old_text is empty. Name the text to replace; to fill an empty file, use write_file.")
    if old == new:
        raise ToolError(_SAME)
    start = _only_place(content, old)
    if start is not None and not in_crlf(content, start):
        end = start + len(old)
        new = new if "\n" in old else inserted(content, start, end, new)
    else:
        plain, old = unix(content), unix(old)
        place = _only_place(plain, old)
        if place is None:
            raise ToolError(f"old_text was not found. {hint(content, old)}")
        start, end = (place_in(content, plain, at) for at in (place, place + len(old)))
        new = rewritten(content[start:end], new)
        if new == content[start:end]:
            raise ToolError(_SAME)
    return Edited(content[:start] + new + content[end:], start, len(new))


def _only_place(content: str, text: str) -> int | None:
    """Where a text occurs; None if it does not. Raises `ToolError` if it occurs more than once."""
    at = content.find(text)
    if at < 0:
        return None
    if content.find(text, at + 1) >= 0:
        raise ToolError(_ambiguous(content, text))
    return at


def hint(content: str, old: str) -> str:
    """Why `old` was not found: other white space, or the line most similar to its first one."""
    if (line := _find_ignoring_space(content, old)) is not None:
        return (
            f"The text at line {line} differs from it only in whitespace (indentation, tabs, trailing spaces, "
            "blank lines). Read the file there and copy it exactly."
        )
    if (near := _nearest_line(content, old)) is not None:
        number, text = near
        shown = clip_line(text.strip(), MAX_LINE_CHARS)
        return f"The most similar line is {number}: {shown!r}. Read the file there and copy it exactly."
    return "No line is similar to it; read the file first."


def snippet(content: str, at: int, length: int) -> str:
    """The lines that `content[at : at + length]` touches and a few around them, numbered."""
    before = at
    for _ in range(SNIPPET_CONTEXT + 1):
        before = content.rfind("\n", 0, max(before, 0))
    start = before + 1
    stop = skip_lines(content, at + max(length - 1, 0), 1 + SNIPPET_CONTEXT)
    lines = list(enumerate(split_lines(content[start:stop]), content.count("\n", 0, start) + 1))
    if len(lines) > MAX_SNIPPET_LINES:
        half = MAX_SNIPPET_LINES // 2
        left_out = f"{'…':>6}  [{len(lines) - 2 * half} lines]\n"
        return _numbered(lines[:half]) + left_out + _numbered(lines[-half:])
    return _numbered(lines)


class EditFileArguments(Arguments):
    path: WorkspacePath = Field(description="File in the workspace.")
    old_text: CleanText = Field(
        description="Text to replace, exactly as in the file, with enough around it to occur once."
    )
    new_text: CleanText = Field(description="Its replacement; empty deletes it.")


class EditFile:
    name: ClassVar[str] = "edit_file"
    description: ClassVar[str] = (
        "Replaces text that occurs exactly once in a file, including whitespace; otherwise nothing is changed. Line "
        "endings stay. Returns the lines around the change."
    )
    parallel_safe: ClassVar[bool] = False
    arguments: type[Arguments] = EditFileArguments

    def __init__(self) -> None:
        # A text takes up to ten times its bytes while it is searched, so only one is at a time.
        self._turn = asyncio.Lock()

    async def run(self, args: EditFileArguments, context: ToolContext) -> ToolOutcome:
        """The rest of the file keeps its bytes: line ends, byte order mark, last line, and anything not UTF-8."""
        sandbox = await context.sandbox()
        data = await read_text_bytes(sandbox, args.path)
        async with self._turn:
            changed, report = await asyncio.to_thread(_edit, data, args)
        await sandbox.write(args.path, changed)
        context.output.write("stdout", report.encode("utf-8", "replace"))
        return ToolOutcome()


def _edit(data: bytes, args: EditFileArguments) -> tuple[bytes, str]:
    # Surrogates represent bytes that are not UTF-8 and become the same bytes again; clean arguments contain none.
    content = data.decode("utf-8", "surrogateescape")
    edited = replace_once(content, args.old_text, args.new_text)
    report = f"Edited {escape_name(args.path)}:\n{snippet(edited.content, edited.at, edited.length)}"
    return edited.content.encode("utf-8", "surrogateescape"), report


def _occurrences(content: str, text: str) -> Iterator[int]:
    at = content.find(text)
    while at >= 0:
        yield at
        at = content.find(text, at + 1)


def _ambiguous(content: str, old: str) -> str:
    starts = list(islice(_occurrences(content, old), MAX_NAMED_MATCHES + 1))
    count = str(len(starts)) if len(starts) <= MAX_NAMED_MATCHES else f"more than {MAX_NAMED_MATCHES}"
    lines = ", ".join(str(content.count("\n", 0, at) + 1) for at in starts[:MAX_NAMED_MATCHES])
    return f"old_text occurs {count} times, at lines {lines}. Add lines around it until it occurs only once."


def _squeezed(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, without white space, with their numbers."""
    squeezed = ((number, "".join(line.split())) for number, line in enumerate(lines_of(text), 1))
    return ((number, line) for number, line in squeezed if line)


def _joined(text: str) -> str:
    """Its squeezed lines. Written one by one, since `join` would make a list of them first."""
    joined = StringIO()
    for _, line in _squeezed(text):
        joined.write(line)
        joined.write("\n")
    return joined.getvalue().removesuffix("\n")


def _find_ignoring_space(content: str, old: str) -> int | None:
    wanted, joined = _joined(old), _joined(content)
    at = joined.find(wanted) if wanted else -1
    return next(islice(_squeezed(content), joined.count("\n", 0, at), None))[0] if at >= 0 else None


def _nearest_line(content: str, old: str) -> tuple[int, str] | None:
    wanted = next((line.strip() for line in old.split("\n") if line.strip()), "")
    matcher = SequenceMatcher(autojunk=False, b=wanted[:MAX_LINE_CHARS])

    def likeness(numbered: tuple[int, str], exact: bool = False) -> float:
        matcher.set_seq1(numbered[1].strip()[:MAX_LINE_CHARS])
        return matcher.ratio() if exact else matcher.quick_ratio()

    lines = enumerate(content.split("\n", MAX_COMPARED_LINES)[:MAX_COMPARED_LINES], 1)
    # The exact ratio takes cubic time in the worst case, so only the few best by the linear one get it.
    likely = nlargest(MAX_EXACT_COMPARISONS, lines, key=likeness)
    ratio, _, best = max(((likeness(line, exact=True), -line[0], line) for line in likely), default=(0.0, 0, None))
    return best if ratio >= SIMILAR else None


def _numbered(lines: Sequence[tuple[int, str]]) -> str:
    return "".join(
        f"{number:>6}  {clip_line(line.rstrip(chr(10) + chr(13)), MAX_LINE_CHARS)}\n" for number, line in lines
    )
