"""The screen of a run at a terminal, by values: Markdown while it is written, words at the edge, hostile text, and what
is done and typed below."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.cli.activity import Activity
from app.cli.client import ServerEvent
from app.cli.diffs import MAX_COMPARED_LINES, MAX_SHOWN_LINES, edit_counts, edit_lines
from app.cli.line_editor import MAX_CHARS, LineEditor
from app.cli.live import MAX_LINE_CHARS, LiveScreen, status_line, typed_line
from app.cli.markdown import MAX_BLOCK_CHARS, closed_part, markdown_lines
from app.cli.view import View
from tests.unit.cli.events import AT, USAGE, call, completed, delta, event, idle, output, result
from tests.unit.cli.screen_text import screen_text

HOSTILE = "\x1b[31mred\x1b[2J \x9b2J \x1b]8;;http://x\x07link &#27;[2J &#x202e;abc <b>tag</b> \u202ex \x07"
PIECES = [
    "#",
    " ",
    "\n",
    "|",
    "-",
    "`",
    "```",
    ">",
    "1.",
    "*",
    "[",
    "](",
    ")",
    "<",
    "&lt;",
    "~~",
    "é",
    "漢",
    "\t",
    "\\",
    "\x1b[",
]
COLORS = re.compile(r"\x1b\[[\d;]*m")
WORDS = "alpha beta gamma delta"


class Shown:
    """A live screen of 40 columns and 12 lines."""

    def __init__(self) -> None:
        self.out = io.StringIO()
        self.screen = LiveScreen(self.out, lambda: (40, 12))

    @property
    def text(self) -> str:
        """What is on the screen now."""
        self.screen.redraw()
        return screen_text(self.out.getvalue())


def test_markdown_appears_while_it_is_written_and_stays_rendered() -> None:
    shown = Shown()
    shown.screen.prose("# Title\n\nSome **bo")
    assert shown.text.strip() == "Title\n\nSome **bo"
    shown.screen.prose("ld** text\n\n- one\n- two\n")
    assert shown.text.strip() == "Title\n\nSome bold text\n\n • one\n • two"
    shown.screen.line("· read a.txt", dim=True)
    shown.screen.close()
    assert shown.text == "\nTitle\n\nSome bold text\n\n • one\n • two\n· read a.txt\n"
    assert "\x1b[1mbold\x1b[0m" in shown.out.getvalue()


def test_a_finished_block_is_printed_once() -> None:
    shown = Shown()
    shown.screen.prose("first\n\nsecond\n")
    shown.screen.redraw()
    before = shown.out.tell()
    shown.screen.prose("goes on")
    shown.screen.redraw()
    assert "first" not in shown.out.getvalue()[before:]
    assert shown.text == "\nfirst\n\nsecond\ngoes on"


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ("", 0),
        ("one line", 0),
        ("one\n\ntwo", 0),
        ("one\n\ntwo\n", 5),
        ("```\na\n\nb\n", 0),
        ("```\na\n```\nnext\n", 10),
        ("- a\n\n- b\n", 0),
        ("a\n---\n", 0),
        ("a | b\n--|--\n1 | 2\n", 0),
        ("x" * MAX_BLOCK_CHARS + "\nrest", MAX_BLOCK_CHARS + 1),
    ],
)
def test_a_block_is_finished_when_the_next_one_has_begun(text: str, closed: int) -> None:
    assert closed_part(text) == closed


def test_words_are_not_split_at_the_edge() -> None:
    shown = Shown()
    shown.screen.line(" ".join([WORDS] * 3), dim=True)
    shown.screen.prose(" ".join([WORDS] * 3))
    shown.screen.close()
    lines = shown.text.splitlines()
    assert max(map(len, lines)) <= 39
    assert " ".join(shown.text.split()) == " ".join([WORDS] * 6)


def test_html_and_addresses_are_shown_and_not_dropped() -> None:
    lines = markdown_lines("a List<int>\n\n<div>x</div>\n\n![pic](http://p) [text](http://t)", 60)
    assert COLORS.sub("", "\n".join(lines)) == "a List<int>\n\n<div>x</div>\n\n!pic (http://p) text (http://t)"


def test_lines_of_markdown_end_where_the_model_ended_them() -> None:
    assert markdown_lines("one\ntwo  \n`three`", 40)[:2] == ["one", "two"]


@pytest.mark.parametrize("size", [1, MAX_BLOCK_CHARS])
def test_hostile_text_writes_no_escape_sequence_but_colors(size: int) -> None:
    shown = Shown()
    text = HOSTILE + "x" * size
    view = View(shown.screen)
    for each in (
        delta(text, 0),
        completed(text),
        event("reasoning.completed", 1, message_id="m", part_id="r", text=text, interrupted=False),
        call("1", "execute_command", command=text),
        output("1", 0, text),
        result("1", "execute_command", text, exit_code=0),
        call("2", "edit_file", path=text, old_text=text, new_text=f"{text}\n{text}"),
        result("2", "edit_file", "done"),
        call("3", HOSTILE),
        result("3", HOSTILE, HOSTILE, status="error"),
        idle("failed", error={"code": HOSTILE, "detail": text}),
    ):
        view.show(each)
    activity = Activity()
    activity.take(event("session.running", 1, trigger="message"))
    activity.take(call("4", HOSTILE, command=text))
    shown.screen.footer = lambda width: [
        status_line(activity.line(datetime.now(UTC), width)),
        typed_line(text, text, width),
    ]
    written = shown.text
    assert "\u202e" not in written
    shown.screen.close()
    assert r"\x1b[31mred" in screen_text(shown.out.getvalue())


@settings(max_examples=60)
@given(st.lists(st.sampled_from(PIECES)))
def test_any_markdown_fits_and_never_fails(pieces: list[str]) -> None:
    shown = Shown()
    for piece in pieces:
        shown.screen.prose(piece)
        shown.screen.redraw()
    shown.screen.close()
    screen_text(shown.out.getvalue())


def test_an_unfinished_line_is_below_what_is_finished_until_it_ends() -> None:
    shown = Shown()
    shown.screen.footer = lambda _: [status_line("working")]
    shown.screen.write("one\ntw")
    assert shown.text == "one\ntw\nworking"
    shown.screen.write("o")
    assert shown.text == "one\ntwo\nworking"
    shown.screen.close()
    assert shown.text == "one\ntwo\n"
    before = shown.out.tell()
    shown.screen.redraw()
    assert shown.out.tell() == before, "nothing is written if nothing has changed"


def test_a_line_without_an_end_is_bounded() -> None:
    shown = Shown()
    for _ in range(3):
        shown.screen.write("y" * (MAX_LINE_CHARS - 1))
    assert screen_text(shown.out.getvalue()) == ""
    assert shown.text.count("y") < 3 * MAX_LINE_CHARS
    shown.screen.close()
    assert shown.text.count("y") == 3 * (MAX_LINE_CHARS - 1)


def test_the_open_text_is_not_higher_than_the_screen() -> None:
    shown = Shown()
    shown.screen.footer = lambda _: [status_line("working"), typed_line("> ", "tell it", 39)]
    shown.screen.prose("```\n" + "\n".join(map(str, range(30))))
    lines = shown.text.splitlines()
    assert len(lines) <= 12
    assert lines[-3:] == ["  29", "working", "> tell it"]


def test_a_long_typed_line_shows_its_end() -> None:
    assert typed_line("> ", "漢" * 50 + "end", 20).plain.endswith("漢end")
    assert typed_line("> ", "a\nb", 20).plain == "> a⏎b"


# what is being done

START = datetime.fromisoformat(AT)


def doing(*events: ServerEvent, after_s: float = 12, width: int = 200) -> str:
    """The line after these events, without the spinner."""
    activity = Activity()
    activity.take(event("session.running", 1, trigger="message"))
    for each in events:
        activity.take(each)
    return activity.line(START + timedelta(seconds=after_s), width)[2:]


def queued(message_id: str) -> ServerEvent:
    return event("message.queued", 2, message_id=message_id)


STEP = event("step.finished", 5, usage=USAGE, context={"tokens": 10, "usable": 100}, step=1)


@pytest.mark.parametrize(
    ("events", "line"),
    [
        ((), "starting · 12 s · step 1"),
        ((event("step.started", 2),), "waiting for the model · 12 s · step 1"),
        ((event("step.started", 2), delta("x", 0)), "writing · 12 s · step 1"),
        ((call("1", "read_file", path="a.py"),), "read_file a.py · 12 s · step 1"),
        (
            (call("1", "execute_command", command="a\nb"), call("2", "x")),
            "execute_command a b and 1 more · 12 s · step 1",
        ),
        (
            (call("1", "x"), event("approval.requested", 3, call_id="1")),
            "waiting for your decision: x · 12 s · step 1",
        ),
        ((call("1", "x"), result("1", "x", "")), "waiting for the model · 12 s · step 1"),
        (
            (STEP, event("compaction.started", 6, round=2)),
            "compacting the context, round 2 · 12 s · step 2 · $0.0123 · context 10%",
        ),
        ((event("compaction.started", 6, round=2, background=True),), "starting · 12 s · step 1"),
        (
            (queued("m"), queued("n"), event("message.dequeued", 4, message_id="m")),
            "starting · 12 s · step 1 · 1 queued",
        ),
    ],
)
def test_a_line_tells_what_is_being_done(events: tuple[ServerEvent, ...], line: str) -> None:
    assert doing(*events) == line


def test_the_line_fits_and_ends_with_the_run() -> None:
    line = doing(call("1", "execute_command", command="y" * 300), width=60)
    assert len(line) <= 60
    assert line.endswith("… · 12 s · step 1")
    assert doing(idle()) == ""
    assert doing(after_s=0.4) == "starting · step 1"


# what is typed


def test_a_line_is_edited_and_sent() -> None:
    editor = LineEditor()
    assert editor.feed("hex\x7fllo wide\x17world\x1b[D\x1bOA\x1bx!\r") == ["hello world!"]
    assert editor.feed("gone\x15a\nb\x00\x07") == ["a"]
    assert editor.text == "b"
    assert editor.feed("\x7f\x7f\x7f\x1b") + editor.feed("ok\r\r") == ["ok", ""]


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_a_paste_of_several_lines_is_one_message_in_pieces_of_any_size(size: int) -> None:
    editor, lines = LineEditor(), []
    typed = "see: \x1b[200~one\ntwo\rthree\x1b[201~ ok\r"
    for start in range(0, len(typed), size):
        lines += editor.feed(typed[start : start + size])
    assert lines == ["see: one\ntwo\nthree ok"]


def test_a_typed_line_is_bounded() -> None:
    editor = LineEditor()
    editor.feed("x" * (MAX_CHARS + 5))
    assert len(editor.text) == MAX_CHARS


# edits


def test_an_edit_is_a_diff_with_little_context() -> None:
    old, new = "a\nb\nc\nd\ne", "a\nb\nc\nX\ne"
    assert edit_lines(old, new) == [" b", " c", "-d", "+X", " e"]
    assert edit_counts(old, new) == (1, 1)
    many = "\n".join(map(str, range(100)))
    assert edit_lines("", many)[MAX_SHOWN_LINES:] == [" … 60 more lines"]
    assert edit_counts("x\n" * MAX_COMPARED_LINES, "x\n" * MAX_COMPARED_LINES) == (MAX_COMPARED_LINES,) * 2


def test_an_edit_is_shown_in_color() -> None:
    shown = Shown()
    view = View(shown.screen)
    view.show(call("1", "edit_file", path="a.py", old_text="x = 1", new_text="x = 2"))
    view.show(result("1", "edit_file", "done"))
    shown.screen.close()
    assert shown.text == "· edited a.py (+1 −1)\n  -x = 1\n  +x = 2\n"
    assert "\x1b[31m  -x = 1" in shown.out.getvalue()
    assert "\x1b[32m  +x = 2" in shown.out.getvalue()
