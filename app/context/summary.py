"""A summary message: its text of computed facts and prose, the check of a model's prose, and prose made without a
model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Literal

from app.context.clipping import clip_middle, fit_tokens, one_line, plural
from app.context.facts import ended_calls, lived
from app.context.tokens import estimate_text
from app.messages import Message, Role, ToolCallPart, ToolResultPart

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
_GONE = "The messages themselves are no longer shown."
"""Ends a summary if its model has no tool to look messages up; the prose is found by the line that follows it."""

FaultCode = Literal[
    "summary_empty",
    "summary_cut_off",
    "summary_refused",
    "summary_called_tool",
    "summary_too_long",
    "summary_incomplete",
]
OVERLONG = 2
"""How many times its cap an answer may have by the estimate, which can be off by half; a server that ignores the cap
writes far more."""
TEXT_CHARS = 1_000
"""Maximum characters of one of the assistant's texts in a fold."""
LAST_TEXTS = 5
ACTION_CHARS = 300
NAMED_TOOLS = 8


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
        blocks.append(f"The user's latest request: {latest_request}")
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
        f"This replaces the earlier part of the conversation{taken_up}. Between <{tag}> and </{tag}> are notes on the"
        " work; everything else is computed from the history."
    )


def _unused_tag(*texts: str) -> str:
    """A tag that occurs in none of the texts, so that no text can end the prose early or start another."""
    used = set(chain.from_iterable(_TAGS.findall(text) for text in texts))
    return next(tag for tag in chain(["notes"], (f"notes-{number}" for number in count(2))) if tag not in used)


@dataclass(frozen=True, slots=True)
class ProseFault:
    """Why an answer is not a summary: a stable code, and a sentence for the event."""

    code: FaultCode
    detail: str


def check_prose(
    text: str, stop_reason: str | None, had_tool_calls: bool, input_tokens: int, max_tokens: int | None
) -> ProseFault | None:
    """Why a model's answer is not a summary of `input_tokens` estimated tokens; None if it is one.

    `stop_reason` is the provider's; `max_tokens` is the requested cap, None without one. An answer that was cut off may
    be requested once more with a larger cap, whatever its text.
    """
    if stop_reason in ("refusal", "content_filter"):
        return ProseFault("summary_refused", f"The model declined to write the summary ({stop_reason}).")
    if had_tool_calls or stop_reason == "tool_calls":
        return ProseFault("summary_called_tool", "The model called a tool instead of writing the summary.")
    if stop_reason == "length":
        cap = "" if max_tokens is None else f" of {max_tokens:,} tokens"
        return ProseFault("summary_cut_off", f"The summary was cut off at its length limit{cap}.")
    if stop_reason not in ("stop", "other"):
        return ProseFault("summary_incomplete", f"The summary was not finished ({stop_reason or 'no reason'}).")
    if not any(character.isalnum() for character in text):
        return ProseFault("summary_empty", "The model's answer has no text.")
    return _length_fault(estimate_text(text), input_tokens, max_tokens)


def _length_fault(tokens: int, input_tokens: int, max_tokens: int | None) -> ProseFault | None:
    if tokens >= input_tokens:
        detail = f"The summary has about {tokens:,} tokens but would replace only {input_tokens:,}."
        return ProseFault("summary_too_long", detail)
    if max_tokens is not None and tokens > OVERLONG * max_tokens:
        return ProseFault("summary_too_long", f"The summary has about {tokens:,} tokens; {max_tokens:,} were allowed.")
    return None


def fold(covered: Sequence[Message], previous: str | None, max_tokens: int) -> str:
    """Prose of at most `max_tokens` estimated tokens, made without a model: always possible, equal for equal messages.

    First the prose of the earlier summary, within half the room; then counts of what the covered messages did, their
    last action and the assistant's last texts, as many as fit.
    """
    earlier = fit_tokens((previous or "").strip(), max_tokens // 2)
    if earlier and not covered:
        return earlier
    blocks = [earlier] if earlier else []
    for addition in (_done(covered), _last_action(covered)):
        blocks = _with(blocks, addition, max_tokens) or blocks
    heading = "The assistant's last texts, oldest first:"
    said: list[str] = []
    for text in reversed(_last_texts(covered)):
        if _with(blocks, "\n".join((heading, text, *said)), max_tokens) is None:
            break
        said.insert(0, text)
    whole = "\n\n".join([*blocks, "\n".join((heading, *said))] if said else blocks)
    return whole or fit_tokens(_done(covered), max_tokens)


def _with(blocks: list[str], addition: str, max_tokens: int) -> list[str] | None:
    extended = [*blocks, addition]
    return extended if addition and estimate_text("\n\n".join(extended)) <= max_tokens else None


def _done(covered: Sequence[Message]) -> str:
    answers = [message for message in lived(covered) if message.role is Role.ASSISTANT]
    used = Counter(call.name for message in answers for call in message.tool_calls)
    named = [f"{one_line(name, 100)} {count:,}" for name, count in used.most_common(NAMED_TOOLS)]
    if others := used.total() - sum(count for _, count in used.most_common(NAMED_TOOLS)):
        named.append(f"others {others:,}")
    calls = f", {plural(used.total(), 'tool call')} ({', '.join(named)})" if named else ""
    return f"[Written without a model] {plural(len(answers), 'step')}{calls}."


def _last_action(covered: Sequence[Message]) -> str:
    ended = list(ended_calls(covered))
    return f"Last action: {_action(*ended[-1])}" if ended else ""


def _action(call: ToolCallPart, result: ToolResultPart) -> str:
    code = "" if result.exit_code is None else f", exit code {result.exit_code}"
    return f"{one_line(call.name, 100)} {one_line(call.arguments_text, ACTION_CHARS)} → {result.status}{code}"


def _last_texts(covered: Sequence[Message]) -> list[str]:
    texts = [message.text.strip() for message in lived(covered) if message.role is Role.ASSISTANT]
    return [f"- {clip_middle(text, TEXT_CHARS)}" for text in texts if text][-LAST_TEXTS:]
