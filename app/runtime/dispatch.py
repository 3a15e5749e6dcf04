"""How a session gets an owner, and how that owner learns what others have changed: in this process, or in a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import Connection, Row

from app.agent.interrupt import StopReason
from app.errors import TooManyRunsError
from app.messages import Message
from app.runtime.kept import Version


@dataclass(frozen=True, slots=True)
class Started:
    """A run that was started in the transaction that accepted its message: the session's row after it was claimed, the
    messages that were delivered, and the version of the session before all that."""

    row: Row[Any]
    delivered: Sequence[Message]
    before: Version


class Dispatch(Protocol):
    """What services ask of the owners of sessions, after they have committed the change that it is about. None of the
    methods waits, apart from `without_owner`."""

    @property
    def waiting(self) -> int:
        """Number of sessions that wait for their turn. Thread-safe."""
        ...

    refused: int
    """Number of requests refused because too many runs were waiting, or the key had too many."""

    def __len__(self) -> int:
        """Number of sessions with an owner in this process."""
        ...

    def admitting(self) -> AbstractContextManager[bool]:
        """While entered, a request may start a run if the value is true; the caller wakes that session before
        leaving."""
        ...

    def check_room(self, connection: Connection) -> None:
        """Raises `TooManyRunsError` if too many runs of all nodes are waiting; called in the transaction that would
        start a run."""
        ...

    def works_on(self, session_id: str) -> bool:
        """Whether more work for a session takes no additional slot."""
        ...

    def no_room(self) -> TooManyRunsError:
        """The error for a request that would start a run while too many are waiting."""
        ...

    def model_of(self, session_id: str) -> str | None:
        """The model of a session that runs in this process, None if unknown."""
        ...

    def starts_at_once(self, session_id: str) -> bool:
        """Whether an idle session would get its owner in this process, without waiting, if it were woken now."""
        ...

    def wake(self, session_id: str, key: str | None = None, started: Started | None = None) -> None:
        """There is work for a session: it needs an owner. Runs of different keys take turns. A run that has `started`
        continues from there, if the session gets an owner now."""
        ...

    def ring(self, session_id: str) -> None:
        """A pending message was changed."""
        ...

    def ask_round(self, session_id: str) -> None:
        """A compaction was requested; the session needs an owner for it."""
        ...

    def take_revert(self, session_id: str) -> None:
        """A compaction was reverted."""
        ...

    def take_decision(self, session_id: str) -> None:
        """A call was approved or denied."""
        ...

    def take_secrets(self, session_id: str) -> None:
        """A secret was set or removed."""
        ...

    def interrupt(self, session_id: str, reason: StopReason, message_id: str | None = None) -> None:
        """Ends the session's current step; a session that should run but has no owner gets one for that."""
        ...

    def reconfigure(self, session_id: str, row: Row[Any]) -> None:
        """The session was changed; `row` is its new row."""
        ...

    def without_owner(self, session_id: str) -> AbstractAsyncContextManager[Callable[[Connection], None]]:
        """Ends a session's owner and prevents another one while the context lasts. If the session still exists
        afterward, it continues. The value is called in each write of the context: it raises `UnavailableError` if this
        server was frozen meanwhile, and others have the session."""
        ...
