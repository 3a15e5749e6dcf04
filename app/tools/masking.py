"""Masks a session's secrets in what its commands print, before it is stored, published or shown to a model."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import quote, quote_plus

from app.sandbox.base import Stream

MIN_CHARS = 8
"""Shortest secret: masking a shorter one would cut through ordinary words."""


_UNQUOTED = ("", "/", "!*'()")
"""Characters that some programs leave unchanged in URLs; the last are those of JavaScript's `encodeURIComponent`."""


class _Form(NamedTuple):
    """One way in which a secret may be written, and what replaces it."""

    data: bytes
    label: bytes


class _Span(NamedTuple):
    start: int
    end: int
    label: bytes


class Masking:
    """The secrets of a session by name, in all forms that are recognized. False without any."""

    def __init__(
        self, values: Mapping[str, str], *, others: Iterable[tuple[str, str]] = (), by_line: bool = False
    ) -> None:
        """`others` are names and values that are masked too, but are not the session's. `by_line` is for texts with
        something in front of each line, such as patches: values are found line by line, and the number of lines
        stays."""
        self.values = dict(values)
        known = _forms_by_line if by_line else forms
        named = (*others, *values.items())
        found = {data: f"[secret {name}]".encode() for name, value in named for data in known(value)}
        self._forms = [_Form(data, label) for data, label in found.items()]

    def __bool__(self) -> bool:
        return bool(self._forms)

    def text(self, text: str) -> str:
        """A complete text without the secrets."""
        if not self._forms:
            return text
        # Surrogates stay what they are.
        return (
            MaskedStream(self).feed(text.encode("utf-8", "surrogatepass"), final=True).decode("utf-8", "surrogatepass")
        )

    def is_in(self, data: bytes | bytearray) -> bool:
        """Whether there is a secret in the data."""
        return any(form.data in data for form in self._forms)

    def spans(self, data: bytes) -> list[_Span]:
        """Where secrets are, in order; those that overlap are one."""
        found = sorted(span for form in self._forms for span in _occurrences(form, data))
        merged: list[_Span] = []
        for span in found:
            if merged and span.start < merged[-1].end:
                merged[-1] = merged[-1]._replace(end=max(merged[-1].end, span.end))
            else:
                merged.append(span)
        return merged

    def open_at(self, data: bytes) -> int:
        """Where the end of `data` begins that may be the beginning of a secret; its length without one."""
        return min((_begun_at(form.data, data) for form in self._forms), default=len(data))


def _occurrences(form: _Form, data: bytes) -> Iterator[_Span]:
    at = data.find(form.data)
    while at >= 0:
        yield _Span(at, at + len(form.data), form.label)
        at = data.find(form.data, at + len(form.data))


def _begun_at(form: bytes, data: bytes) -> int:
    at = data.find(form[:1], max(0, len(data) - len(form) + 1))
    while at >= 0 and not form.startswith(data[at:]):
        at = data.find(form[:1], at + 1)
    return len(data) if at < 0 else at


def forms(value: str) -> set[bytes]:
    """How a secret may be written: plain, as a string of JSON, in hexadecimal digits, URL-encoded, and in base64, where
    the characters depend on how many bytes of something else are in front of it. Also without the white space around
    it, such as the line break at the end of a file, which most programs cut off."""
    bare = value.strip()
    return _forms(value) | (_forms(bare) if len(bare) >= MIN_CHARS else set())


def _forms_by_line(value: str) -> set[bytes]:
    """The forms without line breaks, and those of each line that is long enough."""
    lines = [line for line in value.splitlines() if len(line.strip()) >= MIN_CHARS]
    found = forms(value).union(*map(forms, lines))
    return {form for form in found if len(form.splitlines()) == 1 and not form.endswith((b"\n", b"\r"))}


def _forms(value: str) -> set[bytes]:
    plain = value.encode()
    urls = {kind(value, safe=safe) for kind in (quote, quote_plus) for safe in _UNQUOTED}
    urls |= {_lower_hex(quoted) for quoted in urls}
    texts = {value, *urls, *(json.dumps(value, ensure_ascii=ascii)[1:-1] for ascii in (True, False))}
    texts |= {plain.hex(), plain.hex().upper()}
    encoded = {_inner(encode, plain, before) for encode in (b64encode, urlsafe_b64encode) for before in range(3)}
    return {text.encode() for text in texts} | encoded


def _lower_hex(quoted: str) -> str:
    pieces = quoted.split("%")
    return pieces[0] + "".join(f"%{piece[:2].lower()}{piece[2:]}" for piece in pieces[1:])


class _Encode(Protocol):
    def __call__(self, data: bytes, /) -> bytes: ...


def _inner(encode: _Encode, data: bytes, before: int) -> bytes:
    """The characters of base64 that depend on `data` alone, if `before` bytes are in front of it."""
    whole = encode(bytes(before) + data)
    return whole[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]


class MaskedStream:
    """A stream that is masked piece by piece: an end that may begin a secret waits for the next piece."""

    def __init__(self, masking: Masking) -> None:
        self._masking = masking
        self._held = b""
        self._done = 0
        """Bytes of what is held that are already masked: they may begin another secret that overlaps."""

    def feed(self, data: bytes, *, final: bool = False) -> bytes:
        """What can be passed on now."""
        data = self._held + data
        keep = len(data) if final else self._masking.open_at(data)
        output = bytearray()
        at = self._done
        for start, end, label in self._masking.spans(data):
            if start >= keep:
                break
            if end > at:
                output += data[at : max(at, start)] + label
                at = end
        if at < keep:
            output += data[at:keep]
            at = keep
        self._held, self._done = data[keep:], at - keep
        return bytes(output)


R_co = TypeVar("R_co", covariant=True)


class _Collector(Protocol[R_co]):
    def write(self, stream: Stream, data: bytes) -> None: ...

    def as_terminal(self) -> None: ...

    async def finish(self, note: str = "") -> R_co: ...


class MaskedCollector(Generic[R_co]):
    """A collector of a call's output that gets it without the secrets."""

    def __init__(self, collector: _Collector[R_co], masking: Masking) -> None:
        self._collector = collector
        self._masking = masking
        self._streams: dict[Stream, MaskedStream] = {"stdout": MaskedStream(masking), "stderr": MaskedStream(masking)}

    def as_terminal(self) -> None:
        self._collector.as_terminal()

    def write(self, stream: Stream, data: bytes) -> None:
        if output := self._streams[stream].feed(data):
            self._collector.write(stream, output)

    async def finish(self, note: str = "") -> R_co:
        for stream, masked in self._streams.items():
            if output := masked.feed(b"", final=True):
                self._collector.write(stream, output)
        return await self._collector.finish(self._masking.text(note))
