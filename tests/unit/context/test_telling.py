"""The lines that tell most of an output, and the sentences that tell most of what an agent wrote."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.context.telling import LINE_CHARS, error_line, outcome_line, sentences

PYTEST = """\
=================================== FAILURES ===================================
    def test_total():
>       assert total([1, 2]) == 4
E       assert 3 == 4
E        +  where 3 = total([1, 2])

tests/test_cart.py:7: AssertionError
=========================== short test summary info ============================
FAILED tests/test_cart.py::test_total - assert 3 == 4
1 failed, 11 passed in 0.05s
"""
TRACEBACK = """\
Traceback (most recent call last):
  File "a.py", line 1, in <module>
    {}["x"]
KeyError: 'x'
"""


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (TRACEBACK, "KeyError: 'x'"),
        (f"{TRACEBACK}\n[exit code 1]", "KeyError: 'x'"),
        ("src/main.rs\nerror[E0308]: mismatched types\n --> src/main.rs:4:5\n", "error[E0308]: mismatched types"),
        ("main.c:3:1: error: expected ';'\nmake: *** [all] Error 1", "main.c:3:1: error: expected ';'"),
        ("fatal: not a git repository", "fatal: not a git repository"),
        ("a.ts(3,1): error TS2304: Cannot find name 'x'.", "a.ts(3,1): error TS2304: Cannot find name 'x'."),
        ("\x1b[31mError: \x1b[0m port 80 in use\nat x.js:3", "Error:  port 80 in use"),
        ("/bin/sh: 1: gatectl: not found\n", "/bin/sh: 1: gatectl: not found"),
        ("one\ntwo\n---\n", "two"),
        ("", ""),
        ("---\n", ""),
    ],
)
def test_the_error_in_an_output(output: str, line: str) -> None:
    assert error_line(output) == line


def test_an_assertion_of_a_test_runner_is_the_error() -> None:
    assert "3" in error_line(PYTEST)


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("12 passed in 0.31s\n", "12 passed in 0.31s"),
        ("Tests:  3 passed, 3 total\nRan all test suites.\n", "Tests:  3 passed, 3 total"),
        ("ok  \tgithub.com/a/b\t0.01s\n", "ok  \tgithub.com/a/b\t0.01s".replace("\t", "\\t")),
        ("compiling\ndone\n", "done"),
        ("", ""),
    ],
)
def test_the_outcome_of_a_command(output: str, line: str) -> None:
    assert outcome_line(output) == line


def told(text: str) -> list[str]:
    return [sentence.text for sentence in sentences(text)]


@pytest.mark.parametrize(
    "text",
    [
        "The cause is a stale cache in `loader.py`.",
        "We keep SQLite, because the users have no server.",
        "Decision: the port is 8443.",
        "ticket OPS-4711 was closed on 2026-03-02",
        "テストが通りました。原因はタイムゾーンの設定です。",
    ],
)
def test_sentences_that_tell_something(text: str) -> None:
    assert told(text)


@pytest.mark.parametrize("text", ["I will look at the file.", "Let me run the tests.", "Now the readme.", "Done!", ""])
def test_sentences_that_tell_nothing(text: str) -> None:
    assert told(text) == []


def test_code_is_no_sentence_and_initials_end_none() -> None:
    assert told("It was J. Okafor who opened gate 4 at 02:42:22.\n```\nx = 1  # never use port 80\n```\n") == [
        "It was J. Okafor who opened gate 4 at 02:42:22."
    ]


def test_reasons_and_exact_words_score_higher() -> None:
    plain, reason = sentences("The test passes now, all 3. We use `a.py` instead of b.py because of port 80.")
    assert reason.score > plain.score


@given(st.text(alphabet=st.characters() | st.sampled_from('\n.`" 漢'), max_size=400))
def test_any_text_has_short_single_lines(text: str) -> None:
    lines = [error_line(text), outcome_line(text), *told(text)]
    assert all(len(line) <= LINE_CHARS + 1 and "\n" not in line for line in lines)


@pytest.mark.parametrize(
    "text", ["error " * 20_000, "a." * 50_000, "`" * 100_000, "a_" * 50_000, "x/" * 50_000, '"' * 99_999]
)
def test_hostile_texts_are_read_quickly(text: str) -> None:
    begun = time.process_time()
    error_line(text), outcome_line(text), told(text)
    assert time.process_time() - begun < 2
