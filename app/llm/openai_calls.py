"""The calls of a Chat Completions answer, and which of them a delta belongs to.

The index decides, if there is one. Servers are known to omit it, to send 0 for every call with different ids, to send
a call's arguments under another index than its name, to omit the id, and to repeat or change it in every delta.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NamedTuple

from app.errors import ProviderError
from app.llm.held import HeldBytes, merge_unknown
from app.llm.snapshots import Arguments, arguments_text, is_object
from app.llm.tool_names import ARGUMENTS, NAMELESS
from app.llm.wire import check_blocks, parse_document
from app.messages import parse_arguments

MAX_NAME_CHARS = 1_000
"""Maximum length of a name that comes in pieces; no provider accepts more than 64 characters."""
MAX_LOOKED_AT_CHARS = 20_000_000
"""Total characters of arguments parsed to check whether calls are complete: five times the longest answer. Servers that
send neither index nor id send each call in one piece."""
_KNOWN = frozenset({"index", "id", "type", "function"})
_KNOWN_OF_FUNCTION = frozenset({"name", *ARGUMENTS})
_MAX_NESTING = 3


@dataclass(slots=True, eq=False)
class Call:
    """One call being received. `block` is None until the call is announced, once its name is complete; until then
    `unshown` has its arguments."""

    id: str | None
    name: str = ""
    arguments: Arguments = field(default_factory=Arguments)
    block: int | None = None
    unshown: list[str] = field(default_factory=list)
    is_matched: bool = False
    """Whether it was found in a complete message after the deltas."""
    of_call: dict[str, Any] = field(default_factory=dict)
    of_function: dict[str, Any] = field(default_factory=dict)

    @property
    def provider_data(self) -> dict[str, Any] | None:
        """What the server sent with the call that only the server understands."""
        members = {"call": self.of_call, "function": self.of_function}
        return {name: value for name, value in members.items() if value} or None

    def add_name(self, name: str) -> None:
        """Adds to a name that comes in pieces, or all of it in each delta."""
        if self.block is None and name != self.name:
            is_longer = bool(self.name) and name.startswith(self.name)
            self.name = (name if is_longer else self.name + name)[:MAX_NAME_CHARS]


class CallDelta(NamedTuple):
    """One entry of `tool_calls`. `place` is its index, or its place in a list of several without index and id."""

    place: int | None
    id: str | None
    name: str
    arguments: str
    is_value: bool
    entry: dict[str, Any]
    function: dict[str, Any]


def deltas_in(value: Any) -> list[CallDelta]:
    """The entries of `tool_calls` that say anything; a few servers send an object, JSON as text, a list in a list, or
    the function's fields without `function` around them. A value that cannot be read is a call without a name."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        only = _delta(value[0], None)
        return [] if only is None else [only]
    if isinstance(value, dict) and not any(name in value for name in ("function", "name", *ARGUMENTS)):
        value = list(value.values())
    found = list(_entries(value))
    entries = [entry for entry in found if entry is not None]
    if found and not entries:
        return [_UNREADABLE]
    deltas = (_delta(entry, place if len(entries) > 1 else None) for place, entry in enumerate(entries))
    return [delta for delta in deltas if delta is not None]


_UNREADABLE = CallDelta(-1, None, NAMELESS, "", False, {}, {})
"""It has a place that no other call has, so that several of them are one call."""


def _entries(value: Any, level: int = 0) -> Iterator[dict[str, Any] | None]:
    """The objects in a value, None for one that has no meaning here."""
    if isinstance(value, str):
        value = _parsed(value)
    if isinstance(value, dict):
        yield value
    elif isinstance(value, list) and level < _MAX_NESTING:
        for inner in value:
            yield from _entries(inner, level + 1)
    elif value:
        yield None


def _parsed(text: str) -> Any:
    try:
        return parse_document(b'{"calls":%s}' % (text.encode() or b"null"))["calls"]
    except ProviderError:
        return text


def _delta(entry: dict[str, Any], place: int | None) -> CallDelta | None:
    function = entry.get("function")
    if isinstance(function, list):
        function = next(_entries(function), None)
    if isinstance(function, str):
        function = {"name": function, "arguments": entry.get("arguments")}
    inner: dict[str, Any] = function if isinstance(function, dict) else {}
    fields = inner or entry
    index, call_id = _index(entry.get("index")), entry.get("id")
    value = next((fields[name] for name in ARGUMENTS if fields.get(name) is not None), None)
    call_id = call_id if isinstance(call_id, str) and call_id else None
    name = str(fields.get("name") or "")
    arguments = value if isinstance(value, str) else arguments_text(value)
    if index is None and call_id is None:
        index = place
    read = _KNOWN if inner else _KNOWN | _KNOWN_OF_FUNCTION
    extra = {} if entry.keys() <= read else {key: entry[key] for key in entry.keys() - read}
    if not (name or arguments or call_id or extra):
        return None
    return CallDelta(index, call_id, name, arguments, not isinstance(value, str), extra, inner)


