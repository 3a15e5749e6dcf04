"""Whether a server has silently dropped part of a prompt, as Ollama does: judged by the tokens it reports.

Within one generation each request contains all of the previous one, so the count grows at least by the fewest tokens
that a tokenizer can make of what was added. The first request is judged by its minimum as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from app.context.prompts import Generation
from app.messages import Message, Part, ReasoningPart, Role, TextPart, ToolCallPart, ToolResultPart, Usage

LEAST_JUDGED = 3_000
"""Estimated tokens of a request below which a low count means nothing: the smallest windows in use have 2,048."""

FALL = 0.05
"""Share by which two counts of one prompt may differ: several servers with different chat templates may share one
name."""

KNOWN_FALL = 0.5
"""The same for a window known from a setting, a list or the server: then a smaller drop more likely has another cause,
such as a gateway's second server with another tokenizer. Ollama drops about half."""

WHOLE_SHARE = 0.45
"""Share of a whole prompt's minimum below which it was truncated. Prose in 16 languages, code, tables and listings have
at least 0.69, measured with the tokenizers `o200k_base` and `cl100k_base`."""

ADDED_SHARE = 0.25
"""The same for what was added since an earlier prompt, which may be a single odd output: this share is left of a line
of two alternating characters."""

_RUN = re.compile(r"(.)\1{3,}", re.DOTALL)
"""Runs of one character, such as blanks and rules: tokenizers make one token of up to a hundred characters."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A request by Palimpsest's own count: raw estimated tokens, and the number of its messages."""

    estimated: int = 0
    messages: int = 0


_UNREPORTED, _NOTHING = Usage(), Sent()


@dataclass(frozen=True, slots=True)
class PromptCounts:
    """The reported counts of one generation's prompts, except truncated ones. `largest` is the report with the largest
    prompt, `last` the newest one, each with what was sent."""

    largest: Usage = _UNREPORTED
    largest_sent: Sent = _NOTHING
    last: Usage = _UNREPORTED
    last_sent: Sent = _NOTHING

    def show_cut(self, usage: Usage, sent: Sent, least: Callable[[int], int], *, known_window: bool) -> bool:
        """Whether the next prompt was truncated: it has exactly the same count as the last one although it has grown,
        or a count too small for what was added to the largest one. `least` gives the minimum tokens of its messages
        from a number on, and of the whole request for 0; it is called only if the estimate does not decide."""
        prompt = usage.prompt_tokens
        if prompt <= 0 or sent.estimated < LEAST_JUDGED:
            return False
        if prompt == self.last.prompt_tokens and sent.estimated > self.last_sent.estimated:
            return True
        counted = (1 - (KNOWN_FALL if known_window else FALL)) * self.largest.prompt_tokens
        share = ADDED_SHARE if counted else WHOLE_SHARE
        if prompt >= counted + share * (sent.estimated - self.largest_sent.estimated):
            return False
        return prompt < counted + share * least(self.largest_sent.messages)

    def known_to_fit(self, usage: Usage) -> int:
        """The most tokens, prompt and answer together, that are known to have fitted: from the prompts that were whole,
        or from what was left of the one that `usage` reports."""
        return max(usage.total_tokens, self.largest.total_tokens)

    def with_report(self, usage: Usage, sent: Sent) -> PromptCounts:
        """The counts with those of a prompt that was not truncated added."""
        if usage.prompt_tokens >= self.largest.prompt_tokens:
            return PromptCounts(usage, sent, usage, sent)
        return PromptCounts(self.largest, self.largest_sent, usage, sent)


class LeastTokens:
    """The minimum tokens of a request whose messages grow in number; each message is read once."""

    def __init__(self, generation: Generation) -> None:
        self._fixed = generation.tools_tokens + _least(generation.system)
        self._sums = [0]

    def since(self, number: int, messages: Sequence[Message]) -> int:
        """Those of the messages from a number on, or of the whole request for 0: see `least_added`."""
        for message in messages[len(self._sums) - 1 :]:
            self._sums.append(self._sums[-1] + least_added((message,)))
        added = self._sums[len(messages)] - self._sums[number]
        return added if number else self._fixed + added


def least_added(messages: Iterable[Message]) -> int:
    """The minimum tokens of these messages: a quarter of a token per character, with a run of the same character
    counted as one. The estimate is no minimum, as it counts every non-ASCII character as a token, and blanks like text:
    `o200k_base` needs a quarter of it for Russian and 0.03 for blanks. Images may cost almost nothing."""
    return sum(_least(text) for text in _texts(messages))


def may_shrink(messages: Iterable[Message], added: Message) -> bool:
    """Whether a provider may count less with this message added: at a message in the user's role, it leaves out earlier
    reasoning, including reasoning that a model's server leaves in the text."""
    if added.role not in (Role.USER, Role.CONTROL):
        return False
    return any(_may_be_left_out(part) for message in messages for part in message.parts)


def _may_be_left_out(part: Part) -> bool:
    return isinstance(part, ReasoningPart) or (isinstance(part, TextPart) and "<think>" in part.text)


def _texts(messages: Iterable[Message]) -> Iterator[str]:
    for message in messages:
        for part in message.parts:
            match part:
                case TextPart():
                    yield part.text
                case ToolCallPart():
                    yield part.arguments_text
                case ToolResultPart():
                    yield part.output


def _least(text: str) -> int:
    return len(_RUN.sub(r"\1", text)) // 4
