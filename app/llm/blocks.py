"""Numbers the blocks of one response and collects its stream events; shared by the adapters."""

from __future__ import annotations

from typing import Any

from app.errors import ProviderError
from app.llm.base import BlockEnd, ReasoningDelta, StreamEvent, TextDelta, ToolArgumentsDelta, ToolCallStart

MAX_BLOCKS = 1_000
"""Maximum blocks of one response: ten times what any model asks for at once. Calls that did not start are closed one by
one when their run is cancelled, a thousand of them in a third of a second."""

_DELTAS = (TextDelta, ReasoningDelta, ToolArgumentsDelta)


class Blocks:
    """Block numbers in order of first appearance, and the events that are ready to be sent.

    Deltas of one block that came in one network chunk are merged into one event: under load the network delivers
    several at once, and each event costs more than its bytes.
    """

    def __init__(self) -> None:
        self._events: list[StreamEvent] = []
        self._open: set[int] = set()
        self._count = 0

    def take(self) -> list[StreamEvent]:
        """The events since the last call, merged."""
        events, self._events = self._events, []
        return events if len(events) < 2 else _merged(events)

    def begin(self) -> int:
        """Opens a block and returns its number. Raises `ProviderError` if there are too many."""
        check_blocks(self._count)
        number = self._count
        self._count += 1
        self._open.add(number)
        return number

    def begin_call(self, name: str) -> int:
        number = self.begin()
        self._events.append(ToolCallStart(number, name))
        return number

    def text(self, block: int, text: str) -> None:
        self._events.append(TextDelta(block, _clean(text)))

    def reasoning(self, block: int, text: str) -> None:
        self._events.append(ReasoningDelta(block, _clean(text)))

    def arguments(self, block: int, text: str) -> None:
        self._events.append(ToolArgumentsDelta(block, _clean(text)))

    def end(self, block: int, provider_data: dict[str, Any] | None = None) -> None:
        """Closes a block; does nothing if it is closed."""
        if block in self._open:
            self._open.discard(block)
            self._events.append(BlockEnd(block, provider_data))

    def end_all(self) -> None:
        for block in sorted(self._open):
            self.end(block)

    def add(self, event: StreamEvent) -> None:
        """Adds an event that belongs to no block."""
        self._events.append(event)


def check_blocks(count: int) -> None:
    """Raises `ProviderError` if a response with `count` blocks cannot have another."""
    if count >= MAX_BLOCKS:
        raise ProviderError(f"The answer has more than {MAX_BLOCKS:,} parts.", code="provider_bad_response")


def _clean(text: str) -> str:
    """Removes NUL, which cannot be stored. The JSON decoder has already refused lone surrogates."""
    return text.replace("\x00", "\ufffd") if "\x00" in text else text


def _merged(events: list[StreamEvent]) -> list[StreamEvent]:
    merged: list[StreamEvent] = []
    pieces: list[str] = []
    for event, following in zip(events, [*events[1:], None], strict=True):
        if not isinstance(event, _DELTAS):
            merged.append(event)
            continue
        pieces.append(event.text)
        if type(following) is not type(event) or following.block != event.block:
            merged.append(type(event)(event.block, "".join(pieces)) if len(pieces) > 1 else event)
            pieces.clear()
    return merged
