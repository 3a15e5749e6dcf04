"""`read_file`, `write_file` and `list_directory`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from shlex import quote
from typing import ClassVar

from pydantic import Field

from app.errors import NotFoundError, TooLargeError, ToolError
from app.images import MAX_IMAGE_BYTES, image_size, media_type_of
from app.sandbox.base import FileInfo, Sandbox
from app.sandbox.paths import resolve
from app.tools.base import Arguments, ToolContext, ToolImage, ToolOutcome
from app.tools.output import OutputLimit
from app.tools.text import (
    CleanText,
    WorkspacePath,
    count_lines,
    escape_name,
    plural,
    read_bytes,
    skip_lines,
    text_bytes,
)

MAX_ENTRIES = 1000
"""Maximum entries of a directory that are listed; more do not help a model."""

READ_CHARS = 30_000
"""Maximum characters of one `read_file`, the default limit of what a model sees of any output."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines `first` to `last`, counted from 1, of a text of `total` lines; an empty text has 0 to 0 of 0. `cut` if the
    only line is incomplete."""

    text: str
    first: int
    last: int
    total: int
    cut: bool = False

    def note(self, path: str = "FILE") -> str:
        """What the reader must know to continue reading; empty if the excerpt is complete. `path` names the file in a
        command."""
        if self.total == 0:
            return "[the file is empty]"
        if (self.first, self.last) == (1, self.total) and not self.cut:
            return ""
        more = f"; read on with start_line={self.last + 1}" if self.last < self.total else ""
        if self.cut:
            return (
                f"[line {self.first} of {self.total} is longer than this and cut here; its next part is the output of "
                f"{self._next_part(path)}{more}]"
            )
        return f"[lines {self.first}-{self.last} of {self.total}{more}]"

    def _next_part(self, path: str) -> str:
        """A command for as many bytes as the cut line has here. An invalid byte is shown as three, so what looks like
        one counts as one: better to repeat some bytes than to miss any."""
        size = len(self.text.encode()) - 2 * self.text.count("\ufffd")
        return f"`sed -n {self.first}p < {quote(path)} | tail -c +{size + 1} | head -c {size}`"


def excerpt(text: str, start: int | None, end: int | None, limit: OutputLimit) -> Excerpt:
    """Whole lines from `start` to `end`, both inclusive and counted from 1, within the limit, but at least one line,
    cut if it alone is too long. Raises `ToolError` for a range without any line of the text."""
    total = count_lines(text)
    first, last = start or 1, min(end or total, total)
    if total == 0:
        return Excerpt("", 0, 0, 0)
    if end is not None and end < first:
        raise ToolError(f"end_line ({end}) comes before start_line ({first}).")
    if first > total:
        raise ToolError(f"start_line is {first}, but the file has only {plural(total, 'line')}.")
    begin = skip_lines(text, 0, first - 1)
    asked = text[begin : skip_lines(text, begin, last - first + 1)]
    shown = limit.lines_of(asked)
    stop = first - 1 + count_lines(shown)
    return Excerpt(shown, first, stop, total, shown != asked and not shown.endswith("\n"))


class ReadFileArguments(Arguments):
    path: WorkspacePath = Field(description="File in the workspace.")
    start_line: int | None = Field(default=None, ge=1, description="From 1.")
    end_line: int | None = Field(default=None, ge=1, description="Inclusive.")


class ReadFile:
    name: ClassVar[str] = "read_file"
    description: ClassVar[str] = (
        "Returns a text file, or the lines start_line to end_line of it, without line numbers. A long file comes in "
        "part, with a note on how to read on. An image is shown."
    )
    parallel_safe: ClassVar[bool] = True
    arguments: type[Arguments] = ReadFileArguments

    def __init__(self, max_chars: int = READ_CHARS) -> None:
        self._max_chars = max_chars
        # A text takes up to ten times its bytes while it is read, so only one is at a time.
        self._turn = asyncio.Lock()

    async def run(self, args: ReadFileArguments, context: ToolContext) -> ToolOutcome:
        """Anything not UTF-8 is shown as U+FFFD, with a note; an image as what it is."""
        data = await read_bytes(await context.sandbox(), args.path)
        if (kind := media_type_of(data)) is not None:
            return await asyncio.to_thread(_image, data, kind, args.path)
        text_bytes(data, args.path)
        async with self._turn:
            part, valid = await asyncio.to_thread(self._read, data, args, context.limit.at_most(self._max_chars))
        context.output.write("stdout", part.text.encode())
        notes = [
            part.note("/".join(resolve(args.path))),
            "" if valid else "[the file is not valid UTF-8; other bytes are shown as U+FFFD]",
        ]
        return ToolOutcome(note="\n".join(filter(None, notes)))

    def _read(self, data: bytes, args: ReadFileArguments, limit: OutputLimit) -> tuple[Excerpt, bool]:
        try:
            text, valid = data.decode(), True
        except UnicodeDecodeError:
            text, valid = data.decode("utf-8", "replace"), False
        # As it will be shown, since U+FFFD counts for more than a NUL.
        text = text.replace("\x00", "\ufffd")
        return excerpt(text, args.start_line, args.end_line, limit), valid


def _image(data: bytes, media_type: str, path: str) -> ToolOutcome:
    """An image as an outcome. Raises `ToolError` for one that is larger than providers take."""
    if len(data) > MAX_IMAGE_BYTES:
        raise ToolError(
            f"{escape_name(path)} is an image of {len(data):,} bytes; at most {MAX_IMAGE_BYTES:,} can be shown. Make a "
            "smaller one with execute_command."
        )
    width, height = image_size(data) or (None, None)
    size = f"{width}×{height} pixels, " if width is not None else ""
    note = f"[{media_type}, {size}{plural(len(data), 'byte')}]"
    return ToolOutcome(note=note, images=(ToolImage(media_type, data, width, height, "/".join(resolve(path))),))


class WriteFileArguments(Arguments):
    path: WorkspacePath = Field(description="File in the workspace.")
    content: CleanText = Field(description="All of it.")


class WriteFile:
    name: ClassVar[str] = "write_file"
    description: ClassVar[str] = "Writes a whole file: creates it, with its directories, or replaces it."
    parallel_safe: ClassVar[bool] = False
    arguments: type[Arguments] = WriteFileArguments

    async def run(self, args: WriteFileArguments, context: ToolContext) -> ToolOutcome:
        sandbox = await context.sandbox()
        existed = await file_exists(sandbox, args.path)
        data = args.content.encode()
        await sandbox.write(args.path, data)
        verb = "Overwrote" if existed else "Created"
        size = f"{plural(len(data), 'byte')}, {plural(count_lines(args.content), 'line')}"
        context.output.write("stdout", f"{verb} {escape_name(args.path)} ({size}).\n".encode())
        return ToolOutcome()


async def file_exists(sandbox: Sandbox, path: str) -> bool:
    """Whether a regular file exists, without reading it. Raises what the sandbox raises for other kinds of entries."""
    try:
        await sandbox.read(path, max_bytes=0)
    except TooLargeError:
        return True
    except NotFoundError:
        return False
    return True


class ListDirectoryArguments(Arguments):
    path: WorkspacePath = Field(default=".", description="Directory in the workspace.")


class ListDirectory:
    name: ClassVar[str] = "list_directory"
    description: ClassVar[str] = (
        "Lists the entries of a directory with their sizes in bytes, hidden ones too. Directories end in /. At most "
        f"{MAX_ENTRIES:,} entries."
    )
    parallel_safe: ClassVar[bool] = True
    arguments: type[Arguments] = ListDirectoryArguments

    async def run(self, args: ListDirectoryArguments, context: ToolContext) -> ToolOutcome:
        sandbox = await context.sandbox()
        entries = await sandbox.list(args.path, limit=MAX_ENTRIES + 1)
        shown = sorted(entries, key=lambda entry: entry.path)[:MAX_ENTRIES]
        context.output.write("stdout", "".join(f"{entry_line(entry)}\n" for entry in shown).encode())
        if not shown:
            return ToolOutcome(note="[the directory is empty]")
        if len(entries) > MAX_ENTRIES:
            return ToolOutcome(note=f"[only the first {MAX_ENTRIES:,} entries; list a subdirectory, or use find]")
        return ToolOutcome()


def entry_line(entry: FileInfo) -> str:
    """Size or kind, then the name up to the end of the line, so that no name can look like another column."""
    name = escape_name(entry.path.rpartition("/")[2])
    match entry.type:
        case "file":
            return f"{entry.size:>13,}  {name}"
        case "directory":
            return f"{'-':>13}  {name}/"
        case "symlink":
            return f"{'link':>13}  {name}"
        case _:
            return f"{'special':>13}  {name}"
