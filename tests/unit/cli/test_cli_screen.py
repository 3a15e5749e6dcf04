"""Text from models, commands and file names cannot control the terminal."""

from __future__ import annotations

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cli.screen import Screen, one_line, visible
from tests.unit.cli.terminal import Terminal


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain\n\ttext ä 漢 😀", "plain\n\ttext ä 漢 😀"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x9b2J", r"\x9b2J"),
        ("over\rwritten", r"over\rwritten"),
        ("dos\r\nline", "dos\nline"),
        ("\x00\x08\x7f", r"\x00\x08\x7f"),
        ("a\u202eb\u2066c", r"a\u202eb\u2066c"),
        ("\ud800", r"\ud800"),
    ],
)
def test_control_characters_are_escaped(text: str, expected: str) -> None:
    assert visible(text) == expected


@given(st.text(alphabet=st.characters(codec=None)))
def test_no_control_character_passes(text: str) -> None:
    left = {c for c in visible(text) if unicodedata.category(c) in ("Cc", "Cs")}
    assert left <= {"\n", "\t"}
    visible(text).encode()


@given(st.text(alphabet=st.characters(exclude_categories=("Cc", "Cs", "Cf"))))
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert visible(text) == text


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_one_line_is_one_short_line(text: str, width: int) -> None:
    short = one_line(text, width)
    assert len(short) <= width
    assert short.splitlines() in ([], [short])


def test_a_screen_knows_whether_a_line_is_open() -> None:
    out = io.StringIO()
    screen = Screen(out, color=False)
    screen.write("open")
    screen.line("next", bold=True)
    screen.fresh()
    screen.write("")
    screen.line("last")
    assert out.getvalue() == "open\nnext\nlast\n"


def test_lines_are_wrapped_between_words_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    out = Terminal()
    screen = Screen(out)
    screen.line("word " * 30 + "x" * 90, indent="  ")
    screen.line("copied " * 20, wrap=False)
    lines = out.getvalue().splitlines()
    assert [len(line) for line in lines[:3]] == [79, 71, 92]
    assert lines[1].startswith("  word")
    assert lines[3] == "copied " * 20


def test_styles_apply_only_with_color() -> None:
    out = io.StringIO()
    Screen(out, color=True).write("a\x1b[2Jb", dim=True)
    assert out.getvalue() == "\x1b[2ma\\x1b[2Jb\x1b[0m"


@pytest.mark.parametrize(
    ("variable", "value", "colored"), [("TERM", "xterm", True), ("TERM", "dumb", False), ("NO_COLOR", "1", False)]
)
def test_color_is_for_terminals_that_allow_it(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, colored: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(variable, value)
    out = Terminal()
    Screen(out).write("x", dim=True)
    assert ("\x1b" in out.getvalue()) is colored


def test_unencodable_characters_are_replaced() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    Screen(out).write("✓ ok\n")
    assert raw.getvalue() == b"? ok\n"
