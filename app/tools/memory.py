"""The agent's own records, out of reach of compaction: its plan, and notes as files of the workspace."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import nlargest
from operator import itemgetter
from typing import ClassVar, Literal

from pydantic import Field

from app.errors import InvalidRequestError, NotFoundError, PalimpsestError, TooLargeError, ToolError
from app.sandbox.base import FileInfo, Sandbox
from app.sessions import PlanItem
from app.tools.base import Arguments, ToolContext, ToolOutcome
from app.tools.files import READ_CHARS, excerpt
from app.tools.output import OutputLimit
from app.tools.text import CleanText, clip_line, count_lines, escape_name, lines_of, looks_binary, plural

MEMORY_FILE = "MEMORY.md"
MEMORY_DIRECTORY = "memory"
MAX_MEMORY_CHARS = 50_000
"""Maximum characters of `MEMORY.md`. It is part of every prompt, with at most a tenth of the context; this is a tenth
of a window of 128,000 tokens."""
MAX_NOTE_BYTES = 1024 * 1024
"""Largest memory file that is read; a larger one is not a note."""
MAX_NOTES = 200
"""Maximum files of `memory/` that are listed and searched, in order of their names."""
MAX_SEARCHED_BYTES = 10 * 1024 * 1024
"""Maximum bytes of notes that one search reads."""
MAX_MATCHES = 100
MAX_WORDS = 20
"""Maximum words of a query; each is looked for in every line."""
MAX_LINE_CHARS = 500

MAX_ITEMS = 50
MAX_ITEM_CHARS = 500
_MARKS = {"pending": " ", "in_progress": ">", "completed": "x"}


@dataclass(frozen=True, slots=True)
class Note:
    path: str
    text: str


class MemoryReadArguments(Arguments):
    pass


class MemoryRead:
    name: ClassVar[str] = "memory_read"
    description: ClassVar[str] = (
        f"Returns {MEMORY_FILE} as it is now and lists the notes in {MEMORY_DIRECTORY}/. Use it before memory_write, "
        "or when the copy in your prompt may be out of date."
    )
    parallel_safe: ClassVar[bool] = True
    arguments: type[Arguments] = MemoryReadArguments

    def __init__(self, max_chars: int = READ_CHARS) -> None:
        self._max_chars = max_chars

    async def run(self, args: MemoryReadArguments, context: ToolContext) -> ToolOutcome:
        sandbox = await context.sandbox()
        text = await read_note(sandbox, MEMORY_FILE)
        limit = context.limit.at_most(self._max_chars)
        listing = _listing(await note_files(sandbox), limit.half())
        notes = []
        if text is None:
            notes.append(f"[there is no {MEMORY_FILE} yet; memory_write makes it]")
        else:
            part = await asyncio.to_thread(excerpt, text, None, None, limit.less(listing))
            context.output.write("stdout", part.text.encode())
            if part.cut:
                notes.append("[line 1 is longer than this and cut here; read on with read_file]")
            elif part.last < part.total:
                notes.append(
                    f"[lines 1-{part.last} of {part.total}; read on with read_file, start_line={part.last + 1}]"
                )
            elif not text:
                notes.append(f"[{MEMORY_FILE} is empty]")
        return ToolOutcome(note="\n".join(filter(None, [*notes, listing])))


class MemoryWriteArguments(Arguments):
    content: CleanText = Field(description="All of it.")


class MemoryWrite:
    name: ClassVar[str] = "memory_write"
    description: ClassVar[str] = (
        f"Replaces {MEMORY_FILE}, the notes in your prompt that outlive the context: decisions and their reasons, how "
        "to build and test, what the user wants, dead ends. Give everything that should stay, and keep it short; long "
        f"notes go to {MEMORY_DIRECTORY}/<topic>.md."
    )
    parallel_safe: ClassVar[bool] = False
    arguments: type[Arguments] = MemoryWriteArguments

    async def run(self, args: MemoryWriteArguments, context: ToolContext) -> ToolOutcome:
        if len(args.content) > MAX_MEMORY_CHARS:
            raise ToolError(
                f"{MEMORY_FILE} may have {MAX_MEMORY_CHARS:,} characters, not {len(args.content):,}: keep what "
                f"matters, and move the rest to {MEMORY_DIRECTORY}/<topic>.md with write_file."
            )
        data = args.content.encode()
        await (await context.sandbox()).write(MEMORY_FILE, data)
        size = f"{plural(len(data), 'byte')}, {plural(count_lines(args.content), 'line')}"
        context.output.write("stdout", f"Wrote {MEMORY_FILE} ({size}).\n".encode())
        return ToolOutcome()


class MemorySearchArguments(Arguments):
    query: CleanText = Field(min_length=1, max_length=500, description="Words, in any case.")


class MemorySearch:
    name: ClassVar[str] = "memory_search"
    description: ClassVar[str] = (
        f"Searches {MEMORY_FILE} and {MEMORY_DIRECTORY}/*.md for words and returns path:line:text."
    )
    parallel_safe: ClassVar[bool] = True
    arguments: type[Arguments] = MemorySearchArguments

    async def run(self, args: MemorySearchArguments, context: ToolContext) -> ToolOutcome:
        sandbox = await context.sandbox()
        notes, unread = await _all_notes(sandbox)
        lines, total = await asyncio.to_thread(find_lines, notes, args.query)
        context.output.write("stdout", "".join(f"{line}\n" for line in lines).encode())
        said = []
        if not notes:
            said.append("[there are no notes yet; memory_write makes them]")
        elif not lines:
            said.append("[no match]")
        elif total > len(lines):
            said.append(f"[only the first {len(lines)} of {total:,} matching lines; use more words]")
        if len(words_of(args.query)) > MAX_WORDS:
            said.append(f"[only the first {MAX_WORDS} words were looked for]")
        return ToolOutcome(note="\n".join([*said, *unread]))


async def read_note(sandbox: Sandbox, path: str) -> str | None:
    """A note's text, None if the file does not exist; anything not UTF-8 becomes U+FFFD. Raises `ToolError` for a
    binary file and for one above `MAX_NOTE_BYTES`, and what the sandbox raises for a link or a directory."""
    try:
        data = await sandbox.read(path, max_bytes=MAX_NOTE_BYTES)
    except NotFoundError:
        return None
    except TooLargeError as exc:
        raise ToolError(f"{escape_name(path)} has more than {MAX_NOTE_BYTES:,} bytes, too many for a note.") from exc
    if looks_binary(data):
        raise ToolError(f"{escape_name(path)} is a binary file, not a note.")
    return data.decode("utf-8", "replace").replace("\x00", "\ufffd")


async def note_files(sandbox: Sandbox) -> list[FileInfo]:
    """The regular files `memory/*.md`, by name."""
    try:
        # Other entries count too, since the listing cannot be filtered.
        entries = await sandbox.list(MEMORY_DIRECTORY, limit=5 * MAX_NOTES)
    except (NotFoundError, InvalidRequestError):
        return []
    return [entry for entry in entries if entry.type == "file" and entry.path.endswith(".md")][:MAX_NOTES]


def words_of(query: str) -> list[str]:
    """The words of a query, without duplicates, casefolded."""
    return list(dict.fromkeys(word.casefold() for word in re.findall(r"[^\s\"]+", query)))


def find_lines(notes: list[Note], query: str) -> tuple[list[str], int]:
    """`path:line:text` of the lines with the most words of a query, at most `MAX_MATCHES` of them, and how many lines
    have any. Words after the first `MAX_WORDS` are ignored."""
    words = words_of(query)[:MAX_WORDS]
    total = 0

    def matches() -> Iterator[tuple[int, str, int, str]]:
        nonlocal total
        for note in notes:
            for number, line in enumerate(lines_of(note.text), 1):
                folded = line.casefold()
                if hits := sum(word in folded for word in words):
                    total += 1
                    yield hits, note.path, number, line

    best = nlargest(MAX_MATCHES, matches(), key=itemgetter(0))
    shown = ((path, number, clip_line(line.rstrip("\r"), MAX_LINE_CHARS)) for _, path, number, line in best)
    return [f"{escape_name(path)}:{number}:{line}" for path, number, line in shown], total


async def _all_notes(sandbox: Sandbox) -> tuple[list[Note], list[str]]:
    """All readable notes, and a remark for each unreadable one."""
    notes: list[Note] = []
    unread: list[str] = []
    size = 0
    for path in [MEMORY_FILE, *(entry.path for entry in await note_files(sandbox))]:
        if size > MAX_SEARCHED_BYTES:
            return notes, [*unread, f"[not searched: {escape_name(path)} and later notes; there are too many]"]
        try:
            text = await read_note(sandbox, path)
        except PalimpsestError as error:
            unread.append(f"[not searched: {error.detail}]")
        else:
            notes += [] if text is None else [Note(path, text)]
            size += len(text or "")
    return notes, unread


def _listing(files: list[FileInfo], limit: OutputLimit) -> str:
    """The notes with their sizes, as many as fit the limit: what follows an output is never clipped."""
    if not files:
        return ""
    lines = "".join(f"{escape_name(file.path)} ({plural(file.size, 'byte')})\n" for file in files)
    whole = f"[more notes, for read_file:]\n{lines}"
    shown = limit.lines_of(whole)
    more = "" if shown == whole else f"[{plural(len(files), 'note')} in all; list_directory shows them]"
    return f"{shown}{more}".rstrip("\n")


def render_plan(items: Iterable[PlanItem]) -> str:
    """The plan as a checklist, one line per item: `[ ]` pending, `[>]` in progress, `[x]` completed."""
    return "\n".join(f"[{_MARKS[item.status]}] {' '.join(item.text.split())}" for item in items)


class PlanEntry(Arguments):
    text: CleanText = Field(min_length=1, max_length=MAX_ITEM_CHARS)
    status: Literal["pending", "in_progress", "completed"] = "pending"


class UpdatePlanArguments(Arguments):
    items: tuple[PlanEntry, ...] = Field(max_length=MAX_ITEMS, description="The whole plan.")


class UpdatePlan:
    name: ClassVar[str] = "update_plan"
    description: ClassVar[str] = (
        "Replaces your plan, a checklist. Give all items each time, one of them in progress; mark items completed as "
        "soon as they are."
    )
    parallel_safe: ClassVar[bool] = False
    arguments: type[Arguments] = UpdatePlanArguments

    async def run(self, args: UpdatePlanArguments, context: ToolContext) -> ToolOutcome:
        items = tuple(PlanItem(text=entry.text, status=entry.status) for entry in args.items)
        await context.set_plan(items)
        context.output.write("stdout", render_plan(items).encode())
        return ToolOutcome(note="" if items else "[the plan is empty]")
