"""In a window of a few pages, a long text is read to its end by following its own notes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tests.behavior.checks import assert_sound
from tests.behavior.conftest import StartServer
from tests.behavior.harness import OPENAI, Client, command
from tests.behavior.long_task import asks_for_summary
from tests.behavior.rounds import SMALL, WINDOW
from tests.behavior.test_recall import outputs
from tests.provider import FakeProvider, RecordedRequest, Reply, Text, ToolCall

NARROW = "; ".join(f"entry {number} of the log" for number in range(3))
WIDE = "漢字かな交じり文の一行"
LINES = 400


def text_of(line: str) -> str:
    """A text larger than the window, with one distinct line in the middle."""
    lines = [f"{number} {'the needle' if number == LINES // 2 else line}\n" for number in range(1, LINES + 1)]
    return "".join(lines)


def printing(line: str) -> str:
    """A command that prints the text."""
    each = f'if [ $i -eq {LINES // 2} ]; then echo "$i the needle"; else echo "$i {line}"; fi'
    return f"i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); {each}; done"


@dataclass
class Reader:
    """Reads page after page, each together with `beside` other calls, until no note says how to continue."""

    beside: int
    page: Callable[[RecordedRequest, dict[str, int]], ToolCall]
    opening: tuple[ToolCall, ...] = ()
    asked: list[int] = field(default_factory=list)

    def __call__(self, request: RecordedRequest) -> Reply:
        if asks_for_summary(request):
            return Reply(Text("Reading page by page."))
        if self.opening:
            calls, self.opening = self.opening, ()
            return Reply(*calls)
        start = 1
        if self.asked:
            notes = [re.search(r"read on with start_line=(\d+)", text) for text in request.tool_results.values()]
            start = max((int(note[1]) for note in notes if note), default=0)
            if start <= self.asked[-1]:
                return Reply(Text("All is read."))
        self.asked.append(start)
        others = [ToolCall("read_file", {"path": "small.txt"}) for _ in range(self.beside)]
        return Reply(*others, self.page(request, {"start_line": start}))


def pages(found: list[str]) -> str:
    return "".join(re.sub(r"\[lines \d+-\d+ of \d+[^\]]*\]$", "", page) for page in found)


@pytest.mark.parametrize(("line", "beside"), [(NARROW, 0), (WIDE, 0), (WIDE, 3)])
async def test_a_file_is_read_by_its_own_notes(
    start_server: StartServer, provider: FakeProvider, line: str, beside: int
) -> None:
    text = text_of(line)
    reader = Reader(
        beside,
        lambda _, lines: ToolCall("read_file", {"path": "long.txt", **lines}),
        (
            ToolCall("write_file", {"path": "small.txt", "content": "short\n"}),
            command(f"{printing(line)} > long.txt"),
        ),
    )
    provider.configure(window=WINDOW)
    provider.respond(reader)
    async with Client(start_server(models=SMALL).url) as client:
        session, events = await client.run("read it", model=OPENAI, limits={"max_steps": None})
        assert (session["outcome"], provider.script_errors) == ("completed", [])
        read = [part for part in outputs(events, "read_file") if part["output"] != "short\n"]
        assert not any(part["truncated"] for part in read)
        assert len(read) == len(reader.asked) > 3
        assert pages([part["output"] for part in read]) == text
        await assert_sound(client, session["id"])
    assert provider.refusals == []


async def test_an_output_is_recalled_by_its_own_notes(start_server: StartServer, provider: FakeProvider) -> None:
    text = text_of(WIDE)
    known: list[str] = []

    def page(request: RecordedRequest, lines: dict[str, int]) -> ToolCall:
        known.extend(list(request.tool_results)[: not known])
        return ToolCall("recall", {"call_id": known[0], **lines})

    reader = Reader(0, page, (command(printing(WIDE)),))
    provider.configure(window=WINDOW)
    provider.respond(reader)
    async with Client(start_server(models=SMALL).url) as client:
        session, events = await client.run("read it", model=OPENAI, limits={"max_steps": None})
        assert (session["outcome"], provider.script_errors) == ("completed", [])
        (flood,) = outputs(events, "execute_command")
        assert flood["truncated"]
        assert "the needle" not in flood["output"]
        read = outputs(events, "recall")
        assert not any(part["truncated"] for part in read)
        assert pages([re.sub(r", or use grep\]$", "]", part["output"]) for part in read]) == text
    assert provider.refusals == []
