"""`recall` and what it uses: ranges and patterns over outputs of any shape, in bounded time and memory."""

from __future__ import annotations

import asyncio
import io
import re
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.context.tokens import estimate_text
from app.errors import ConflictError, NotFoundError, ToolError
from app.messages import ToolStatus
from app.tools.base import Finding, NoHistory, PastOutput
from app.tools.grep import (
    MAX_LINE_CHARS,
    MAX_MATCHES,
    OVERLAP,
    PIECE,
    SEARCH_S,
    Grep,
    compile_pattern,
    locate,
    pieces,
    read_range,
)
from app.tools.output import OutputLimit
from app.tools.recall import Recall, left_out_hint
from tests.unit.tools.workbench import DirectorySandbox, Workbench

lines = st.lists(
    st.text(st.characters(exclude_characters="\n\x00", exclude_categories=["Cs"]), max_size=20), max_size=30
)


WIDE = ["^a", "b$", r"\bx", r"x\B", "a.*b", r"a\s*b", "[^x]+b", "(a|b)1", "(?i)AB", "(?:ab)+1", "^$", "(?s)a.b", "a|"]
NARROW = [r"\Aa", r"b\z", r"\A\z"]
"""Patterns that mean the same in a line and in a text around it, and patterns that do not."""


class OneOutput:
    """A history of one call."""

    def __init__(self, raw: bytes, path: Path | None = None, **fields: Any) -> None:
        values = {"name": "execute_command", "status": ToolStatus.COMPLETED, "exit_code": 0, "size": len(raw)}
        self._past = PastOutput(**{**values, "shown": "", "data": raw, "path": path, **fields})

    async def output(self, call_id: str) -> PastOutput:
        match call_id:
            case "c1":
                return self._past
            case "open":
                raise ConflictError("open", code="call_open")
            case "gone":
                raise NotFoundError("gone", code="output_not_found")
        return await NoHistory().output(call_id)

    async def search(self, query: str, *, asked_by: str, limit: int) -> list[Finding]:
        return []


def bench_of(tmp_path: Path, raw: bytes, path: Path | None = None, **fields: Any) -> Workbench:
    return Workbench(DirectorySandbox(tmp_path), tmp_path, history=OneOutput(raw, path, **fields))


def found(text: bytes, pattern: str, *, start: int = 1, end: int | None = None, chars: int = 30_000) -> Grep:
    file = io.BytesIO(text)
    offset, _ = locate(file, start)
    assert offset is not None
    file.seek(offset)
    grep = Grep(compile_pattern(pattern), OutputLimit(chars))
    grep.run(file, start, end)
    return grep


class TestLines:
    @given(lines, st.booleans(), st.integers(1, 35))
    def test_a_line_is_located_at_its_beginning(self, texts: list[str], ended: bool, line: int) -> None:
        data = "\n".join(texts).encode() + (b"\n" if ended and texts else b"")
        whole = data.decode().split("\n")
        if whole[-1] == "":
            whole.pop()
        offset, total = locate(io.BytesIO(data), line)
        assert total == len(whole)
        assert (offset is None) == (line > total)
        if offset is not None:
            assert data[offset:].decode() == data.decode().split("\n", line - 1)[-1]

    @given(lines, st.integers(1, 30), st.integers(1, 40))
    def test_a_range_equals_a_slice(self, texts: list[str], start: int, end: int) -> None:
        data = "".join(f"{text}\n" for text in texts).encode()
        got = read_range(io.BytesIO(data), start, max(start, end), OutputLimit(10_000))
        if start > len(texts):
            assert got is None
            return
        assert got is not None
        wanted = texts[start - 1 : max(start, end)]
        assert got.text == "".join(f"{text}\n" for text in wanted)
        assert (got.first, got.last, got.total, got.cut) == (start, start + len(wanted) - 1, len(texts), False)

    @given(st.binary(max_size=300), st.integers(1, 50))
    def test_any_bytes_are_lines_within_the_limit(self, data: bytes, limit: int) -> None:
        got = read_range(io.BytesIO(data), 1, 10**6, OutputLimit(limit))
        if got is None:
            assert not data
            return
        assert len(got.text) <= limit
        assert "\x00" not in got.text
        assert data.decode("utf-8", "replace").replace("\x00", "\ufffd").startswith(got.text)

    def test_a_long_line_comes_in_overlapping_pieces_with_whole_characters(self) -> None:
        text = "aé漢😀" * 30_000
        parts = list(pieces(io.BytesIO(f"{text}\r\nnext".encode())))
        assert "".join(part.text[part.shared :] for part in parts[:-1]) == text
        assert all(part.shared == OVERLAP + 1 for part in parts[1:-1])
        assert [part.first for part in parts] == [True, *[False] * (len(parts) - 2), True]
        assert [part.end for part in parts if part.last] == ["\r\n", ""]
        assert (parts[-1].line, parts[-1].text) == (2, "next")

    def test_a_line_that_is_too_long_is_cut(self) -> None:
        got = read_range(io.BytesIO(b"x" * 200_000 + b"\nshort\n"), 1, 9, OutputLimit(1000))
        assert got is not None
        assert (got.text, got.last, got.total, got.cut) == ("x" * 1000, 1, 2, True)


