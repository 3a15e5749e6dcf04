"""The telling lines of what a history says: the error in a command's output, its outcome, and the sentences in which an
agent decides or concludes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from app.context.clipping import one_line

LINE_CHARS = 200
"""Characters of a telling line or sentence."""

MATCHED_CHARS = 400
"""Characters of a line or sentence that are matched: the patterns take quadratic time for some texts."""

READ_CHARS = 20_000
"""Characters of an output's end that are searched; errors and outcomes are there."""

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")

_RAISED = re.compile(
    r"^(?:E\s+)?[\w.]*(?:Error|Exception|Warning|Failure|Panic)\b.{0,3}:|^E\s{2,}\S|^\w*panic\w*\b.*:|^fatal: |"
    r"^(?:error|ERROR)(?:\[\w+\])?: |: (?:fatal )?error: | error TS\d+: |^npm (?:ERR!|error) (?!A complete log)\S",
    re.IGNORECASE,
)
"""A line that names an error, as compilers, interpreters and test runners write it."""

_TROUBLE = re.compile(
    r"\berror\b|\bfail(?:ed|s)?\b|not found|no such|cannot|can't|could not|denied|refused|invalid|undefined|unknown"
    r"|unexpected|expected|mismatch|missing|timed? ?out|killed|traceback|assert",
    re.IGNORECASE,
)
_OUTCOME = re.compile(
    r"\b\d+ (?:passed|failed|tests?|examples?|assertions?|specs?|ok)\b|^OK\b|^ok\s|tests? (?:passed|run)|\btotal\b",
    re.IGNORECASE,
)

_NOTE = re.compile(r"^\[.*\]$")
"""A line that the service added to an output."""
_SENTENCE_END = re.compile(r"(?<![ .][A-Z]\.)(?<=[.!?])[\"')*_`]*\s+(?=[A-Z`*\"'(\[\d-])|(?<=[。！？])|\n+")
_DECIDES = re.compile(
    r"\b(?:because|since|so that|therefore|hence|due to|caused?|causes|reason|root|culprit|turns? out|means|shows?"
    r"|found|decided?|decision|chose|choose|choosing|instead|rather than|prefer|will not|won't|do not|don't|must|never"
    r"|always|only|not|no|keep|kept|leave|left|use[sd]?|using|drop|revert\w*|switch\w*|rename\w*|move[sd]?|replace[sd]?"
    r"|stays?|remains?|fix\w*|broken?|fails?|failed|works?|passes|passed|confirm\w*|agreed|assumed?|named?|called"
    r"|set to|is at|port|version|id|expires?|until|after|before)\b",
    re.IGNORECASE,
)
_STRONG = re.compile(
    r"\b(?:because|cause[sd]?|root cause|decided?|decision|instead|rather than|turns? out|never|must|will not|won't"
    r"|reason|due to|therefore|chose|assumed?|revert\w*)\b",
    re.IGNORECASE,
)
_EXACT = re.compile(
    r"`[^`]+`|\"[^\"]+\"|\b[\w./-]*\d[\w./:-]*|\b\w+_\w+|\b[A-Z]{2,}\w*|[\w-]+/[\w./-]+|\b\w+\.\w{1,5}\b"
)
"""What only the exact words tell: code, quotes, numbers, ids, paths."""
_INTENTION = re.compile(
    r"^(?:now |next |first |then )?(?:let me|let's|i'll|i will|i am going to|going to)\b", re.IGNORECASE
)
LEAST_SCORE = 2


class Sentence(NamedTuple):
    """A sentence of the agent's own; the higher the score, the more it tells."""

    text: str
    score: int


def error_line(output: str) -> str:
    """The line that best describes the error: the last one that names an error, else the last one with a word of
    trouble, else the last one with text; empty without any."""
    lines = _lines(output)
    for pattern in (_RAISED, _TROUBLE):
        if found := next((line for line in reversed(lines) if pattern.search(line)), None):
            return one_line(found, LINE_CHARS)
    return one_line(lines[-1], LINE_CHARS) if lines else ""


def outcome_line(output: str) -> str:
    """The line that tells how a command ended: the last one with a count of tests, else the last one with text."""
    lines = _lines(output)
    found = next((line for line in reversed(lines) if _OUTCOME.search(line)), lines[-1] if lines else "")
    return one_line(found, LINE_CHARS)


def _lines(output: str) -> list[str]:
    plain = _ESCAPES.sub("", output[-READ_CHARS:])
    lines = [line.strip()[:MATCHED_CHARS] for line in plain.splitlines() if any(map(str.isalnum, line))]
    return [line for line in lines if not _NOTE.match(line)]


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of an agent's text that decide, conclude or name something exactly, in their order."""
    in_code = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            in_code = not in_code
            continue
        if in_code:
            continue
        for sentence in _SENTENCE_END.split(line):
            told = sentence.strip(" \t-*#>|")[:MATCHED_CHARS]
            if (score := _score(told)) >= LEAST_SCORE:
                yield Sentence(one_line(told, LINE_CHARS), score)


def _score(sentence: str) -> int:
    if len(sentence) < 12:
        return 0
    if not sentence.isascii() and sum(not character.isascii() for character in sentence) > len(sentence) // 3:
        return LEAST_SCORE
    exact = len({match[0] for match in _EXACT.finditer(sentence)})
    score = min(exact, 3) + min(len(_DECIDES.findall(sentence)), 2) + 2 * bool(_STRONG.search(sentence))
    return score - 3 if _INTENTION.match(sentence) else score
