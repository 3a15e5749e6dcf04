from __future__ import annotations

import os
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from app.context.tokens import estimate_text
from app.errors import ForbiddenError, InvalidRequestError, NotFoundError, ToolError
from app.sandbox.base import FileInfo
from app.tools.files import (
    MAX_ENTRIES,
    Excerpt,
    ListDirectory,
    ReadFile,
    ReadFileArguments,
    WriteFile,
    entry_line,
    excerpt,
)
from app.tools.output import OutputLimit
from app.tools.shell import ExecuteCommand
from app.tools.text import MAX_FILE_BYTES, escape_name, split_lines
from tests.unit.tools.workbench import Workbench

read, write, listing = ReadFile(), WriteFile(), ListDirectory()

lines_of_any_kind = st.lists(st.text("ab\r\x0c\u2028\x85 "), max_size=20).map("\n".join)


class TestSplitLines:
    @given(lines_of_any_kind)
    def test_lines_join_to_the_text_and_end_at_line_feeds_alone(self, text: str) -> None:
        lines = split_lines(text)
        assert "".join(lines) == text
        assert all(line.endswith("\n") and line.count("\n") == 1 for line in lines[:-1])
        assert len(lines) == text.count("\n") + (not text.endswith("\n") and text != "")


class TestEscapeName:
    @given(st.text(st.characters(codec=None)))
    def test_a_name_is_one_printable_line_that_tells_names_apart(self, name: str) -> None:
        escaped = escape_name(name)
        assert escaped.isprintable()
        literal = "".join(c if c.isascii() else c.encode("unicode_escape").decode() for c in escaped)
        assert literal.encode("ascii").decode("unicode_escape") == name

    @pytest.mark.parametrize(
        ("name", "shown"),
        [
            ("plain é.txt", "plain é.txt"),
            ("a\nb", "a\\nb"),
            ("a\\nb", "a\\\\nb"),
            ("\x1b[31m", "\\x1b[31m"),
            ("x\u202egpj", "x\\u202egpj"),
            ("\udcff", "\\udcff"),
        ],
    )
    def test_examples(self, name: str, shown: str) -> None:
        assert escape_name(name) == shown


def rest_by_command(text: str, part: Excerpt) -> str:
    """What the note's command returns, and the same further on."""
    found = re.search(r"`sed -n (\d+)p < FILE \| tail -c \+(\d+) \| head -c (\d+)`", part.note())
    assert found is not None
    line, start, size = map(int, found.groups())
    assert start == size + 1
    rest = split_lines(text)[line - 1].encode()
    return b"".join(rest[at : at + size] for at in range(start - 1, len(rest), size)).decode()


class TestExcerpt:
    @given(lines_of_any_kind, st.integers(1, 25), st.integers(0, 25), st.integers(1, 60))
    def test_an_excerpt_is_a_slice_of_the_lines(self, text: str, start: int, more: int, limit: int) -> None:
        lines = split_lines(text)
        if not lines or start > len(lines):
            return
        got = excerpt(text, start, start + more, OutputLimit(limit))
        whole = "".join(lines[got.first - 1 : got.last])
        assert got.text == (whole[:limit] if got.cut else whole)
        assert got.cut == (len(lines[start - 1]) > limit)
        assert got.first == start
        assert got.first <= got.last <= min(start + more, len(lines))
        assert len(got.text) <= limit
        stopped_early = got.last < min(start + more, len(lines))
        assert not stopped_early or len(whole) + len(lines[got.last]) > limit

    @given(lines_of_any_kind, st.integers(1, 30), st.integers(1, 30) | st.none())
    def test_continuing_as_the_note_says_gives_the_whole(self, text: str, limit: int, tokens: int | None) -> None:
        got, start = "", 1
        for _ in range(len(text) + 1):
            part = excerpt(text, start, None, OutputLimit(limit, tokens, estimate_text))
            got += part.text + (rest_by_command(text, part) if part.cut else "")
            start = part.last + 1
            if "read on with" not in part.note():
                break
            assert part.note().endswith(f"read on with start_line={start}]")
        assert got == text

    def test_notes(self) -> None:
        text = "1\n2\n3\n"
        assert excerpt(text, None, None, OutputLimit(99)).note() == ""
        assert excerpt(text, 1, 3, OutputLimit(99)).note() == ""
        assert excerpt(text, 1, 99, OutputLimit(99)).note() == ""
        assert excerpt(text, 2, None, OutputLimit(99)).note() == "[lines 2-3 of 3]"
        assert excerpt(text, 1, 2, OutputLimit(99)).note() == "[lines 1-2 of 3; read on with start_line=3]"
        assert excerpt("", None, None, OutputLimit(99)).note() == "[the file is empty]"

    @pytest.mark.parametrize(
        ("start", "end", "said"),
        [
            (4, None, "start_line is 4, but the file has only 3 lines"),
            (3, 2, r"end_line \(2\) comes before start_line \(3\)"),
            (None, 0, r"end_line \(0\) comes before"),
        ],
    )
    def test_ranges_without_lines_are_errors(self, start: int | None, end: int | None, said: str) -> None:
        with pytest.raises(ToolError, match=said):
            excerpt("1\n2\n3", start, end, OutputLimit(99))


