"""Untrusted patterns cost time linear in the text, and bounded memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

from app.tools.text import MAX_CHARS, Pattern, PatternError

EXPLODING = "(?:(?:(?:(?:a?){50}){50}){50}){50}"
"""Took the package `regex` 10 seconds and 4.5 GB to compile."""

HOSTILE = [
    EXPLODING,
    "((?:(?:(?:a|bc){40}|d){40}|e){40}|f){40}",
    "((((a{1,9}){1,9}){1,9}){1,9}){1,9}",
    r"(\pL|\pN){1000}",
    "(?:(?:a{0,10}){0,10}){0,10}b",
    r"((\w{0,50}){0,20})x",
    "(a|aa)+$",
    "(a?){500}a{500}",
    "((a*)*)*b",
    "(x+x+)+y",
]


SEARCHES = """
import os, sys
from resource import RLIMIT_AS, RLIMIT_CPU, setrlimit
from app.tools.text import Pattern, PatternError

def search(text):
    setrlimit(RLIMIT_AS, (1 << 30, 1 << 30))
    setrlimit(RLIMIT_CPU, (10, 10))
    try:
        pattern = Pattern(text)
    except PatternError:
        return
    for letter in "ax":
        pattern.search(letter * 16384)

for text in sys.argv[1:]:
    if os.fork() == 0:
        search(text)
        sys.exit()
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""
"""Searches for each pattern in its own process, which dies if it uses too much memory or CPU time."""


@pytest.fixture(scope="module")
def codes() -> dict[str, str]:
    """The exit code of the process of each hostile pattern."""
    done = subprocess.run([sys.executable, "-c", SEARCHES, *HOSTILE], check=True, stdout=subprocess.PIPE, text=True)
    return dict(zip(HOSTILE, done.stdout.split(), strict=True))


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.slow
def test_a_hostile_pattern_is_refused_or_searched_within_bounds(codes: dict[str, str], text: str) -> None:
    assert codes[text] == "0"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(", "missing ): ("),
        ("a(?=b)", "lookaround, backreferences and atomic groups are not supported"),
        (r"(a)\1", "lookaround, backreferences and atomic groups are not supported"),
        ("a++", "lookaround, backreferences and atomic groups are not supported"),
        ("(?R)", "lookaround, backreferences and atomic groups are not supported"),
        ("(a{1,90}){1,90}", "use fewer or smaller repetitions"),
        (r"\pL{1000}", "use fewer or smaller repetitions"),
        ("a" * (MAX_CHARS + 1), "it has 2,001 characters; at most 2,000 are allowed"),
        ("\ud800", "not valid Unicode"),
    ],
)
def test_the_reason_says_what_to_change(text: str, reason: str) -> None:
    with pytest.raises(PatternError) as caught:
        Pattern(text)
    assert reason in str(caught.value)


def test_a_match_has_its_position_in_the_text() -> None:
    assert Pattern("é+").search("漢éé!") == (1, 3)
    assert Pattern("a").search("aba", 1) == (2, 3)
    assert Pattern("(?i)x$").search("abX") == (2, 3)
    assert Pattern("b").search("aaa") is None


def test_over_lines_a_match_stays_in_its_line() -> None:
    wide = Pattern("^a[^x]*b$").over_lines()
    assert wide is not None
    assert wide.search("a\nb\n") is None
    assert wide.search("c\nacb\n") == (2, 5)
    assert Pattern(r"\Aa").over_lines() is None