def _index(value: Any) -> int | None:
    if type(value) is int:
        return value
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 6 else None


class Calls:
    """The calls of one answer, in the order of their first appearance."""

    def __init__(self, held: HeldBytes) -> None:
        self._all: list[Call] = []
        self._by_index: dict[int, Call] = {}
        self._by_id: dict[str, Call] = {}
        self._looked_at = 0
        self._held = held

    def __iter__(self) -> Iterator[Call]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def add(self, delta: CallDelta) -> tuple[Call, str]:
        """The call that a delta belongs to, with its name and fields added, and what can be shown of its arguments.
        Raises `ProviderError` if there are too many calls."""
        call = self._find(delta)
        self._describe(call, delta)
        return call, call.arguments.add(delta.arguments, is_value=delta.is_value)

    def complete(self, place: int, delta: CallDelta) -> tuple[Call, str]:
        """The same for an entry of a complete message, which may repeat a call of the deltas."""
        call = self._repeated(place, delta)
        if call is None:
            call = self._begin(delta.id)
        call.is_matched = True
        self._describe(call, delta)
        return call, call.arguments.complete(delta.arguments)

    def unannounced_before(self, call: Call) -> list[Call]:
        """The calls that have a name and began before this one, but have nothing to show yet."""
        before = takewhile(lambda other: other is not call, self._all)
        return [other for other in before if other.block is None and other.name]

    def _describe(self, call: Call, delta: CallDelta) -> None:
        if delta.name:
            call.add_name(delta.name)
        if delta.entry:
            merge_unknown(call.of_call, delta.entry, (), self._held)
        if not delta.function.keys() <= _KNOWN_OF_FUNCTION:
            merge_unknown(call.of_function, delta.function, _KNOWN_OF_FUNCTION, self._held)

    def _repeated(self, place: int, delta: CallDelta) -> Call | None:
        if delta.id and (same := self._by_id.get(delta.id)) and not same.is_matched:
            return same
        there = self._all[place : place + 1]
        fitting = (call for call in [*there, *self._all] if not call.is_matched and call.name in ("", delta.name))
        return next(fitting, None)

    def _begin(self, call_id: str | None) -> Call:
        check_blocks(len(self._all))
        call = Call(call_id)
        self._all.append(call)
        if call_id:
            self._by_id.setdefault(call_id, call)
        return call

    def _find(self, delta: CallDelta) -> Call:
        call = self._known(delta)
        if call is None or self._is_another(call, delta):
            call = self._begin(delta.id)
        if delta.place is not None:
            self._by_index[delta.place] = call
        return call

    def _known(self, delta: CallDelta) -> Call | None:
        last = self._all[-1] if self._all else None
        if delta.place is None:
            if delta.id and (same := self._by_id.get(delta.id)):
                return same
            return None if delta.name and last is not None and self._is_done(last) else last
        known = self._by_index.get(delta.place)
        if delta.name or last is None:
            return known
        if known is not None and delta.id and delta.id != known.id:
            return self._by_id.get(delta.id, known)
        if known is last:
            return known
        return last if self._continues(last, known, delta) else known

    def _continues(self, last: Call, known: Call | None, delta: CallDelta) -> bool:
        """Whether arguments belong to the call that began last, though another one, or none, has their index."""
        if known is None:
            is_other = bool(delta.id and last.id and delta.id != last.id)
            return not is_other and (last.arguments.size == 0 or not self._is_done(last))
        waits = last.arguments.size == 0 < known.arguments.size
        return waits and delta.arguments.lstrip().startswith(("{", '"')) and self._is_done(known)

    def _is_another(self, call: Call, delta: CallDelta) -> bool:
        """Whether a delta with the index or the id of a call begins another one."""
        if not delta.name:
            return False
        if call.id and delta.id and call.id != delta.id:
            return True
        if delta.id or delta.place is None or not is_object(delta.arguments):
            return False
        # Without an id, a complete call under the same index is the same once more, or another one.
        if call.arguments.size == 0 or not self._is_done(call):
            return False
        before = parse_arguments(call.arguments.text)
        return delta.name != call.name or (before != {} and before != parse_arguments(delta.arguments))

    def _is_done(self, call: Call) -> bool:
        """Whether a call's arguments are complete. Raises `ProviderError` if the checks take too much work."""
        if call.arguments.may_be_whole:
            self._looked_at += call.arguments.size
        if self._looked_at > MAX_LOOKED_AT_CHARS:
            raise ProviderError("The answer's calls cannot be told apart.", code="provider_bad_response")
        return call.arguments.size == 0 or call.arguments.is_whole()
