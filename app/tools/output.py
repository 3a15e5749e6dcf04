"""Clip and spill: the model sees head and tail of a call's output, all of it is stored, memory stays bounded."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from app.sandbox.base import Stream
from app.tools.terminal import TerminalText

KEEP_S = 1.0
"""Seconds of new output that a crash of the server can lose: after that time it is passed to the store. Faster calls
need no file."""

OnLive = Callable[[Stream, str, int], None]
"""Receives a piece of the live preview: stream, text, offset in code points. Both streams share one sequence."""


class OutputWriter(Protocol):
    """Stores one call's raw output."""

    def add(self, data: bytes) -> None:
        """Takes bytes at once; those waiting to be stored are bounded. `close` reports storage errors."""
        ...

    def flush(self) -> None:
        """Stores what was added so far soon, so that it outlives the server."""
        ...

    async def close(self) -> int:
        """Finishes storing and returns the number of stored bytes, fewer than were added if storing failed. May be
        called again, even after its caller was cancelled."""
        ...


class OutputStore(Protocol):
    """Where raw outputs are stored, under `{session_id}/{call_id}`."""

    def writer(self, key: str) -> OutputWriter: ...


@dataclass(frozen=True, slots=True)
class OutputLimit:
    """The maximum that a model sees of one call's output: characters, and tokens by `measure`, since a Chinese
    character costs as much as four English ones."""

    chars: int
    tokens: int | None = None
    measure: Callable[[str], int] = len

    def fits(self, text: str) -> bool:
        """Whether a text of at most `chars` characters is within `tokens` too."""
        return self.tokens is None or self.measure(text) <= self.tokens

    def at_most(self, chars: int) -> OutputLimit:
        return replace(self, chars=min(self.chars, chars))

    def half(self) -> OutputLimit:
        return replace(self, chars=self.chars // 2, tokens=None if self.tokens is None else self.tokens // 2)

    def less(self, text: str) -> OutputLimit:
        """What remains of the limit after `text`, which is within it."""
        tokens = None if self.tokens is None else self.tokens - self.measure(text)
        return replace(self, chars=self.chars - len(text), tokens=tokens)

    def start_of(self, text: str) -> str:
        """As much of the text's start as fits the limit, at least one character, so that reading on from its end makes
        progress."""
        text = text[: max(1, self.chars)]
        if self.fits(text):
            return text
        fitting, too_long = 1, len(text)
        while too_long - fitting > 1:
            middle = (fitting + too_long) // 2
            fitting, too_long = (middle, too_long) if self.fits(text[:middle]) else (fitting, middle)
        return text[:fitting]

    def lines_of(self, text: str) -> str:
        """As many of the text's first lines as fit the limit, with their ends; the start of the first one if that alone
        is too long."""
        start = self.start_of(text)
        whole = start if len(start) == len(text) else start[: start.rfind("\n") + 1]
        return whole or start


@dataclass(frozen=True, slots=True)
class CollectedOutput:
    """`text` is what the model sees. `bytes` counts the raw output. `ref` is the key of the stored raw output; without
    it the raw output is the UTF-8 of the collected text, before the note."""

    text: str
    truncated: bool
    bytes: int
    ref: str | None


def left_out_line(characters: int) -> str:
    """The line between head and tail."""
    return (
        f"[… {characters:,} characters left out here; to see them, run a narrower command, "
        "or print the output to a file and read parts of it …]"
    )


class ClippedText:
    """The first and last half of a text of any length that arrives in pieces, `limit` characters in total."""

    def __init__(self, limit: int) -> None:
        self.length = 0
        self._head_room = limit // 2
        self._tail_limit = limit - limit // 2
        self._head: list[str] = []
        self._tail: list[str] = []
        self._tail_length = 0

    @property
    def left_out(self) -> int:
        """Characters left out between head and tail."""
        head = sum(map(len, self._head))
        return max(0, self.length - head - self._tail_limit)

    def add(self, text: str) -> None:
        self.length += len(text)
        if self._head_room:
            taken = text[: self._head_room]
            self._head.append(taken)
            self._head_room -= len(taken)
            text = text[len(taken) :]
        if text:
            self._add_tail(text)

    def parts(self) -> tuple[str, str]:
        """Head and tail; together the whole text if nothing is left out."""
        self._trim()
        return "".join(self._head), "".join(self._tail)

    def _add_tail(self, text: str) -> None:
        self._tail.append(text)
        self._tail_length += len(text)
        # Trimmed rarely, so that each character is copied a constant number of times however small the pieces are.
        if self._tail_length > 2 * self._tail_limit:
            self._trim()

    def _trim(self) -> None:
        kept = "".join(self._tail)[-self._tail_limit :]
        self._tail = [kept]
        self._tail_length = len(kept)


def _later(delay_s: float, call: Callable[[], None]) -> asyncio.TimerHandle | None:
    """Schedules a call; None if the output arrives outside the event loop, as that of a short tool does."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    return loop.call_later(delay_s, call)


class OutputCollector:
    """The `OutputSink` of one call.

    Bytes of both streams form one sequence in order of arrival. They are decoded as UTF-8 piece by piece; anything not
    UTF-8, and NUL, becomes U+FFFD. The live preview gets that, also if the model sees what a terminal shows of it. At
    most `limit.chars` characters are kept in memory, half of them from the start, half from the end. Raw bytes are kept
    in memory while they are few, then go to the store, up to `max_bytes`; the rest is only counted. `finish` must be
    called, even after an error or a cancellation: it then returns what came so far.
    """

    def __init__(
        self,
        key: str,
        *,
        limit: OutputLimit,
        max_bytes: int,
        store: OutputStore,
        on_live: OnLive | None = None,
        left_out: Callable[[int], str] = left_out_line,
    ) -> None:
        """`left_out` makes the line between head and tail from the number of characters missing there."""
        self._key = key
        self._limit = limit
        self._max_bytes = max_bytes
        self._store = store
        self._on_live = on_live
        self._left_out = left_out
        self._clipped = ClippedText(limit.chars)
        self._terminal: TerminalText | None = None
        self._length = 0
        utf8 = codecs.getincrementaldecoder("utf-8")
        self._decoders: dict[Stream, codecs.IncrementalDecoder] = {"stdout": utf8("replace"), "stderr": utf8("replace")}
        self._bytes = 0
        self._raw = bytearray()
        self._writer: OutputWriter | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._finished = False

    def as_terminal(self) -> None:
        self._terminal = self._terminal or TerminalText(self._clipped.add)

    def write(self, stream: Stream, data: bytes) -> None:
        """Takes output as it comes; ignored after `finish`."""
        if self._finished or not data:
            return
        self._keep(data)
        self._bytes += len(data)
        self._take(stream, self._decoders[stream].decode(data))
        if self._writer is None and self._length > self._limit.chars:
            self._spill()
        if self._timer is None:
            self._timer = _later(KEEP_S, self._keep_so_far)

    async def finish(self, note: str = "") -> CollectedOutput:
        """What the model sees: the whole text, or head, a line on what is missing, and tail; then `note`, never cut."""
        self._flush_decoders()
        if self._timer is not None:
            self._timer.cancel()
        head, tail = self._shown()
        if self._writer is None and (head + tail).encode() != self._raw:
            self._spill()
        stored = await self._writer.close() if self._writer is not None else 0
        notes = [self._storage_note(stored), note]
        text = self._join(head, tail)
        for line in filter(None, notes):
            text += f"{'' if not text or text.endswith(chr(10)) else chr(10)}{line}"
        missing = self._clipped.length - len(head) - len(tail)
        return CollectedOutput(text, missing > 0, self._bytes, self._key if stored else None)

    def _keep_so_far(self) -> None:
        """Stores what a longer call has printed so far."""
        self._timer = None
        if self._finished:
            return
        if self._writer is None:
            self._spill()
        if self._writer is not None:
            self._writer.flush()

    def _keep(self, data: bytes) -> None:
        data = data[: max(0, self._max_bytes - self._bytes)]
        if self._writer is None:
            self._raw += data
        elif data:
            self._writer.add(data)

    def _take(self, stream: Stream, text: str) -> None:
        if not text:
            return
        text = text.replace("\x00", "\ufffd")
        if self._on_live is not None:
            self._on_live(stream, text, self._length)
        self._length += len(text)
        if self._terminal is None:
            self._clipped.add(text)
        else:
            self._terminal.feed(stream, text)

    def _flush_decoders(self) -> None:
        self._finished = True
        for stream, decoder in self._decoders.items():
            self._take(stream, decoder.decode(b"", final=True))
        if self._terminal is not None:
            self._terminal.close()

    def _spill(self) -> None:
        self._writer = self._store.writer(self._key)
        self._writer.add(bytes(self._raw))
        self._raw.clear()

    def _shown(self) -> tuple[str, str]:
        """Head and tail within both limits."""
        head, tail = self._clipped.parts()
        while not self._limit.fits(head + tail):
            # Most texts are uniform, so a proportional cut fits at once.
            share = (self._limit.tokens or 0) / self._limit.measure(head + tail)
            keep = int((len(head) + len(tail)) * min(share, 0.95)) // 2
            whole = head + tail
            head, tail = whole[:keep], whole[len(whole) - keep :]
        return head, tail

    def _join(self, head: str, tail: str) -> str:
        missing = self._clipped.length - len(head) - len(tail)
        return f"{head}\n{self._left_out(missing)}\n{tail}" if missing else head + tail

    def _storage_note(self, stored: int) -> str:
        if self._writer is None or stored >= self._bytes:
            return ""
        return f"[only the first {stored:,} of {self._bytes:,} bytes of this output were stored]"
