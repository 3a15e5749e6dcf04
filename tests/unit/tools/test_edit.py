from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ToolError
from app.tools.edit import MAX_SNIPPET_LINES, EditFile, replace_once, snippet
from tests.unit.tools.workbench import Workbench

edit = EditFile()
short = st.text("ab\n", max_size=8)


def refusal(content: str, old: str, new: str = "new") -> str:
    with pytest.raises(ToolError) as caught:
        replace_once(content, old, new)
    return caught.value.detail


def occurrences(content: str, text: str) -> int:
    return sum(content.startswith(text, at) for at in range(len(content)))


class TestReplaceOnce:
    @given(st.text(), st.text(min_size=1), st.text(), st.text())
    def test_the_rest_stays(self, before: str, old: str, new: str, after: str) -> None:
        content = before + old + after
        if occurrences(content, old) == 1 and old != new and "\r\n" not in content:
            assert replace_once(content, old, new) == (before + new + after, len(before), len(new))

    @given(short, short, short)
    def test_it_replaces_exactly_when_there_is_one_occurrence(self, content: str, old: str, new: str) -> None:
        if old and old != new and occurrences(content, old) == 1:
            assert replace_once(content, old, new).content == content.replace(old, new)
        else:
            assert refusal(content, old, new)

    def test_replacements_are_not_patterns(self) -> None:
        assert replace_once("a.b (x) \\1", "(x) \\1", "\\g<0>$&").content == "a.b \\g<0>$&"

    def test_overlapping_occurrences_are_ambiguous(self) -> None:
        assert refusal("aaa", "aa").startswith("old_text occurs 2 times, at lines 1, 1.")

    def test_several_occurrences_are_counted_and_placed(self) -> None:
        assert "occurs 3 times, at lines 1, 3, 4." in refusal("x = 1\ny\nx = 1\nx = 1\n", "x = 1")

    def test_very_many_occurrences_are_cut(self) -> None:
        detail = refusal("e\n" * 1_000_000, "e")
        assert "more than 10 times, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10." in detail

    def test_empty_and_equal_texts_are_refused(self) -> None:
        assert "old_text is empty" in refusal("abc", "")
        assert "are the same" in refusal("abc", "abc", "abc")


class TestLineEnds:
    @pytest.mark.parametrize(
        ("content", "old", "new", "changed"),
        [
            ("a\r\nb\r\nc\r\n", "a\nb", "a\nB\nn", "a\r\nB\r\nn\r\nc\r\n"),
            ("a\r\nb\r\nc\r\n", "b\n", "", "a\r\nc\r\n"),
            ("a\r\nb\r\nc\r\n", "\nb\n", "\n\n", "a\r\n\r\nc\r\n"),
            ("a\r\nb\r\nc\r\n", "b", "B\nn", "a\r\nB\r\nn\r\nc\r\n"),
            ("a\r\nb", "b", "B\nn", "a\r\nB\r\nn"),
            ("a\r\nb\r\n", "a\r\nb", "a\nb", "a\nb\r\n"),
            ("a\r\nb\r\n", "a\nb", "a\r\nB", "a\r\nB\r\n"),
            ("a\nb\nc\n", "a\r\nb", "a\r\nB", "a\nB\nc\n"),
            ("a\nb\n", "b", "B\r\nn", "a\nB\r\nn\n"),
            # Mixed ends: an exact match comes first, and lines that stay keep theirs.
            ("a\r\nb\r\na\nb\n", "a\nb", "a\nB\nn", "a\r\nb\r\na\nB\nn\n"),
            ("a\r\nb\nc\r\nd\ne", "a\nb\nc\nd\ne", "a\nb\nX\nY\nd\ne", "a\r\nb\nX\r\nY\r\nd\ne"),
            ("a\nb\r\nc\n", "a\nb\nc", "a\nb\nc\nd", "a\nb\r\nc\nd\n"),
            ("a\nb\r\nc\n", "b\nc", "x\nb\nc", "a\nx\r\nb\r\nc\n"),
            ("a\r\nb\nc\r\n", "c", "C\nD", "a\r\nb\nC\r\nD\r\n"),
            ("a\r\nb\nc\r\n", "b", "B\nD", "a\r\nB\nD\nc\r\n"),
            ("a\r\nb\r\n", "\nb", "", "a\r\n"),
            ("x\ry\r\nz\r\n", "x\ry\nz", "x\ry\nZ", "x\ry\r\nZ\r\n"),
        ],
    )
    def test_a_file_keeps_its_own(self, content: str, old: str, new: str, changed: str) -> None:
        edited = replace_once(content, old, new)
        assert edited.content == changed
        at, end = edited.at, edited.at + edited.length
        assert changed[:at] == content[:at]
        assert content.endswith(changed[end:])

    def test_a_text_that_occurs_twice_with_other_ends_is_ambiguous(self) -> None:
        assert "occurs 2 times, at lines 1, 3." in refusal("a\r\nb\r\na\r\nb\r\n", "a\nb")

    def test_a_change_of_nothing_is_refused(self) -> None:
        assert "are the same" in refusal("a\r\nb\r\n", "a\nb", "a\r\nb")

    @given(st.text(st.sampled_from("ab\n"), max_size=30), st.text(st.sampled_from("ab\n"), min_size=1, max_size=5))
    def test_a_file_of_crlf_is_edited_like_one_of_lf(self, content: str, old: str) -> None:
        try:
            plain = replace_once(content, old, "N\nM").content
        except ToolError:
            assert refusal(content.replace("\n", "\r\n"), old, "N\nM")
        else:
            windows = plain.replace("\n", "\r\n") if "\n" in content else plain
            assert replace_once(content.replace("\n", "\r\n"), old, "N\nM").content == windows


