"""What the registry knows of each session that runs or waits here, and the line of those that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain

from app.runtime.owner.session import SessionOwner


class State(Enum):
    """What a session does here."""

    IDLE = "idle"
    WAITING = "waiting"
    """In line for a slot."""
    RUNNING = "running"
    RESTING = "resting"
    """Its run waits for an approval and takes no slot."""
    RETRYING = "retrying"
    """Its last owner failed; the timer starts the next one."""


@dataclass(slots=True, eq=False)
class Entry:
    """What is remembered of one session. Its `task` claims it and then runs its `owner`; `early` are the calls for the
    owner before that. While it is `barred`, no task is created; `again` is set if it was woken while it had one.
    `retry` may still be pending after the session was woken for something else."""

    session_id: str
    state: State = State.IDLE
    task: asyncio.Task[None] | None = None
    owner: SessionOwner | None = None
    early: list[Callable[[SessionOwner], None]] = field(default_factory=list)
    retry: asyncio.TimerHandle | None = None
    again: bool = False
    barred: bool = False
    crashes: int = 0
    """Consecutive ones."""
    key: str | None = None
    """Whose run it is, for its turn in the line."""
    unstored_at: float | None = None
    """When a write last failed, by the monotonic clock; None after an owner without failures."""

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to remember."""
        return self.state is not State.IDLE or self.barred or self.crashes > 0 or self.unstored_at is not None

    def call(self, method: Callable[[SessionOwner], None]) -> None:
        """Calls the owner, as soon as there is one."""
        if self.owner is None:
            self.early.append(method)
        else:
            method(self.owner)

    def take_owner(self, owner: SessionOwner) -> None:
        """The session is claimed."""
        self.owner = owner
        for method in self.early:
            method(owner)
        self.early.clear()


class FairLine:
    """The waiting entries. Keys take turns, each in the order of its own entries, so that a key with many runs does not
    hold up the others."""

    def __init__(self) -> None:
        self._by_key: dict[str | None, dict[str, Entry]] = {}
        self._keys: dict[str, str | None] = {}
        """The key under which a session stands."""

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Entry]:
        return chain.from_iterable(entries.values() for entries in self._by_key.values())

    def find(self, session_id: str) -> Entry | None:
        """A session's entry, None if it does not wait."""
        return self._by_key[self._keys[session_id]][session_id] if session_id in self._keys else None

    def add(self, entry: Entry) -> None:
        self._keys[entry.session_id] = entry.key
        self._by_key.setdefault(entry.key, {})[entry.session_id] = entry

    def remove(self, entry: Entry) -> None:
        key = self._keys.pop(entry.session_id)
        del self._by_key[key][entry.session_id]
        if not self._by_key[key]:
            del self._by_key[key]

    def next(self) -> Entry:
        """The entry whose turn it is, which stays until it is removed; its key's next turn comes after all others'."""
        key, entries = next(iter(self._by_key.items()))
        self._by_key[key] = self._by_key.pop(key)
        return next(iter(entries.values()))
