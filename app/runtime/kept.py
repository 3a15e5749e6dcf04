"""Conversations of the sessions that became idle last, kept for their next message: a person mostly answers within
minutes. Everything in them is in the database too, from which the others are read."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from app.agent.conversation import Conversation

MOST_SESSIONS = 32
"""Enough for the sessions that a few people are writing to, and too few to make a thousand idle ones cost anything."""

MOST_BYTES = 16 * 1024 * 1024
"""Memory for all of them, about that of 90 running sessions. One takes at most a quarter of it; when a longer one is
read again, it is without what its summaries cover."""


class Version(NamedTuple):
    """A state of a session: each owner raises the epoch, and each change by others of what a conversation holds has an
    event, and so a seq."""

    epoch: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class KeptConversation:
    """A conversation as its owner left it at a `version`, with its size in memory; `unused` as in
    `StoredConversation`."""

    version: Version
    conversation: Conversation
    unused: int
    bytes: int


class KeptConversations:
    """The conversations of a server's idle sessions. The one whose session has been idle longest is dropped first."""

    def __init__(self, most: int = MOST_SESSIONS, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self.bytes = 0
        """Memory of all of them, estimated."""
        self._kept: OrderedDict[str, KeptConversation] = OrderedDict()

    def keep(self, session_id: str, kept: KeptConversation) -> None:
        """Keeps a conversation that nobody changes from now on, unless it alone is too large."""
        self.drop(session_id)
        if kept.bytes > self._most_bytes // 4:
            return
        self._kept[session_id] = kept
        self.bytes += kept.bytes
        while len(self._kept) > self._most or self.bytes > self._most_bytes:
            self.drop(next(iter(self._kept)))

    def take(self, session_id: str, version: Version) -> KeptConversation | None:
        """Removes a session's conversation, and returns it if it is of this version."""
        kept = self.drop(session_id)
        return kept if kept is not None and kept.version == version else None

    def drop(self, session_id: str) -> KeptConversation | None:
        """Removes and returns a session's conversation."""
        kept = self._kept.pop(session_id, None)
        self.bytes -= 0 if kept is None else kept.bytes
        return kept
