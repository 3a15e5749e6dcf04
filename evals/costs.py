"""What requests cost with a provider's prompt cache, by estimated tokens."""

from __future__ import annotations

from collections.abc import Iterable

from app.context.tokens import counted_tokens, estimate_text, estimate_tools
from app.llm.base import ModelRequest
from app.messages import Usage, Value


class TokenPrices(Value):
    """US dollars per million tokens; writing to the cache costs what reading without it does."""

    input: float = 3.0
    cached: float = 0.3
    output: float = 15.0

    def dollars(self, usage: Usage) -> float:
        """The price of a usage."""
        millionths = usage.input_tokens * self.input + usage.cache_read_tokens * self.cached
        return (millionths + usage.output_tokens * self.output) / 1_000_000


class CacheMeter:
    """Counts requests like a provider that keeps every prefix that it has read: only what follows the longest known
    one is new."""

    def __init__(self) -> None:
        self.steps = Usage()
        self.summaries = Usage()
        self._known: set[int] = set()

    def call(self, request: ModelRequest, written: int, *, summary: bool = False) -> None:
        """Counts a request whose answer has `written` tokens."""
        total = cached = chain = 0
        for tokens, text in _blocks(request):
            chain = hash((chain, text))
            total += tokens
            if chain in self._known:
                cached = total
            self._known.add(chain)
        usage = Usage(input_tokens=total - cached, cache_read_tokens=cached, output_tokens=written)
        if summary:
            self.summaries = self.summaries + usage
        else:
            self.steps = self.steps + usage

    @property
    def usage(self) -> Usage:
        return self.steps + self.summaries


def _blocks(request: ModelRequest) -> Iterable[tuple[int, object]]:
    """The parts of a request in the order of its prefix, each with its tokens."""
    # Tools come first, and Anthropic's requests mark their end; another plan is another system text.
    yield estimate_tools(request.tools), tuple(tool.name for tool in request.tools)
    yield estimate_text(request.system), request.system
    for message in request.messages:
        # Clearing or clipping a message changes its size.
        tokens = message.tokens or counted_tokens(message)
        yield tokens, (message.id, tokens, message.text)
