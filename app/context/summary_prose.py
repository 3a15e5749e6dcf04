"""The prose of a summary: checks whether a model's answer is one, and makes one without a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.context.excerpts import clip_middle, fit_tokens, one_line, plural
from app.context.facts import ended_calls, lived
from app.context.tokens import estimate_text
from app.messages import Message, Role, ToolCallPart, ToolResultPart

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


@dataclass(frozen=True, slots=True)
class ProseFault:
    """Why an answer is no summary: a stable code, and a sentence for the event."""

    code: FaultCode
    detail: str


def check_prose(
    text: str, stop_reason: str | None, had_tool_calls: bool, input_tokens: int, max_tokens: int | None
) -> ProseFault | None:
    """Why a model's answer is no summary of `input_tokens` estimated tokens; None if it is one.

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
    return f"[Noted without a model] {plural(len(answers), 'step')}{calls}."


def _last_action(covered: Sequence[Message]) -> str:
    ended = list(ended_calls(covered))
    return f"Last action: {_action(*ended[-1])}" if ended else ""


def _action(call: ToolCallPart, result: ToolResultPart) -> str:
    code = "" if result.exit_code is None else f", exit code {result.exit_code}"
    return f"{one_line(call.name, 100)} {one_line(call.arguments_text, ACTION_CHARS)} → {result.status}{code}"


def _last_texts(covered: Sequence[Message]) -> list[str]:
    texts = [message.text.strip() for message in lived(covered) if message.role is Role.ASSISTANT]
    return [f"- {clip_middle(text, TEXT_CHARS)}" for text in texts if text][-LAST_TEXTS:]
