"""Tells snapshots from deltas: some servers send everything so far in each event, or the whole once more at the end.

What was shown cannot be taken back, so a doubtful piece is held until later ones decide. An ordinary delta may well
begin like the text before it; only what cannot be a coincidence counts as a snapshot.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from app.errors import ProviderError
from app.json_bounds import has_more_values
from app.messages import MAX_ARGUMENT_VALUES, parse_arguments

MAX_ARGUMENTS_CHARS = 8 * 1024 * 1024
"""Maximum characters received of one call's arguments; twice the longest answer."""
MAX_LOOKED_AT_CHARS = 20_000_000
"""Maximum characters of one call's arguments parsed to find out whether they are repeated. A brace after a brace, which
makes it necessary, is rare."""
_SURE_CHARS = 16
"""Length of a snapshot at which two in a row that extend each other are no coincidence."""
_PREFIX_CHARS = 8
"""Length of a text that a longer one does not begin with by chance, if it has `_DISTINCT` different characters."""
_DISTINCT = 4
_REPEAT_CHARS = 32
"""Length of a text that is not written twice in a row by chance, if it came in pieces and then in one."""
_GROWTHS = 2
_PLACEHOLDERS = ("", "{}", "null")
"""What some servers send before the arguments themselves."""
_PLACEHOLDER = re.compile(r'\A\s*(?:\{\}|null)\s*(?=[{"])')


