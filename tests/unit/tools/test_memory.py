"""The memory tools: one file that is replaced as a whole, others next to it, none of them trusted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.context.tokens import estimate_text
from app.errors import ForbiddenError, InvalidRequestError, PalimpsestError, ToolError
from app.tools import memory
from app.tools.memory import MAX_MEMORY_CHARS, MAX_NOTE_BYTES, MemoryRead, MemorySearch, MemoryWrite, Note, find_lines
from app.tools.output import OutputLimit
from tests.unit.tools.workbench import Workbench


def put(bench: Workbench, **files: str | bytes) -> None:
    """Files of `memory/`, by name without extension; `MEMORY` is MEMORY.md itself."""
    for name, content in files.items():
        path = bench.root / ("MEMORY.md" if name == "MEMORY" else f"memory/{name}.md")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


async def test_what_is_written_is_read(bench: Workbench) -> None:
    assert (await bench.run(MemoryRead()))[1].note == "[there is no MEMORY.md yet; memory_write makes it]"
    for content in ("one\n", "two lines\nand ümlaut", ""):
        said, _ = await bench.run(MemoryWrite(), content=content)
        assert said.startswith("Wrote MEMORY.md (")
        text, outcome = await bench.run(MemoryRead())
        assert (text, outcome.note) == (content, "" if content else "[MEMORY.md is empty]")
    assert (bench.root / "MEMORY.md").read_bytes() == b""


async def test_a_memory_that_is_too_long_is_refused_and_the_old_one_stays(bench: Workbench) -> None:
    await bench.run(MemoryWrite(), content="x" * MAX_MEMORY_CHARS)
    with pytest.raises(ToolError, match=r"50,000 characters, not 50,001: .*memory/<topic>\.md with write_file"):
        await bench.run(MemoryWrite(), content="y" * (MAX_MEMORY_CHARS + 1))
    assert (bench.root / "MEMORY.md").read_text() == "x" * MAX_MEMORY_CHARS


async def test_a_long_memory_is_read_in_parts_and_the_notes_are_listed(bench: Workbench) -> None:
    put(bench, MEMORY="".join(f"line {number}\n" for number in range(100)), b="bb", a="a")
    (bench.root / "memory" / "picture.png").write_bytes(b"no note")
    (bench.root / "memory" / "folder.md").mkdir()
    text, outcome = await bench.run(MemoryRead(200))
    assert text.endswith("line 16\n")
    assert outcome.note.split("\n") == [
        "[lines 1-17 of 100; read on with read_file, start_line=18]",
        "[more notes, for read_file:]",
        "memory/a.md (1 byte)",
        "memory/b.md (2 bytes)",
    ]


async def test_a_call_with_a_low_limit_shows_some_of_each(bench: Workbench) -> None:
    notes = {f"note-{number:03}": "x" for number in range(100)}
    put(bench, MEMORY="".join(f"Zeile {number} 漢\n" for number in range(100)), **notes)
    limit = bench.limit(OutputLimit(1_000, 200, estimate_text))
    text, outcome = await bench.run(MemoryRead())
    first, _, *listed, last = outcome.note.split("\n")
    shown = text.count("\n")
    assert first == f"[lines 1-{shown} of 100; read on with read_file, start_line={shown + 1}]"
    assert shown > 10
    assert len(listed) > 10
    assert last == "[100 notes in all; list_directory shows them]"
    assert limit.fits(text + "\n".join(listed))


@pytest.mark.parametrize(
    ("content", "says"), [(b"a\x00b", "is a binary file"), (b"x" * (MAX_NOTE_BYTES + 1), "too many for a note")]
)
async def test_files_that_are_not_notes_are_refused(bench: Workbench, content: bytes, says: str) -> None:
    put(bench, MEMORY=content)
    with pytest.raises(ToolError, match=says):
        await bench.run(MemoryRead())


async def test_links_to_the_outside_are_not_followed(bench: Workbench) -> None:
    (bench.root.parent / "outside").mkdir()
    (bench.root.parent / "outside" / "secret.md").write_text("secret")
    (bench.root / "MEMORY.md").symlink_to("../outside/secret.md")
    for tool, arguments in ((MemoryRead(), {}), (MemoryWrite(), {"content": "x"})):
        with pytest.raises(ForbiddenError):
            await bench.run(tool, **arguments)
    text, outcome = await bench.run(MemorySearch(), query="secret")
    assert text == ""
    assert "[not searched: MEMORY.md leads outside through a link.]" in outcome.note
    (bench.root / "MEMORY.md").unlink()
    (bench.root / "memory").symlink_to("../outside")
    with pytest.raises(PalimpsestError):
        await bench.run(MemorySearch(), query="secret")
    assert (bench.root.parent / "outside" / "secret.md").read_text() == "secret"


async def test_a_directory_in_place_of_the_memory_is_reported(bench: Workbench) -> None:
    (bench.root / "MEMORY.md").mkdir()
    with pytest.raises(InvalidRequestError):
        await bench.run(MemoryRead())


async def test_a_search_reads_all_readable_notes(bench: Workbench) -> None:
    put(bench, MEMORY="Port 8642\nno\n", a="the PORT of the proxy\r\nport 8642 again\n", b=b"port\x00")
    text, outcome = await bench.run(MemorySearch(), query='"port" 8642')
    assert text == "MEMORY.md:1:Port 8642\nmemory/a.md:2:port 8642 again\nmemory/a.md:1:the PORT of the proxy\n"
    assert outcome.note == "[not searched: memory/b.md is a binary file, not a note.]"


async def test_a_search_reports_that_there_is_nothing(bench: Workbench) -> None:
    assert (await bench.run(MemorySearch(), query="x"))[1].note == "[there are no notes yet; memory_write makes them]"
    put(bench, MEMORY="a\n")
    assert (await bench.run(MemorySearch(), query="x"))[1].note == "[no match]"


async def test_a_search_is_bounded(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    put(bench, MEMORY="hit\n" * 500 + "hit" * 1000)
    text, outcome = await bench.run(MemorySearch(), query="hit")
    assert text.count("\n") == memory.MAX_MATCHES
    assert outcome.note == "[only the first 100 of 501 matching lines; use more words]"
    text, outcome = await bench.run(MemorySearch(), query=" ".join(map(str, range(memory.MAX_WORDS))) + " hit")
    assert (text, outcome.note) == ("", "[no match]\n[only the first 20 words were looked for]")
    put(bench, a="hit\n")
    monkeypatch.setattr(memory, "MAX_SEARCHED_BYTES", 10)
    _, outcome = await bench.run(MemorySearch(), query="hit")
    assert "[not searched: memory/a.md and later notes; there are too many]" in outcome.note


words: Any = st.text(st.sampled_from("abÜ ß1"), max_size=8)


@given(st.lists(words, max_size=8), words)
def test_lines_with_more_of_the_words_come_first(lines: list[str], query: str) -> None:
    found, total = find_lines([Note("MEMORY.md", "\n".join(lines))], query)
    assert total == len(found)
    wanted = {word.casefold() for word in query.split()}

    def hits(line: str) -> int:
        return sum(word in line.casefold() for word in wanted)

    numbers = [int(line.split(":")[1]) for line in found]
    assert sorted(numbers) == [number for number, line in enumerate(lines, 1) if hits(line)]
    counts = [hits(lines[number - 1]) for number in numbers]
    assert counts == sorted(counts, reverse=True)
