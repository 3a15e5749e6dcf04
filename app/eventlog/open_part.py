"""A part that is being written, for readers of any speed: its text from any offset, in little memory."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

MAX_PIECES = 512
"""Pieces of an open part's text above which the older half is joined into one."""

PREVIEW_PIECE_CHARS = 1024
MAX_PREVIEW_PIECES = 4096
"""Adjacent pieces of one stream in a preview are joined up to this size; of interleaved streams, this many pieces are
kept. Otherwise a command that prints character by character would cost megabytes."""


@dataclass(slots=True)
class OpenPart:
    """A part that is being written: its text in pieces, with the offset of each in code points.

    `fields` are added to its deltas. With `keep`, only about that many characters of the end are held.
    """

    event: str
    fields: dict[str, object]
    keep: int | None = None
    end: int = 0
    _starts: list[int] = field(default_factory=list)
    _pieces: list[str] = field(default_factory=list)
    _streams: list[str] = field(default_factory=list)

    def append(self, text: str, stream: str) -> None:
        if self.keep is not None and self._continues(stream):
            self._pieces[-1] += text
        else:
            self._starts.append(self.end)
            self._pieces.append(text)
            self._streams.append(stream)
        self.end += len(text)
        if self.keep is None:
            if len(self._pieces) > MAX_PIECES:
                self._merge(MAX_PIECES // 2)
        elif self.end - self._starts[0] > 2 * self.keep or len(self._pieces) > MAX_PREVIEW_PIECES:
            self._trim(self.keep)

    def _continues(self, stream: str) -> bool:
        """Whether the last piece has room for more of a stream."""
        return bool(self._pieces) and self._streams[-1] == stream and len(self._pieces[-1]) < PREVIEW_PIECE_CHARS

    def _merge(self, count: int) -> None:
        self._pieces[:count] = ["".join(self._pieces[:count])]
        del self._starts[1:count], self._streams[1:count]

    def _trim(self, keep: int) -> None:
        first = max(bisect_right(self._starts, self.end - keep) - 1, 0)
        if len(self._pieces) > MAX_PREVIEW_PIECES:
            first = max(first, MAX_PREVIEW_PIECES // 2)
        del self._starts[:first], self._pieces[:first], self._streams[:first]
        if self.end - self._starts[0] > 2 * keep:
            cut = self.end - keep - self._starts[0]
            self._pieces[0] = self._pieces[0][cut:]
            self._starts[0] += cut

    @property
    def text(self) -> str:
        """The text that is still held."""
        return "".join(self._pieces)

    def since(self, offset: int, most: int) -> list[tuple[int, str, str]]:
        """What was written from an offset on, at most `most` characters, as (offset, text, stream) for each run of one
        stream. If the offset is no longer held, starts with the oldest text that is."""
        if self._starts and self._starts[-1] == offset:
            # The rule for a reader that keeps up.
            return [(offset, self._pieces[-1][:most], self._streams[-1])]
        first = bisect_right(self._starts, offset) - 1
        if first < 0:
            first, offset = 0, self._starts[0] if self._starts else 0
        return [(at, "".join(texts), stream) for at, texts, stream in self._runs(first, offset, offset + most)]

    def _runs(self, first: int, offset: int, end: int) -> list[tuple[int, list[str], str]]:
        runs: list[tuple[int, list[str], str]] = []
        for start, piece, stream in zip(self._starts[first:], self._pieces[first:], self._streams[first:], strict=True):
            if start >= end:
                break
            text = piece[max(offset - start, 0) : end - start]
            if text and runs and runs[-1][2] == stream:
                runs[-1][1].append(text)
            elif text:
                runs.append((max(offset, start), [text], stream))
        return runs
