"""Folds a model's stream into the parts of one assistant message, each recorded once complete; ends a stream that
repeats itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from app.agent.changes import PartClosed
from app.agent.protocols import LivePart, Sink
from app.context.tokens import estimate_part, estimate_text
from app.errors import ProviderError
from app.llm.base import (
    BlockEnd,
    Finish,
    InputTransformed,
    ReasoningDelta,
    StopReason,
    StreamEvent,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallStart,
    UsageReport,
)
from app.messages import ReasoningPart, TextPart, ToolCallPart, Usage, clean_text, new_id, utf8_length

MAX_NAME_CHARS = 200
"""Maximum characters of a tool's name that are kept; Palimpsest's own are less than a tenth of that."""
MAX_ANSWER_BYTES = 4_000_000
"""Maximum UTF-8 bytes of one answer: several times the largest output limit of any model, so only a malfunctioning
provider reaches it. It keeps one stream from filling the server's memory."""
DEGENERATE = "degenerate_output"
"""The code of an answer that was cut off because it repeated itself."""
ClosedPart = TextPart | ReasoningPart | ToolCallPart

LONGEST_UNIT = 80
"""Characters of the longest repeated unit that is detected: a line. Models that fail this way repeat a token, a word or
a sentence."""
LOOP_CHARS = 8_000
"""How many consecutive characters must be repetitions of one unit: a hundred identical lines. Rules under headings,
table borders, indentation and ASCII art have runs of a few hundred; a table row or a line of code differs from the
next one somewhere."""
_EVERY = 1_000
"""Characters after which a stream is checked again."""


class RepetitionCheck:
    """Checks a text as it grows. The work per character is bounded: `LONGEST_UNIT` comparisons of the newest
    `LOOP_CHARS` characters for every thousand that arrive, nearly all of which end at the first character."""

    def __init__(self) -> None:
        self._tail = ""
        self._fresh: list[str] = []
        self._new = 0

    def grows(self, text: str) -> bool:
        """Takes more of the text; returns whether its newest characters are all one short unit repeated."""
        self._fresh.append(text)
        self._new += len(text)
        if self._new < _EVERY:
            return False
        tail = self._tail = (self._tail + "".join(self._fresh))[-LOOP_CHARS:]
        self._fresh.clear()
        self._new = 0
        return len(tail) == LOOP_CHARS and any(tail.startswith(tail[unit:]) for unit in range(1, LONGEST_UNIT + 1))


@dataclass(slots=True)
class _Block:
    """A part that is being written."""

    live: LivePart
    pieces: list[str] = field(default_factory=list)
    repetition: RepetitionCheck = field(default_factory=RepetitionCheck)

    def close(self, *, interrupted: bool, provider_data: dict[str, Any] | None = None) -> ClosedPart:
        part = self._part("".join(self.pieces), interrupted, provider_data)
        return part.model_copy(update={"tokens": estimate_part(part)})

    def _part(self, text: str, interrupted: bool, provider_data: dict[str, Any] | None) -> ClosedPart:
        live = self.live
        if live.type == "text":
            phase = (provider_data or {}).get("phase")
            return TextPart(id=live.part_id, index=live.index, text=text, interrupted=interrupted, phase=phase)
        if live.type == "reasoning":
            return ReasoningPart(
                id=live.part_id, index=live.index, text=text, interrupted=interrupted, provider_data=provider_data
            )
        assert live.call_id is not None
        assert live.name is not None
        return ToolCallPart(
            id=live.part_id,
            index=live.index,
            call_id=live.call_id,
            name=live.name,
            arguments_text=text,
            provider_data=provider_data,
        )


