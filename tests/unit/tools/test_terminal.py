"""What a model sees of a command's output: the screen that is left of it."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sandbox.base import Stream
from app.tools.terminal import LINE_CHARS, TerminalText, folded


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("plain\n  text\twith é😀\n", "plain\n  text\twith é😀\n"),
        ("no end", "no end"),
        ("blanks at the end  \n", "blanks at the end  \n"),
        ("a\r\nb\r\n\r\nc\r\r\n", "a\nb\n\nc\n"),
        ("a\tb\r\n", "a\tb\n"),
        ("10%\r50%\r100%\n", "100%\n"),
        ("abcdef\rxy", "xycdef"),
        ("abcdef\r", "abcdef"),
        ("working\r       \rok\n", "ok\n"),
        ("one\ntwo\rTWO\nthree", "one\nTWO\nthree"),
        ("a\tbcd\rxyz", "xyz     bcd"),
        ("abcdefghij\r\tX", "abcdefghXj"),
        ("abc\b\b\bxyz", "xyz"),
        ("b\bbo\bol\bld", "bold"),
        ("\b\ba", "a"),
        ("50%\b\b\b51%\b\b\b52%", "52%"),
        ("abc\b \b\n", "ab\n"),
        ("\x1b[1;32mgreen\x1b[0m \x1b[38:2::1:2:3mrgb\x1b[m", "green rgb"),
        ("a long line\r\x1b[Kshort", "short"),
        ("a long line\x1b[2K\rshort", "short"),
        ("abcdef\x1b[3D\x1b[K!", "abc!"),
        ("abcdef\x1b[2D\x1b[1K", "     f"),
        ("ab\x1b[6Gc", "ab   c"),
        ("name\x1b[4Cvalue", "name    value"),
        ("abc\x1b[2DX", "aXc"),
        ("a\x1b[2J\x1b[1;1H\x1b[?25l\x1b[>4;2m\x1b[ qb", "ab"),
        ("a\x1b]0;title\x07b\x1b]2;title\x1b\\c", "abc"),
        ("\x1b]8;id=1;https://a.b/c\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\x1bP1$r0m\x1b\\b\x1b_app\x1b\\c\x1b^pm\x1b\\d\x1bXsos\x1b\\e", "abcde"),
        ("a\x1b(B\x1b)0\x1b%Gb\x1b=\x1b>\x1b7\x1b8\x1bc", "ab"),
        ("a\x9b31mb\x9d0;title\x9cc\x90q\x9cd", "abcd"),
        ("a\x1b", "a"),
        ("a\x1b[3", "a"),
        ("a\x1b]0;tit", "a"),
        ("a\x1b]0;title\nb", "a\nb"),
        ("a\x1b]0;title\x1b[1mb", "ab"),
        ("a\x1b[3\x1b[1mb", "ab"),
        ("a\x07\x0e\x0f\x05\x11\x18\x7f\x80b", "ab"),
        ("a\x0bb\x0cc\x85d", "a\nb\nc\nd"),
        ("a\x1b[99999999999999999999Cb", "ab"),
        ("a\x1b[1000000Cb", "a" + " " * 199 + "b"),
        ("x" * (LINE_CHARS + 5) + "\rab", "x" * LINE_CHARS + "abxxx"),
    ],
)
def test_what_a_terminal_shows(written: str, shown: str) -> None:
    assert folded(written) == shown


@given(st.text("ab\n\r\b\t \x1b[](P0;3mKCDG\\\x07\x9b\x9d\x9c\x18", max_size=60), st.integers(1, 7))
def test_any_pieces_give_the_same(text: str, size: int) -> None:
    shown: list[str] = []
    terminal = TerminalText(shown.append)
    for at in range(0, len(text), size):
        terminal.feed("stdout", text[at : at + size])
    terminal.close()
    assert "".join(shown) == folded(text)


def test_a_sequence_is_not_cut_by_the_other_stream() -> None:
    shown: list[str] = []
    terminal = TerminalText(shown.append)
    sent: list[tuple[Stream, str]] = [("stdout", "a\x1b[3"), ("stderr", "1m"), ("stdout", "2mb"), ("stderr", "c")]
    for stream, text in sent:
        terminal.feed(stream, text)
    terminal.close()
    assert "".join(shown) == "a1mbc"


HOSTILE = ["\ra", "\ba", "\x1b]", "\x1b]0", "\x1b[", "\x1b[2000Ga\b", "\x9d", "\x1b", "\x1b[K", "\r\ta", "\x1b[9", "a"]


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_output_takes_linear_time_and_bounded_memory(unit: str) -> None:
    """A second is many times what it takes; quadratic time would need minutes."""
    piece, size = unit * (65_536 // len(unit)), 0

    def count(text: str) -> None:
        nonlocal size
        size += len(text)

    terminal = TerminalText(count)
    terminal.feed("stdout", piece)
    tracemalloc.start()
    began = time.thread_time()
    try:
        for _ in range(4):
            terminal.feed("stdout", piece)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert time.thread_time() - began < 5
    assert peak < 2_000_000