class TestGrep:
    @given(lines.filter(bool), st.sampled_from(["a", "[0-9]", r"\w+", "^$", "é|ß"]))
    def test_only_lines_that_match_the_pattern_are_shown(self, texts: list[str], pattern: str) -> None:
        texts = [text.removesuffix("\r") for text in texts]
        grep = found("".join(f"{text}\n" for text in texts).encode(), pattern)
        wanted = [number for number, text in enumerate(texts, 1) if re.search(pattern, text, re.ASCII)]
        shown = [int(line.split(":")[0]) for line in grep.text.split("\n") if re.match(r"\d+:", line)]
        assert shown == wanted
        assert grep.matches == len(wanted)

    @given(
        st.lists(st.text(st.sampled_from("abx1 \r"), max_size=12), min_size=1, max_size=6),
        st.sampled_from(WIDE + NARROW),
    )
    def test_searching_blocks_finds_the_same_as_searching_lines(self, texts: list[str], pattern: str) -> None:
        texts = [text.rstrip("\r") for text in texts] * 400
        data = "".join(f"{text}\n" for text in texts).encode()
        by_lines, by_blocks = (Grep(compile_pattern(pattern), OutputLimit(10**6)) for _ in range(2))
        by_lines._block_pattern = None
        for grep in (by_lines, by_blocks):
            grep.run(io.BytesIO(data), 1, None)
        assert by_blocks.text == by_lines.text
        assert by_blocks.go_on == by_lines.go_on

    def test_context_comes_from_blocks_that_were_skipped(self) -> None:
        count = 3000
        text = "".join(f"line {number}\n" for number in range(1, count + 1)).encode()
        for wanted in (1, 2, 1700, 1701, 1702, 1703, count):
            shown = found(text, f"^line {wanted}$").text
            around = range(max(1, wanted - 2), min(count, wanted + 2) + 1)
            assert shown == "".join(f"{n}{':' if n == wanted else '-'}line {n}\n" for n in around)

    def test_matches_have_two_lines_of_context_each_line_once(self) -> None:
        text = "\n".join(f"l{number}" for number in range(1, 21)).encode()
        assert found(text, "l(5|7|15)$").text == (
            "3-l3\n4-l4\n5:l5\n6-l6\n7:l7\n8-l8\n9-l9\n--\n13-l13\n14-l14\n15:l15\n16-l16\n17-l17\n"
        )

    def test_a_needle_in_a_line_of_megabytes_is_shown_with_its_context(self) -> None:
        line = "x" * 3_000_000 + "the needle is here" + "y" * 2_000_000
        grep = found(f"first\n{line}\nlast\n".encode(), "n[e]+dle")
        (match,) = [text for text in grep.text.split("\n") if text.startswith("2:")]
        assert "the needle is here" in match
        assert len(match) < MAX_LINE_CHARS + 10
        assert grep.matches == 1

    @pytest.mark.parametrize("shift", [-30, -6, -3, 0, 3, 6, OVERLAP - 3, OVERLAP])
    def test_a_match_across_two_pieces_is_found_once(self, shift: int) -> None:
        at = PIECE - OVERLAP + shift
        line = "x" * at + "needle" + "x" * PIECE
        assert found(line.encode(), "needle").matches == 1

    def test_anchors_match_the_line_and_not_its_pieces(self) -> None:
        line = b"x" * (3 * PIECE) + b"\nx\n"
        assert found(line, "^x").text.count(":") == 2
        assert found(line, "x$").matches == 2

    def test_many_matches_end_with_the_line_to_continue_from(self) -> None:
        text = b"hit\n" * 500
        grep = found(text, "hit")
        assert (grep.matches, grep.go_on) == (MAX_MATCHES, MAX_MATCHES + 1)
        second = found(text, "hit", start=grep.go_on or 0)
        assert second.text.startswith(f"{MAX_MATCHES + 1}:hit\n")

    @given(st.integers(10, 400), st.integers(1, 60))
    def test_the_result_stays_within_its_limit_and_continues_without_gaps(self, chars: int, count: int) -> None:
        text = "".join(f"hit {number}\n" for number in range(1, count + 1)).encode()
        seen: list[int] = []
        start: int | None = 1
        while start is not None and start <= count:
            grep = found(text, "hit", start=start, chars=chars)
            assert len(grep.text) <= chars
            seen += [int(line.split(":")[0]) for line in grep.text.splitlines()]
            if not grep.matches:
                return  # there is no room for a single line
            start = grep.go_on
        assert seen == list(range(1, count + 1))

    def test_it_stays_within_the_requested_lines(self) -> None:
        grep = found(b"hit\n" * 10, "hit", start=4, end=6)
        assert grep.text == "4:hit\n5:hit\n6:hit\n"

    @pytest.mark.parametrize("pattern", ["(", "[", "a{2,1}", "(?P<x>a)(?P<>b)", "*", "(" * 1_001, "\ud800"])
    def test_an_invalid_pattern_is_reported(self, pattern: str) -> None:
        with pytest.raises(ToolError, match="not a regular expression that can be used"):
            compile_pattern(pattern)

    @given(st.text(max_size=30))
    def test_any_text_is_a_pattern_or_a_tool_error(self, pattern: str) -> None:
        try:
            compile_pattern(pattern)
        except ToolError as refused:
            refused.detail.encode()