class TestReadFile:
    async def test_a_whole_file_is_returned_unchanged(self, bench: Workbench) -> None:
        content = "\ufeffone\r\ntwo\tend without line feed é"
        (bench.root / "a.txt").write_bytes(content.encode())
        text, outcome = await bench.run(read, path="a.txt")
        assert (text, outcome.note) == (content, "")
        assert (await bench.run(read, path="/workspace/a.txt"))[0] == content

    async def test_a_range(self, bench: Workbench) -> None:
        (bench.root / "a.txt").write_text("1\n2\n3\n4\n5\n")
        text, outcome = await bench.run(read, path="a.txt", start_line=2, end_line=3)
        assert (text, outcome.note) == ("2\n3\n", "[lines 2-3 of 5; read on with start_line=4]")

    async def test_a_long_file_stops_at_a_whole_line(self, bench: Workbench) -> None:
        (bench.root / "long.txt").write_text("0123456789\n" * 100)
        text, outcome = await bench.run(ReadFile(max_chars=35), path="long.txt")
        assert text == "0123456789\n" * 3
        assert outcome.note == "[lines 1-3 of 100; read on with start_line=4]"

    async def test_a_call_with_a_lower_limit_gets_what_will_be_shown(self, bench: Workbench) -> None:
        (bench.root / "long.txt").write_text("0123456789\n" * 100)
        bench.limit(OutputLimit(1_000, 9, estimate_text))
        text, outcome = await bench.run(read, path="long.txt", start_line=11)
        assert (text, outcome.note) == ("0123456789\n" * 3, "[lines 11-13 of 100; read on with start_line=14]")

    async def test_the_rest_of_a_long_line_is_a_command_away(self, bench: Workbench) -> None:
        line = "äbc漢" * 50
        (bench.root / "a b.txt").write_text(f"first\n{line}\nlast\n")
        bench.limit(OutputLimit(20))
        text, outcome = await bench.run(read, path="/workspace/a b.txt", start_line=2)
        assert text == line[:20]
        command = re.search("`(.*)`", outcome.note)
        assert command is not None
        assert outcome.note.endswith("; read on with start_line=3]")
        assert (await bench.run(ExecuteCommand(), command=command[1]))[0] == line[20:40]

    async def test_a_long_line_with_invalid_bytes_loses_none(self, bench: Workbench) -> None:
        (bench.root / "latin").write_bytes(b"\xe9a\xe8b" * 50)
        bench.limit(OutputLimit(10))
        _, outcome = await bench.run(read, path="latin")
        assert "tail -c +11 | head -c 10`" in outcome.note

    async def test_an_empty_file_is_reported(self, bench: Workbench) -> None:
        (bench.root / "empty").touch()
        text, outcome = await bench.run(read, path="empty")
        assert (text, outcome.note) == ("", "[the file is empty]")

    async def test_a_binary_file_is_refused_with_its_size(self, bench: Workbench) -> None:
        (bench.root / "a.bin").write_bytes(b"\x7fELF\x00" + b"x" * 1234)
        with pytest.raises(ToolError, match=r"a\.bin is a binary file \(1,239 bytes\)"):
            await bench.run(read, path="a.bin")

    async def test_other_encodings_are_shown_with_replacement_and_a_note(self, bench: Workbench) -> None:
        (bench.root / "latin").write_bytes("gr\xe9\n".encode("latin-1"))
        text, outcome = await bench.run(read, path="latin")
        assert text == "gr\ufffd\n"
        assert "not valid UTF-8" in outcome.note

    async def test_a_huge_file_is_refused_with_an_alternative(self, bench: Workbench) -> None:
        with (bench.root / "huge").open("wb") as file:
            file.truncate(MAX_FILE_BYTES + 1)
        with pytest.raises(ToolError, match=r"more than 10,485,760 bytes.*sed -n"):
            await bench.run(read, path="huge")

    async def test_sandbox_errors_are_passed_on(self, bench: Workbench) -> None:
        (bench.root / "link").symlink_to("/etc/hostname")
        for path, error in [
            ("missing", NotFoundError),
            ("../up", ForbiddenError),
            ("/etc/passwd", ForbiddenError),
            ("link", ForbiddenError),
            (".", InvalidRequestError),
        ]:
            with pytest.raises(error):
                await bench.run(read, path=path)

    @pytest.mark.parametrize("path", ["a\x00b", "a\ud800b", "", "x" * 5000])
    def test_a_path_with_invalid_characters_is_refused(self, path: str) -> None:
        with pytest.raises(ValidationError, match="path"):
            ReadFileArguments.model_validate({"path": path})

    @pytest.mark.parametrize("arguments", [{"start_line": 0}, {"end_line": 0}, {"start_line": -5}, {"limit": 3}])
    def test_arguments_out_of_bounds_are_refused(self, arguments: dict[str, Any]) -> None:
        with pytest.raises(ValidationError):
            ReadFileArguments.model_validate({"path": "a", **arguments})


