"""The text of a summary message: computed facts and prose in one, and the prose found again."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import chain, count

from app.context.excerpts import plural

_TAGS = re.compile(r"</?(notes(?:-\d+)?)>")

_HEAD = re.compile(r"## Session Summary \(Compaction Round \d+\)\n\n[^\n<]*<(?P<tag>notes(?:-\d+)?)>")
"""The head that every summary begins with. Its first tag, which nothing of a conversation precedes, is the one that the
prose stands between."""

RETRIEVAL = ("history_search", "recall")
"""The tools that bring back what is no longer in the context."""

_SEARCH, _RECALL = (
    "`history_search(query)` searches all of it",
    "`recall(call_id)` returns the whole output of a call",
)
_GONE = "The messages themselves are not shown any more."
"""What ends a summary whose model has no tool to look them up with; the prose is found by the line that follows it."""


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

    `prose` is a model's or a fold's and `facts_text` the computed facts, both put in as they are. `latest_request` ends
    the text where that message itself does not stay, as under `handoff`. `earlier` is how many rounds in force went
    before, which may be fewer than the number says: some come to nothing, and some are reverted. `tools` are those that
    the model is offered: only these are named as ways to what the summary stands for.
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
    """The prose of a composed summary, to the letter, so that the next one merges it and not the facts around it.

    A text that `compose_summary` did not make, as an imported history may have, is all prose.
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
    """A tag that occurs in none of the texts, so that no text can end the prose early or begin another."""
    used = set(chain.from_iterable(_TAGS.findall(text) for text in texts))
    return next(tag for tag in chain(["notes"], (f"notes-{number}" for number in count(2))) if tag not in used)