class TestRecall:
    async def test_a_short_output_has_no_note(self, tmp_path: Path) -> None:
        assert await bench_of(tmp_path, "a\nü\n".encode()).run(Recall(), call_id="c1") == ("a\nü\n", _outcome(""))

    async def test_a_long_output_comes_in_part_with_how_to_continue(self, tmp_path: Path) -> None:
        raw = b"".join(b"line %d\n" % number for number in range(1, 1001))
        text, outcome = await bench_of(tmp_path, raw).run(Recall(100), call_id="c1")
        assert text.endswith("line 13\n")
        assert outcome.note == "[lines 1-13 of 1000; read on with start_line=14, or use grep]"
        text, outcome = await bench_of(tmp_path, raw).run(Recall(100), call_id="c1", start_line=999)
        assert (text, outcome.note) == ("line 999\nline 1000\n", "[lines 999-1000 of 1000]")

    async def test_a_call_with_a_lower_limit_can_be_read_to_its_end(self, tmp_path: Path) -> None:
        raw = "".join(f"Zeile {number}: 漢字\n" for number in range(1, 201)).encode()
        bench = bench_of(tmp_path, raw)
        limit = bench.limit(OutputLimit(1_000, 50, estimate_text))
        got, start = "", 1
        while True:
            text, outcome = await bench.run(Recall(), call_id="c1", start_line=start)
            got += text
            assert limit.fits(text)
            more = re.search(r"read on with start_line=(\d+)", outcome.note)
            if more is None:
                break
            start = int(more[1])
        assert got.encode() == raw

    async def test_reading_on_skips_a_line_that_is_cut(self, tmp_path: Path) -> None:
        bench = bench_of(tmp_path, b"x" * 500 + b"\nshort\n")
        bench.limit(OutputLimit(100))
        text, outcome = await bench.run(Recall(), call_id="c1")
        assert (text, outcome.note) == (
            "x" * 100,
            "[line 1 of 2 is longer than this and cut here; find places in its rest with grep, "
            "read on after it with start_line=2]",
        )

    @pytest.mark.parametrize("tokens", [1, 30, 200])
    async def test_a_search_with_a_lower_limit_finds_everything_when_continued(
        self, tmp_path: Path, tokens: int
    ) -> None:
        raw = "".join(f"Zeile {number}: {'漢字' * (number % 7)}\n" for number in range(1, 201)).encode()
        bench = bench_of(tmp_path, raw)
        limit = bench.limit(OutputLimit(1_000, tokens, estimate_text))
        found: set[int] = set()
        start: int | None = 1
        while start is not None:
            text, outcome = await bench.run(Recall(), call_id="c1", grep="7:", start_line=start)
            assert limit.fits(text)
            found |= {int(number) for number in re.findall(r"^(\d+)", text, re.MULTILINE)}
            more = re.search(r"continue with start_line=(\d+)", outcome.note)
            assert more is None or int(more[1]) > start
            start = int(more[1]) if more else None
        assert found >= set(range(7, 201, 10))

    async def test_a_range_and_a_pattern_together(self, tmp_path: Path) -> None:
        raw = b"".join(b"line %d\n" % number for number in range(1, 101))
        bench = bench_of(tmp_path, raw)
        text, outcome = await bench.run(Recall(), call_id="c1", grep="9$", start_line=50, end_line=60)
        assert text == "57-line 57\n58-line 58\n59:line 59\n60-line 60\n"
        assert outcome.note == "[1 match; the output has 100 lines]"
        text, outcome = await bench.run(Recall(), call_id="c1", grep="nothing")
        assert (text, outcome.note) == ("", "[no match; the output has 100 lines]")

    async def test_the_note_says_how_the_call_ended(self, tmp_path: Path) -> None:
        bench = bench_of(tmp_path, b"out\n", exit_code=3, size=10, status=ToolStatus.CANCELLED)
        _, outcome = await bench.run(Recall(), call_id="c1")
        assert outcome.note.split("\n") == [
            "[only the first 4 of the call's 10 bytes are stored]",
            "[the call ended with the status cancelled]",
            "[exit code 3]",
        ]

    async def test_a_call_that_printed_nothing_shows_its_result(self, tmp_path: Path) -> None:
        _, outcome = await bench_of(tmp_path, b"", shown="Error: no such file").run(Recall(), call_id="c1")
        assert outcome.note == "[the raw output of execute_command is empty; its result was: Error: no such file]"

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            ({"call_id": "nope"}, "history_search"),
            ({"call_id": "open"}, "later step"),
            ({"call_id": "gone"}, "run the call again"),
            ({"call_id": "c1", "start_line": 3}, "only 2 lines"),
            ({"call_id": "c1", "start_line": 3, "grep": "x"}, "only 2 lines"),
            ({"call_id": "c1", "start_line": 2, "end_line": 1}, "comes before"),
            ({"call_id": "c1", "grep": "("}, "not a regular expression"),
        ],
    )
    async def test_errors_say_what_to_do(self, tmp_path: Path, arguments: dict[str, Any], says: str) -> None:
        with pytest.raises(ToolError, match=re.escape(says)):
            await bench_of(tmp_path, b"a\nb\n").run(Recall(), **arguments)

    async def test_an_output_whose_file_vanished_is_gone(self, tmp_path: Path) -> None:
        with pytest.raises(ToolError, match="no longer stored"):
            await bench_of(tmp_path, b"", tmp_path / "no-such-file").run(Recall(), call_id="c1")

    async def test_a_needle_in_megabytes_costs_little_memory(self, tmp_path: Path) -> None:
        path = tmp_path / "output"
        with path.open("wb") as file:
            for number in range(40_000):
                file.write(b"%d: nothing to see in this line of the log%s\n" % (number, b"." * 100))
                if number == 30_000:
                    file.write(b"ERROR the needle\n")
        size = path.stat().st_size
        bench = bench_of(tmp_path, b"", path, size=size)
        tracemalloc.start()
        try:
            text, outcome = await bench.run(Recall(), call_id="c1", grep="ERROR.*needle")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert "30002:ERROR the needle\n" in text
        assert outcome.note == "[1 match; the output has 40,001 lines]"
        assert peak < size / 2

    async def test_a_hostile_pattern_ends_in_time_and_blocks_nothing(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        assert SEARCH_S <= 2
        # A part of it: no search of this pattern ends on its own.
        seconds = 0.5
        monkeypatch.setattr("app.tools.recall.SEARCH_S", seconds)
        bench = bench_of(tmp_path, b"x" * 8_000_000)
        began, turns = time.monotonic(), 0
        call = asyncio.create_task(bench.run(Recall(), call_id="c1", grep=r"((\w{0,50}){0,20})-"))
        while not call.done():
            await asyncio.wait([call], timeout=0.01)
            turns += 1
        _, outcome = await call
        assert outcome.status is ToolStatus.ERROR
        assert f"ended after {seconds:g} s at line 1 of 1" in outcome.note
        assert time.monotonic() - began < 20, "half a second of CPU time, even on a busy machine"
        assert turns >= 10, "the loop kept running"


def _outcome(note: str) -> Any:
    from app.tools.base import ToolOutcome

    return ToolOutcome(note=note)


def test_the_line_in_a_clipped_output_names_the_call() -> None:
    assert (
        left_out_hint("c9")(12_345)
        == '[… 12,345 characters left out here; recall("c9") returns them, by lines or by grep …]'
    )
