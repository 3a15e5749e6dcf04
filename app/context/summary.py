"""The text of a summary message: composed of computed facts and prose, and the prose extracted again."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import chain, count

from app.context.excerpts import plural

_TAGS = re.compile(r"</?(notes(?:-\d+)?)>")

_HEAD = re.compile(r"## Session Summary \(Compaction Round \d+\)\n\n[^\n<]*<(?P<tag>notes(?:-\d+)?)>")
"""The head of every summary. Its first tag, which no text of a conversation precedes, is the one that encloses the
prose."""

RETRIEVAL = ("history_search", "recall")
"""The tools that return what is no longer in the context."""

_SEARCH, _RECALL = (
    "`history_search(query)` searches all of it",
    "`recall(call_id)` returns the whole output of a call",
)
_GONE = "The messages themselves are not shown any more."
"""Ends a summary if its model has no tool to look messages up; the prose is found by the line that follows it."""


def compose_summary(
    round: int,
    prose: str,
    facts_text: str,
    latest_request: str | None = None,
    *,
    earlier: int = 0,
    tools: Collection[str] = RETRIEVAL,
) -> str:
    """The text of the summary of compaction round `round`, counted from 1.

    `prose` is a model's or a fold's and `facts_text` the computed facts, both inserted unchanged. `latest_request` ends
    the text if that message itself does not stay, as under `handoff`. `earlier` is the number of earlier rounds in
    force, which may be less than the round's number: some fail, and some are reverted. `tools` are those offered to the
    model: only these are named as ways to look up what the summary covers.
    """
    tag = _unused_tag(prose, facts_text, latest_request or "")
    blocks = [
        f"## Session Summary (Compaction Round {round})",
        _introduction(earlier, tag),
        facts_text,
        f"<{tag}>\n{prose}\n</{tag}>",
        _retrieval(tools),
    ]
    if latest_request:
        blocks.append(f"Last request from user was: {latest_request}")
    return "\n\n".join(filter(None, blocks))


def _retrieval(tools: Collection[str]) -> str:
    ways = [text for name, text in zip(RETRIEVAL, (_SEARCH, _RECALL), strict=True) if name in tools]
    return f"Nothing of the conversation is lost: {', and '.join(ways)}." if ways else _GONE


def prose_of(summary_text: str) -> str:
    """The exact prose of a composed summary, so that the next one merges it without the facts around it.

    A text not made by `compose_summary`, as in an imported history, is all prose.
    """
    head = _HEAD.match(summary_text)
    if head is None:
        return summary_text
    tag = head["tag"]
    _, opening, rest = summary_text[head.end() :].partition(f"\n<{tag}>\n")
    prose, closing, _ = rest.rpartition(f"\n</{tag}>\n")
    return prose if opening and closing else summary_text


def _introduction(earlier: int, tag: str) -> str:
    taken_up = f" and incorporates {plural(earlier, 'earlier round')}" if earlier else ""
    return (
        f"This stands for the earlier part of the conversation{taken_up}. Between <{tag}> and </{tag}> are notes on the"
        " work; all else is computed from the history."
    )


def _unused_tag(*texts: str) -> str:
    """A tag that occurs in none of the texts, so that no text can end the prose early or start another."""
    used = set(chain.from_iterable(_TAGS.findall(text) for text in texts))
    return next(tag for tag in chain(["notes"], (f"notes-{number}" for number in count(2))) if tag not in used)