class TestWriteFile:
    async def test_creates_with_directories_then_overwrites(self, bench: Workbench) -> None:
        text, _ = await bench.run(write, path="src/deep/a.py", content="é = 1\n")
        assert text == "Created src/deep/a.py (7 bytes, 1 line).\n"
        assert (bench.root / "src/deep/a.py").read_bytes() == "é = 1\n".encode()
        text, _ = await bench.run(write, path="src/deep/a.py", content="")
        assert text == "Overwrote src/deep/a.py (0 bytes, 0 lines).\n"
        text, _ = await bench.run(write, path="src/deep/a.py", content="x")
        assert text == "Overwrote src/deep/a.py (1 byte, 1 line).\n"

    async def test_content_is_cleaned_of_what_cannot_be_stored(self, bench: Workbench) -> None:
        await bench.run(write, path="a", content="\x00\ud83d")
        assert (bench.root / "a").read_text() == "\ufffd\ufffd"

    async def test_directories_and_paths_outside_are_not_changed(self, bench: Workbench) -> None:
        (bench.root / "d").mkdir()
        with pytest.raises(InvalidRequestError):
            await bench.run(write, path="d", content="x")
        with pytest.raises(ForbiddenError):
            await bench.run(write, path="../a", content="x")
        assert [entry.name for entry in bench.root.parent.iterdir()] == [bench.root.name]


class TestListDirectory:
    async def test_kinds_sizes_and_order(self, bench: Workbench) -> None:
        (bench.root / "src").mkdir()
        (bench.root / "b.txt").write_bytes(b"x" * 1234)
        (bench.root / ".hidden").touch()
        (bench.root / "link").symlink_to("/etc")
        os.mkfifo(bench.root / "pipe")
        text, outcome = await bench.run(listing)
        assert [tuple(line.split()) for line in text.splitlines()] == [
            ("0", ".hidden"),
            ("1,234", "b.txt"),
            ("link", "link"),
            ("special", "pipe"),
            ("-", "src/"),
        ]
        assert outcome.note == ""

    async def test_a_subdirectory_shows_only_names(self, bench: Workbench) -> None:
        (bench.root / "a/b").mkdir(parents=True)
        (bench.root / "a/b/c").touch()
        text, _ = await bench.run(listing, path="a/b")
        assert text.split() == ["0", "c"]

    async def test_no_name_can_fake_an_entry(self, bench: Workbench) -> None:
        (bench.root / "a\n            1  fake").touch()
        os.close(os.open(os.fsencode(bench.root) + b"/\xff", os.O_CREAT))
        text, _ = await bench.run(listing)
        assert text == "            0  a\\n            1  fake\n            0  \\udcff\n"

    async def test_empty(self, bench: Workbench) -> None:
        text, outcome = await bench.run(listing, path=".")
        assert (text, outcome.note) == ("", "[the directory is empty]")

    async def test_many_entries_are_cut_with_a_note(self, bench: Workbench) -> None:
        for number in range(MAX_ENTRIES + 1):
            (bench.root / f"{number:05}").touch()
        text, outcome = await bench.run(listing)
        assert len(text.splitlines()) == MAX_ENTRIES
        assert outcome.note.startswith("[only the first 1,000 entries")
        (bench.root / "00000").unlink()
        text, outcome = await bench.run(listing)
        assert (len(text.splitlines()), outcome.note) == (MAX_ENTRIES, "")

    async def test_errors_are_passed_on(self, bench: Workbench) -> None:
        (bench.root / "file").touch()
        for path, error in [("file", InvalidRequestError), ("..", ForbiddenError), ("no", NotFoundError)]:
            with pytest.raises(error):
                await bench.run(listing, path=path)

    def test_names_start_in_one_column(self) -> None:
        kinds = [FileInfo("d/x", kind, 10**9, 0) for kind in ("file", "directory", "symlink", "other")]
        assert {entry_line(info).index("x", 15) for info in kinds} == {15}