class TestHint:
    def test_other_white_space(self) -> None:
        content = "first\n\n\tdef f(x):\n\t\treturn x\n"
        assert "text at line 3 differs from it only in whitespace" in refusal(content, "    def f(x):\n    return x")
        assert "text at line 3 " in refusal(content, "def f(x):\n\n\n  return x")

    def test_the_most_similar_line(self) -> None:
        content = "import os\n\ndef compute_total(items):\n    return 1\n"
        detail = refusal(content, "def compute_totals(items):")
        assert "The most similar line is 3: 'def compute_total(items):'" in detail

    def test_of_equally_similar_lines_the_first(self) -> None:
        assert "line is 2: 'value = 10'" in refusal("#\nvalue = 10\nvalue = 10\n", "value = 11")

    def test_nothing_similar(self) -> None:
        assert "No line is similar" in refusal("import os\n", "zzzzzzzz")
        assert "No line is similar" in refusal("", "zzzzzzzz")
        assert "No line is similar" in refusal("abc", "\n \n")

    def test_a_large_hostile_file_costs_bounded_time(self) -> None:
        content = "\n".join("ab" * 500 + str(number) for number in range(10_000))
        began = time.perf_counter()
        assert refusal(content, "bx" * 400 + "!")
        assert time.perf_counter() - began < 20


class TestSnippet:
    def test_the_change_with_lines_around_it(self) -> None:
        content = "".join(f"line {number}\n" for number in range(1, 21))
        at = content.index("line 10")
        assert snippet(content, at, len("line 10\nline 11")) == "".join(
            f"{number:>6}  line {number}\n" for number in range(7, 15)
        )

    def test_at_the_ends_and_for_a_deletion(self) -> None:
        assert snippet("a\nb\nc", 0, 1) == "     1  a\n     2  b\n     3  c\n"
        assert snippet("a\r\nb", 4, 0) == "     1  a\n     2  b\n"
        assert snippet("", 0, 0) == ""

    def test_long_changes_and_long_lines_are_cut(self) -> None:
        content = "".join(f"{number}\n" for number in range(200))
        lines = snippet(content, 0, len(content)).splitlines()
        assert len(lines) == MAX_SNIPPET_LINES + 1
        assert lines[20] == "     …  [160 lines]"
        assert snippet("x" * 10_000, 0, 1) == f"     1  {'x' * 200}…\n"


class TestEditFile:
    async def test_changes_one_place_and_shows_it(self, bench: Workbench) -> None:
        (bench.root / "a.py").write_text("def f():\n    return 1\n")
        text, outcome = await bench.run(edit, path="a.py", old_text="return 1", new_text="return 2")
        assert (bench.root / "a.py").read_text() == "def f():\n    return 2\n"
        assert text == "Edited a.py:\n     1  def f():\n     2      return 2\n"
        assert outcome.note == ""

    async def test_every_other_byte_stays(self, bench: Workbench) -> None:
        before, after = b"\xef\xbb\xbfone\r\ntwo \xff\xfe\r\n", b"\r\nlast \xe2\x82 without end"
        (bench.root / "odd").write_bytes(before + b"OLD" + after)
        text, _ = await bench.run(edit, path="odd", old_text="OLD", new_text="neü\r\n")
        assert (bench.root / "odd").read_bytes() == before + "neü\r\n".encode() + after
        assert text.startswith("Edited odd:\n")

    async def test_a_refused_edit_leaves_the_file(self, bench: Workbench) -> None:
        file = bench.root / "a"
        file.write_text("x x")
        stamp = file.stat().st_mtime_ns
        for old, new in [("x", "y"), ("z", "y"), ("", "y"), ("x", "x")]:
            with pytest.raises(ToolError):
                await bench.run(edit, path="a", old_text=old, new_text=new)
        assert (file.read_text(), file.stat().st_mtime_ns) == ("x x", stamp)

    async def test_a_binary_file_is_refused(self, bench: Workbench) -> None:
        (bench.root / "a.bin").write_bytes(b"a\x00b")
        with pytest.raises(ToolError, match="binary"):
            await bench.run(edit, path="a.bin", old_text="a", new_text="c")
