"""`recall` and `history_search`: the raw output of any call of the session, and words of its past, however little of it
the model still sees."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO, ClassVar

from pydantic import Field

from app.errors import ConflictError, GoneError, NotFoundError, ToolError
from app.messages import ToolStatus
from app.tools.base import Arguments, Finding, PastOutput, ToolContext, ToolOutcome
from app.tools.files import READ_CHARS
from app.tools.grep import SEARCH_S, Grep, LineRange, compile_pattern, locate, read_range
from app.tools.output import OutputLimit
from app.tools.text import CleanText, plural

MAX_FINDINGS = 8
MAX_SNIPPET_CHARS = 1_200
MAX_CHARS = 1_500
"""Characters that a search returns, note and ids included."""
LEAST_SNIPPET_CHARS = 20
"""A place with less room for its text is left out."""
FOUND = "[best first; recall(call_id) with an id from here returns the whole text]"


class RecallArguments(Arguments):
    call_id: CleanText = Field(
        min_length=1, max_length=100, description="The call or message, as named where it was cleared or clipped."
    )
    start_line: int | None = Field(default=None, ge=1, description="From 1.")
    end_line: int | None = Field(default=None, ge=1, description="Inclusive.")
    grep: CleanText | None = Field(
        default=None,
        min_length=1,
        max_length=1000,
        description="Regular expression; only matching lines, with line numbers.",
    )


@dataclass(frozen=True, slots=True)
class _Answer:
    text: str
    note: str
    status: ToolStatus = ToolStatus.COMPLETED


class Recall:
    name: ClassVar[str] = "recall"
    description: ClassVar[str] = (
        "Returns the full output of an earlier tool call, or text of a message, that was cleared, clipped or "
        "summarized away, instead of running it again. Narrow a long output by grep, lines, or both."
    )
    parallel_safe: ClassVar[bool] = True
    arguments: type[Arguments] = RecallArguments

    def __init__(self, max_chars: int = READ_CHARS) -> None:
        """`max_chars` is the maximum number of characters that one call returns."""
        self._max_chars = max_chars

    async def run(self, args: RecallArguments, context: ToolContext) -> ToolOutcome:
        """Raises `ToolError` for a call without output, with what to do instead."""
        if args.end_line is not None and args.end_line < (args.start_line or 1):
            raise ToolError(f"end_line ({args.end_line}) comes before start_line ({args.start_line}).")
        past = await _past_output(args.call_id, context)
        answer = await asyncio.to_thread(self._answer, past, args, context.limit.at_most(self._max_chars))
        context.output.write("stdout", answer.text.encode())
        images = past.images if (args.start_line, args.end_line, args.grep) == (None, None, None) else ()
        return ToolOutcome(status=answer.status, note=answer.note, images=images)

    def _answer(self, past: PastOutput, args: RecallArguments, limit: OutputLimit) -> _Answer:
        try:
            with io.BytesIO(past.data) if past.path is None else past.path.open("rb") as file:
                size = file.seek(0, io.SEEK_END)
                file.seek(0)
                if size == 0:
                    return _Answer("", f"[the raw output of {past.name} is empty; its result was: {past.shown}]")
                answer = _lines(file, args, limit) if args.grep is None else _grep(file, args, limit)
        except OSError as exc:
            raise _not_stored(args.call_id) from exc
        return _Answer(answer.text, "\n".join(filter(None, [answer.note, _ending(past, size)])), answer.status)


def _lines(file: BinaryIO, args: RecallArguments, limit: OutputLimit) -> _Answer:
    start = args.start_line or 1
    found = read_range(file, start, args.end_line or 2**62, limit)
    if found is None:
        raise _beyond(file, start)
    return _Answer(found.text, _range_note(found))


def _grep(file: BinaryIO, args: RecallArguments, limit: OutputLimit) -> _Answer:
    assert args.grep is not None
    pattern = compile_pattern(args.grep)
    start = args.start_line or 1
    offset, total = locate(file, start)
    if offset is None:
        raise _beyond(file, start)
    file.seek(offset)
    search = Grep(pattern, limit, seconds=SEARCH_S)
    search.run(file, start, args.end_line)
    status = ToolStatus.ERROR if search.timed_out else ToolStatus.COMPLETED
    return _Answer(search.text, _grep_note(search, total), status)


async def _past_output(call_id: str, context: ToolContext) -> PastOutput:
    try:
        return await context.history.output(call_id)
    except ConflictError as exc:
        raise ToolError(f"Call {call_id} has no result yet; recall it in a later step.") from exc
    except GoneError as exc:
        raise ToolError(f"Call {call_id}: {exc.detail} Run the call again if you need it.") from exc
    except NotFoundError as exc:
        if exc.code == "output_not_found":
            raise _not_stored(call_id) from exc
        raise ToolError(
            f"There is no call {call_id} in this session. Take the id from the result's own text, or find the call "
            "with history_search."
        ) from exc


def _not_stored(call_id: str) -> ToolError:
    return ToolError(f"The raw output of call {call_id} is no longer stored; run the call again if you need it.")


def _beyond(file: BinaryIO, start: int) -> ToolError:
    file.seek(0)
    _, total = locate(file, start)
    return ToolError(f"start_line is {start}, but the output has only {plural(total, 'line')}.")


def _range_note(found: LineRange) -> str:
    """What the reader must know to continue reading; empty if the range is complete."""
    if found.cut:
        more = f", read on after it with start_line={found.last + 1}" if found.last < found.total else ""
        return (
            f"[line {found.first} of {found.total} is longer than this and cut here; find places in its rest with grep"
            f"{more}]"
        )
    if (found.first, found.last) == (1, found.total):
        return ""
    more = f"; read on with start_line={found.last + 1}, or use grep" if found.last < found.total else ""
    return f"[lines {found.first}-{found.last} of {found.total}{more}]"


def _grep_note(search: Grep, total: int) -> str:
    if search.timed_out:
        return (
            f"[the search was ended after {SEARCH_S:g} s at line {search.go_on} of {total}; use a simpler pattern, or "
            f"continue with start_line={search.go_on}]"
        )
    if search.go_on is not None:
        return f"[there may be more matches; narrow the pattern, or continue with start_line={search.go_on} of {total}]"
    found = "no match" if not search.matches else f"{search.matches:,} {'match' if search.matches == 1 else 'matches'}"
    return f"[{found}; the output has {plural(total, 'line')}]"


def _ending(past: PastOutput, size: int) -> str:
    """What the raw output alone does not show."""
    notes = []
    if size < past.size:
        notes.append(f"[only the first {size:,} of the call's {past.size:,} bytes are stored]")
    if past.status is not ToolStatus.COMPLETED:
        notes.append(f"[the call ended with the status {past.status}]")
    if past.exit_code:
        notes.append(f"[exit code {past.exit_code}]")
    return "\n".join(notes)


def left_out_hint(call_id: str) -> Callable[[int], str]:
    """Makes the line between head and tail of a clipped output from the number of missing characters."""

    def line(characters: int) -> str:
        return f'[… {characters:,} characters left out here; recall("{call_id}") returns them, by lines or by grep …]'

    return line


class HistorySearchArguments(Arguments):
    query: CleanText = Field(
        min_length=1,
        max_length=500,
        description='Words, or a question; "several words" in quotes stand together. No operators.',
    )


class HistorySearch:
    name: ClassVar[str] = "history_search"
    description: ClassVar[str] = (
        "Searches the whole session, messages and tool calls with their results, for what is no longer in your "
        f"context: an exact instruction, a decision, a file name, an error. At most {MAX_FINDINGS} places, best first."
    )
    parallel_safe: ClassVar[bool] = True
    arguments: type[Arguments] = HistorySearchArguments

    async def run(self, args: HistorySearchArguments, context: ToolContext) -> ToolOutcome:
        findings = await context.history.search(args.query, asked_by=context.call_id, limit=MAX_FINDINGS)
        context.output.write("stdout", render_findings(findings).encode())
        if not findings:
            return ToolOutcome(note="[nothing found; try fewer or other words]")
        return ToolOutcome(note=FOUND)


def render_findings(findings: Sequence[Finding]) -> str:
    """A line for each place: the id that `recall` takes, who said it and when, and a snippet. With the note, they have
    at most `MAX_CHARS` characters; the last snippets are cut for it."""
    text, room = "", MAX_CHARS - len(FOUND)
    for finding in findings:
        place = f"{_place(finding)}: "
        left = room - len(text) - len(place) - len("\n")
        if left < LEAST_SNIPPET_CHARS:
            break
        text += f"{place}{_snippet(finding.snippet, min(left, MAX_SNIPPET_CHARS))}\n"
    return text


def _place(finding: Finding) -> str:
    return f"{finding.call_id or finding.message_id} ({finding.role}, seq {finding.seq})"


def _snippet(text: str, chars: int) -> str:
    """The text on one line, so that it cannot look like another place, in at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= chars else f"{line[: chars - 1]}…"
