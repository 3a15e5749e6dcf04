"""The output items of a Responses stream, and which of them an event belongs to.

OpenAI gives each item a place in the output and an id. Other servers omit either or both, give all items the same id,
may not announce items, and repeat complete items at the end of the response.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from app.llm.snapshots import Arguments, GrowingText
from app.llm.wire import check_blocks

Kind = Literal["message", "reasoning", "function_call"]
_KINDS = ("message", "reasoning", "function_call")


@dataclass(slots=True, eq=False)
class Item:
    """One output item being received. `block` is the neutral block number, None until it has visible content; `part` is
    the summary or content part that was written last, and `data` the item itself once it is complete."""

    kind: Kind | None
    name: str = ""
    phase: str | None = None
    block: int | None = None
    part: tuple[str, int] | None = None
    text: GrowingText = field(default_factory=GrowingText)
    arguments: Arguments = field(default_factory=Arguments)
    unshown: list[str] = field(default_factory=list)
    """Arguments that wait for the call's name."""
    data: dict[str, Any] | None = None
    place: int | None = None
    item_id: str = ""
    call_id: str = ""
    is_done: bool = False
    """Whether the stream has completed it."""
    is_final: bool = False
    """Whether it was found in the final response."""

    @property
    def is_written(self) -> bool:
        """Whether any of its text has arrived."""
        return bool(self.text or self.arguments)

    def add(self, text: str) -> str:
        """Takes the next piece of its text or arguments; returns what can be shown."""
        return self.arguments.add(text) if self.kind == "function_call" else self.text.add(text)

    def complete(self, text: str) -> str:
        """Takes the complete text or arguments; returns what can be shown in addition."""
        return self.arguments.complete(text) if self.kind == "function_call" else self.text.complete(text)

    def end(self) -> str:
        """What is left to show."""
        return self.arguments.end() if self.kind == "function_call" else self.text.settle()


class Items:
    """The items of one response, in the order of their first appearance."""

    def __init__(self) -> None:
        self._all: list[Item] = []
        self._by_place: dict[int, Item] = {}
        self._by_id: dict[str, Item | None] = {}
        """None for an id that several items have."""

    def __iter__(self) -> Iterator[Item]:
        return iter(self._all)

    def announced(self, event: dict[str, Any], data: dict[str, Any]) -> Item:
        """The item that an event announces. Raises `ProviderError` if there are too many."""
        place, item_id = _named(event, data)
        return self._named(place, item_id) or self._add(place, item_id, data)

    def of_delta(self, event: dict[str, Any], kind: Kind) -> Item | None:
        """The item that a delta belongs to, which some servers do not announce; None if it is of another kind."""
        place, item_id = _named(event, {})
        found = self._named(place, item_id)
        if found is None and place is None and not item_id:
            newest = self._all[-1] if self._all else None
            if newest is not None and newest.kind == kind and not newest.is_done:
                found = newest
        found = found or self._add(place, item_id, {"type": kind})
        return found if found.kind == kind else None

    def of_end(self, event: dict[str, Any], data: dict[str, Any]) -> Item:
        """The item that an event completes."""
        place, item_id = _named(event, data)
        found = self._named(place, item_id)
        if found is None and place is None:
            open_items = (item for item in reversed(self._all) if not item.is_done and item.place is None)
            found = next((item for item in open_items if _may_be(item, data)), None)
        found = found or self._add(place, item_id, data)
        found.is_done = True
        return found

    def of_response(self, place: int, data: dict[str, Any]) -> Item:
        """The item that matches one in the final response: by id, by place, or as the next of its kind."""
        _, item_id = _named({}, data)
        candidates = [self._by_id.get(item_id), self._by_place.get(place)]
        candidates += [item for item in self._all if item.place is None]
        fitting = (item for item in candidates if item is not None and not item.is_final and _may_be(item, data))
        found = next(fitting, None) or self._add(None, item_id, data)
        found.is_final = True
        return found

    def _named(self, place: int | None, item_id: str) -> Item | None:
        """The item at this place, else with this id, which then gets the place."""
        if place is not None and place in self._by_place:
            return self._by_place[place]
        found = self._by_id.get(item_id)
        if found is None or place is None:
            return found
        if found.place is not None:
            return None
        found.place = place
        self._by_place[place] = found
        return found

    def _add(self, place: int | None, item_id: str, data: dict[str, Any]) -> Item:
        check_blocks(len(self._all))
        kind, call_id = data.get("type"), data.get("call_id")
        item = Item(cast(Kind, kind) if kind in _KINDS else None, place=place, item_id=item_id)
        item.call_id = call_id if isinstance(call_id, str) else ""
        self._all.append(item)
        if place is not None:
            self._by_place[place] = item
        if item_id:
            self._by_id[item_id] = None if item_id in self._by_id else item
        return item


def _named(event: dict[str, Any], data: dict[str, Any]) -> tuple[int | None, str]:
    """The place and the id in an event; None and an empty string if missing."""
    place, item_id = event.get("output_index"), event.get("item_id") or data.get("id")
    return (place if isinstance(place, int) else None), (item_id if isinstance(item_id, str) else "")


def _may_be(item: Item, data: dict[str, Any]) -> bool:
    """Whether two items may be the same. Ids may change between the stream and its end."""
    call_id = data.get("call_id")
    return item.kind == data.get("type") and (not item.call_id or not call_id or item.call_id == call_id)