class StreamProcessor:
    """One attempt's stream. Feed it every event, then `close` it; `parts` are the closed parts, in order of closing."""

    def __init__(self, sink: Sink, message_id: str, is_late: Callable[[str], bool] = lambda _: False) -> None:
        """Calls of the tools that are late stay open until `take_late`: a client acts on them as soon as it sees
        them."""
        self._is_late = is_late
        self._late: list[ToolCallPart] = []
        self._sink = sink
        self._message_id = message_id
        self._open: dict[int, _Block] = {}
        self._count = 0
        self._bytes = 0
        self.parts: list[ClosedPart] = []
        self.usage: Usage | None = None
        self.stop_reason: StopReason | None = None
        self.input_transformations: tuple[dict[str, Any], ...] = ()

    def feed(self, event: StreamEvent) -> None:
        """Takes the next event of the stream without waiting. Raises `ProviderError` for an answer that is endless or
        repeats itself."""
        match event:
            case TextDelta(block, text):
                self._write(block, "text", text)
            case ReasoningDelta(block, text):
                self._write(block, "reasoning", text)
            case ToolArgumentsDelta(block, text):
                self._write(block, "tool_call", text)
            case ToolCallStart(block, name):
                self._begin(block, "tool_call", name=clean_text(name)[:MAX_NAME_CHARS])
            case BlockEnd(block, provider_data):
                self._end(block, provider_data)
            case UsageReport(usage):
                # Some servers send the field without counting.
                self.usage = usage if usage.total_tokens else self.usage
            case InputTransformed(transformations):
                self.input_transformations = transformations
            case Finish(reason):
                self.stop_reason = reason

    def _begin(self, number: int, kind: Literal["text", "reasoning", "tool_call"], name: str | None = None) -> _Block:
        call_id = new_id() if kind == "tool_call" else None
        live = LivePart(kind, self._message_id, new_id(), self._count, call_id, name)
        block = self._open[number] = _Block(live)
        self._count += 1
        return block

    def _write(self, number: int, kind: Literal["text", "reasoning", "tool_call"], text: str) -> None:
        if not text:
            return
        block = self._open.get(number)
        if block is None:
            if kind == "tool_call":
                return
            block = self._begin(number, kind)
        text = clean_text(text)
        self._bytes += utf8_length(text)
        if self._bytes > MAX_ANSWER_BYTES:
            raise ProviderError(f"The answer is larger than {MAX_ANSWER_BYTES:,} bytes.", code="provider_bad_response")
        block.pieces.append(text)
        self._sink.live(block.live, text)
        # Not in arguments: a file may well be this regular.
        if kind != "tool_call" and block.repetition.grows(text):
            raise ProviderError("The model repeats itself endlessly.", code=DEGENERATE)

    def _end(self, number: int, provider_data: dict[str, Any] | None = None) -> None:
        block = self._open.pop(number, None)
        if block is None and provider_data is not None:
            # A redacted block has no text, but must be sent back with the rest of its message.
            self._begin(number, "reasoning")
            block = self._open.pop(number)
        if block is not None:
            self._record(block.close(interrupted=False, provider_data=provider_data))

    def close(self, *, interrupted: bool) -> None:
        """Closes what is still open: after a stream that did not end each block, or one that was cut off."""
        for number in sorted(self._open, key=lambda n: self._open[n].live.index):
            block = self._open.pop(number)
            self._record(block.close(interrupted=interrupted))
        if interrupted:
            for part in self.take_late():
                self._sink.record(PartClosed(self._message_id, part))

    def take_late(self) -> list[ToolCallPart]:
        """The calls that are not recorded yet."""
        late, self._late = self._late, []
        return late

    def _record(self, part: ClosedPart) -> None:
        self.parts.append(part)
        if isinstance(part, ToolCallPart) and self._is_late(part.name):
            self._late.append(part)
        else:
            self._sink.record(PartClosed(self._message_id, part))

    @property
    def ordered_parts(self) -> tuple[ClosedPart, ...]:
        """The closed parts by their index in the message; interleaved calls may close in another order."""
        return tuple(sorted(self.parts, key=lambda part: part.index))

    @property
    def has_content(self) -> bool:
        """Whether the model has begun its answer."""
        return bool(self._count)

    @property
    def written_tokens(self) -> int:
        """Estimated tokens of everything the model has written, including unclosed parts."""
        unfinished = sum(estimate_text("".join(block.pieces)) for block in self._open.values())
        return unfinished + sum(part.tokens for part in self.parts)

    @property
    def calls(self) -> tuple[ToolCallPart, ...]:
        return tuple(part for part in self.ordered_parts if isinstance(part, ToolCallPart))
