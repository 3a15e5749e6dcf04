"""Answers about a conversation without a model: lines found in it by plain text search.

The scripted demo uses it for requests for a summary and for questions. Nothing is understood or known in advance, so
the result depends on what the context still contains.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.messages import Message, Role, ToolCallPart, ToolResultPart

SUMMARY_MARKS = ("about to be replaced by a summary", "<transcript>")
"""Texts in requests for a summary, inside the conversation and separate from it."""

QUESTION = re.compile(r"<question>\n(.*)\n</question>\s*\Z", re.DOTALL)
"""A question about the conversation, in the last message of a request."""

LABEL = "(Found by plain text search, by a scripted demo that understands nothing.)"

LINE_CHARS = 300
SUMMARY_LINES = 8
"""Lines in each section of a summary."""

ANSWER_LINES = 4
MOST_LINES = 50_000

_DELIMITER = re.compile(r"^\s*</?(?:item|transcript|task|notes|previous_summary)\b[^>]*>\s*$")
_WORD = re.compile(r"[^\W_]+(?:[._/-][^\W_]+)*")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_PATH = re.compile(r"(?<![\w/.-])(?:[\w-]+/)*[\w-]+\.[a-z]{1,5}(?![\w/])")
_SECTIONS = (
    ("Decisions", re.compile(r"\b(decide|decision|instead|use |keep|must|never|rather|agreed)", re.IGNORECASE)),
    ("Errors and Resolutions", re.compile(r"\b(error|fail|exception|traceback|denied|not found)", re.IGNORECASE)),
    ("Next Step", re.compile(r"\b(next|then|remaining|todo|still to)\b", re.IGNORECASE)),
)
_PLAIN = frozenset(
    re.findall(
        r"\w+",
        "a about all an and any are as at be been by can did do does for from had has have how i in into is it its last"
        " may name now of on or our out say shall she should so still than that the their them then there these they"
        " this to under up us was we were what when where which while who whom whose why will with work would you your",
    )
)
"""Words that do not identify a question's subject."""


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    place: int
    words: frozenset[str]


def prose_for(messages: Sequence[Message]) -> str | None:
    """The answer if the last message is a control message that asks for a summary or about the conversation, else
    None."""
    if not messages or messages[-1].role is not Role.CONTROL:
        return None
    asked = messages[-1].text
    if match := QUESTION.search(asked):
        return answer(match[1], messages[:-1])
    if "<transcript>" in asked:
        return summary(_part(asked, "transcript").splitlines())
    if any(mark in asked for mark in SUMMARY_MARKS):
        return summary(_spoken(messages[:-1]))
    return None


def _part(text: str, tag: str) -> str:
    return text.partition(f"<{tag}>")[2].rpartition(f"</{tag}>")[0]


def answer(question: str, messages: Sequence[Message]) -> str:
    """The lines that share the most rare words with the question, in their original order."""
    lines = [_Line(text, place, _words(text)) for place, text in enumerate(_shortened(_all_lines(messages)))]
    wanted = _words(question) - _PLAIN
    counts = Counter(word for line in lines for word in line.words & wanted)

    def weight(line: _Line) -> float:
        hits = sum(math.log(1 + len(lines) / counts[word]) for word in line.words & wanted)
        return hits / math.sqrt(8 + len(line.words))

    best = sorted((line for line in lines if line.words & wanted), key=weight, reverse=True)[:ANSWER_LINES]
    if not best:
        return f"unknown {LABEL}"
    return "\n".join([*(line.text for line in sorted(best, key=lambda line: line.place)), LABEL])


def summary(lines: Iterable[str]) -> str:
    """A summary: for each heading the newest lines with one of its words, and the paths that occur."""
    known = list(_shortened(lines))
    paths = list(dict.fromkeys(path for line in known for path in _PATH.findall(line)))
    blocks = [f"### Completed Work\n{LABEL}", "Files named: " + (", ".join(paths[:40]) or "none.")]
    for heading, words in _SECTIONS:
        matching = list(dict.fromkeys(line for line in known if words.search(line)))[-SUMMARY_LINES:]
        blocks.append(f"### {heading}\n" + ("\n".join(f"- {line}" for line in matching) or "None."))
    return "\n\n".join(blocks)


def _words(text: str) -> frozenset[str]:
    """Lowercase words, truncated so that forms of one word match; characters of scripts without spaces are paired."""
    found = {word[:6] if word.isalpha() else word for word in _WORD.findall(text.lower()) if not _CJK.search(word)}
    found |= {part[:6] for word in list(found) for part in re.split(r"[._/-]", word) if len(part) > 2}
    pairs = {a + b for a, b in pairwise(text) if _CJK.match(a) and _CJK.match(b)}
    return frozenset(found | pairs)


def _all_lines(messages: Sequence[Message]) -> Iterable[str]:
    for message in messages:
        yield from message.text.splitlines()
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                yield f"{part.name} {part.arguments_text}"
            elif isinstance(part, ToolResultPart):
                yield from part.output.splitlines()


def _spoken(messages: Sequence[Message]) -> Iterable[str]:
    """Messages' texts, and the ends of tool outputs, where errors usually are."""
    for message in messages:
        yield from message.text.splitlines()
        for result in message.tool_results:
            yield from result.output.splitlines()[-10:]


def _shortened(lines: Iterable[str]) -> Iterable[str]:
    for line in list(lines)[-MOST_LINES:]:
        text = " ".join(line.split())
        if len(text) > 2 and not _DELIMITER.match(line):
            yield text[:LINE_CHARS]