class GrowingText:
    """A text of which each piece is a delta or a snapshot. `text` is what has been accepted so far."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._count = 0
        self._held: list[str] = []
        self._growths = 0
        self._snapshot: str | None = None

    def __bool__(self) -> bool:
        """Whether anything has arrived."""
        return bool(self._length or self._held)

    @property
    def text(self) -> str:
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def add(self, piece: str, *, is_last: bool = False) -> str:
        """Takes the next piece; returns what it adds, as far as that is decided. If the last one is the whole text so
        far, it is a snapshot."""
        if is_last and piece == self.text + "".join(self._held):
            return self.complete(piece)
        if self._snapshot is not None:
            return self._advance(piece)
        if self._held:
            return self._weigh(piece)
        if len(piece) >= self._length > 0 and piece.startswith(text := self.text) and text.strip():
            self._held.append(piece)
            self._growths = int(len(piece) > self._length)
            return ""
        return self._accept(piece)

    def settle(self) -> str:
        """Decides about the pieces that are held; returns what they add."""
        held, self._held = self._held, []
        if held and self._is_snapshot(held[-1]):
            return self._advance(held[-1]) if self._growths else ""
        return "".join(self._accept(piece) for piece in held)

    def complete(self, whole: str) -> str:
        """Takes a snapshot that is known to be one; returns what it has in addition to the pieces."""
        if self._held and whole.startswith(self._held[-1]):
            self._held.clear()
        added = self.settle()
        if len(whole) > self._length and whole.startswith(self.text):
            added += self._accept(whole[self._length :])
        return added

    def _accept(self, piece: str) -> str:
        self._pieces.append(piece)
        self._length += len(piece)
        self._count += 1
        return piece

    def _weigh(self, piece: str) -> str:
        last = self._held[-1]
        self._held.append(piece)
        if len(piece) > len(last) and piece.startswith(last):
            self._growths += 1
            return self.settle() if self._growths >= _GROWTHS and len(piece) >= _SURE_CHARS else ""
        held, self._held = self._held, []
        return "".join(self._accept(piece) for piece in held)

    def _is_snapshot(self, last: str) -> bool:
        if self._growths >= _GROWTHS and len(last) >= _PREFIX_CHARS:
            return True
        if self._growths:
            return self._length >= _PREFIX_CHARS and len(set(self.text)) >= _DISTINCT
        return self._length >= _REPEAT_CHARS and self._count > 1

    def _advance(self, piece: str) -> str:
        if len(piece) >= self._length and piece.startswith(self.text):
            added = piece[self._length :]
            self._pieces, self._length = [piece], len(piece)
            self._snapshot = piece
            return added
        is_older = len(piece) >= _PREFIX_CHARS and (self._snapshot or "").startswith(piece)
        return "" if is_older else self._accept(piece)


class Arguments:
    """The arguments of one call: deltas, snapshots, an object, or JSON within a JSON string. JSON decides what they
    are: deltas that do not make an object may be snapshots, of which the last one does."""

    def __init__(self) -> None:
        self._shown: list[str] = []
        self._length = 0
        self._held: list[str] = []
        self._held_length = 0
        self._growths = 0
        self._grows = False
        self._looked_at = 0
        self._whole: str | None = None

    def __bool__(self) -> bool:
        """Whether anything has arrived."""
        return self.size > 0

    @property
    def size(self) -> int:
        """Characters received that count."""
        return self._length + self._held_length

    @property
    def text(self) -> str:
        """Everything received that counts."""
        return self._shown_text + "".join(self._held)

    @property
    def may_be_whole(self) -> bool:
        """Whether they end like an object; cheap, unlike `is_whole`."""
        return (self._held or self._shown or [""])[-1].rstrip().endswith("}")

    def is_whole(self) -> bool:
        """Whether they are a complete object."""
        return self.may_be_whole and is_object(self.text)

    def add(self, piece: str, *, is_value: bool = False) -> str:
        """Takes the next piece, `is_value` if it was sent as an object; returns what can be shown of it. Raises
        `ProviderError` if too much is held."""
        if not self.size:
            piece = _PLACEHOLDER.sub("", piece)
        if not piece:
            return ""
        if is_value and not self._length:
            self._hold_only(piece)
            return ""
        if self._grows:
            return self._advance(piece)
        if self._held:
            return self._hold(piece)
        if self._is_doubtful(piece):
            self._hold_only(piece)
            self._growths = 1
            return ""
        return self._show(piece)

    def complete(self, whole: str) -> str:
        """Takes arguments that are known to be complete; returns what can be shown."""
        if self.size == 0:
            return self.add(whole, is_value=True)
        self._whole = whole or self._whole
        return ""

    def end(self) -> str:
        """What is left to show. Nothing may follow."""
        held, self._held, self._held_length = self._held, [], 0
        if not held and self._whole is None:
            return ""
        shown, joined = self._shown_text, "".join(held)
        if is_object(shown + joined):
            return self._show(joined)
        candidates = [joined, *held[-1:], *filter(None, [self._whole])]
        for candidate in candidates:
            if (rest := _rest(shown, candidate)) is not None:
                return self._show(rest)
        is_certain = self._growths >= _GROWTHS or self._length >= _REPEAT_CHARS
        if held and is_certain and held[-1].startswith(shown):
            joined = held[-1][self._length :]
        return self._show(joined)

    @property
    def _shown_text(self) -> str:
        self._shown = ["".join(self._shown)]
        return self._shown[0]

    def _is_doubtful(self, piece: str) -> bool:
        if not self._length:
            # A placeholder, before the arguments themselves; or JSON within a string.
            return piece.strip() in _PLACEHOLDERS or piece.lstrip().startswith('"')
        if len(piece) >= self._length and piece.startswith(self._shown_text):
            return True
        return "{" in piece and piece.lstrip().startswith("{") and self.may_be_whole and self._is_whole_yet()

    def _is_whole_yet(self) -> bool:
        self._looked_at += self._length
        return self._looked_at <= MAX_LOOKED_AT_CHARS and self.is_whole()

    def _hold(self, piece: str) -> str:
        held = self._held
        if not self._length and len(held) == 1 and (placeholder := held[0].strip()) in _PLACEHOLDERS:
            self._held, self._held_length = [], 0
            return self.add(placeholder + piece)
        if len(piece) > len(held[-1]) and piece.startswith(held[-1]) and self._growths:
            self._growths += 1
            if self._growths > _GROWTHS and self._length:
                self._held, self._held_length, self._grows = [], 0, True
                return self._advance(piece)
        held.append(piece)
        self._held_length += len(piece)
        if self._held_length > MAX_ARGUMENTS_CHARS:
            raise _too_large()
        return ""

    def _hold_only(self, piece: str) -> None:
        self._held, self._held_length = [piece], len(piece)

    def _advance(self, piece: str) -> str:
        if len(piece) >= self._length and piece.startswith(self._shown_text):
            return self._show(piece[self._length :])
        return "" if self._length > len(piece) and self._shown[0].startswith(piece) else self._show(piece)

    def _show(self, piece: str) -> str:
        if piece:
            self._shown.append(piece)
            self._length += len(piece)
            if self._length > MAX_ARGUMENTS_CHARS:
                raise _too_large()
        return piece


def arguments_text(value: Any) -> str:
    """Arguments as text; some servers send the object itself."""
    if isinstance(value, str):
        return value
    return orjson.dumps(value).decode() if value else ""


def is_object(text: str) -> bool:
    """Whether a text is a JSON object that can be the arguments of a call."""
    return text.lstrip().startswith("{") and isinstance(parse_arguments(text), dict)


def _too_large() -> ProviderError:
    return ProviderError("The arguments of a call are too large.", code="provider_bad_response")


def _rest(shown: str, candidate: str) -> str | None:
    """What is left to show of arguments that may be `candidate`; None if they cannot be."""
    inner = _decoded(candidate)
    if not is_object(inner):
        # An empty string as JSON, for no arguments.
        return "" if candidate and not shown and not inner.strip() else None
    if inner.startswith(shown):
        return inner[len(shown) :]
    # The same once more, with other spaces.
    return "" if is_object(shown) and parse_arguments(shown) == parse_arguments(inner) else None


def _decoded(text: str) -> str:
    """JSON within a JSON string, or within two; else the text itself."""
    for _ in range(2):
        if not text.lstrip().startswith('"') or has_more_values(text.encode(), MAX_ARGUMENT_VALUES):
            return text
        try:
            text = str(orjson.loads(text))
        except orjson.JSONDecodeError:
            return text
    return text
