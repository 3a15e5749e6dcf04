"""One session that a node owns, from its claim until it is idle or another node continues."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from app.cluster.requests import Requests
from app.db.repositories.ownership import RowVersion
from app.runtime.owner.session import SessionOwner


async def always() -> bool:
    return True


@dataclass(slots=True, eq=False)
class Tenure:
    """One session that is owned here. `owner` is None until the session is claimed; `version` is that of the row that
    the owner has acted on last, one look at a time. `is_wanted` says whether this node is still to claim it. A
    sub-agent's tenure is a part of its `parent`, which has it in `children` by id, and ends after them. `changed` is
    called when it is to leave."""

    session_id: str
    is_wanted: Callable[[], Awaitable[bool]] = always
    changed: Callable[[], None] = lambda: None
    parent: Tenure | None = None
    children: dict[str, Tenure] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None
    owner: SessionOwner | None = None
    requests: Requests | None = None
    version: RowVersion | None = None
    looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    rests: bool = False
    stops: bool = False
    drains: bool = False
    cancels: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def leaves(self) -> bool:
        """Whether it makes no more steps."""
        return self.stops or self.drains or self.cancels

    def take_owner(self, owner: SessionOwner) -> None:
        """The session is claimed."""
        self.owner = owner
        self.requests = Requests(owner)
        # Without a version, the next look compares everything: something may have changed since the claim.
        self.version = None
        if self.cancels:
            owner.interrupt("cancel")
        if self.drains:
            owner.end_after_step()
        self._leave()

    def rest(self, rests: bool) -> None:
        """The session waits for a person, a client or sub-agents, or continues."""
        self.rests = rests
        self._leave()

    def stop(self) -> None:
        """Ends it at once; an open step is stored as interrupted."""
        self.stops = True
        for child in self.children.values():
            child.stop()
        self._leave()
        self.changed()

    def drain(self) -> None:
        """Ends it with its current step, or at once if that waits for a person or a client, and with the current steps
        of its sub-agents."""
        self.drains = True
        if self.owner is not None:
            self.owner.end_after_step()
        for child in self.children.values():
            child.drain()
        self._leave()
        self.changed()

    def cancel(self) -> None:
        """Ends a sub-agent's run."""
        self.cancels = True
        if self.owner is not None:
            self.owner.interrupt("cancel")
        self.changed()

    def child_ended(self, child: Tenure) -> None:
        """A sub-agent has left."""
        del self.children[child.session_id]
        self.notify()
        self._leave()

    def notify(self) -> None:
        """The session looks at its sub-agents again."""
        if self.owner is not None:
            self.owner.take_decision()

    def _leave(self) -> None:
        """Ends the owner if that is due: not before its sub-agents, which use its workspace, nor before the end of a
        canceled run is stored."""
        is_due = self.stops or (self.drains and self.rests)
        if is_due and self.owner is not None and not (self.children or self.cancels):
            self.owner.interrupt("shutdown")
