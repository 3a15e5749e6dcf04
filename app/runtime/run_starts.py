"""Who may start a run: bounds that are checked in the transaction that would start it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection

from app.db.dialects import lock
from app.db.repositories import ownership
from app.errors import TooManyRunsError
from app.runtime.dispatch import Dispatch
from app.runtime.transactions.runs import Starter


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a request: an id of the API key, None without keys, and the trace that it is part of, if any."""

    key: str | None = None
    traceparent: str | None = None


NOBODY = Caller()
"""A caller without a key or a trace."""


class RunStarts:
    """Checks requests that would start a run. `most_per_key` bounds the active and waiting runs of an API key, on all
    nodes together; None is no bound. Without keys, all requests count as those of one key."""

    def __init__(self, dispatch: Dispatch, most_per_key: int | None) -> None:
        self._dispatch = dispatch
        self._most_per_key = most_per_key

    @contextmanager
    def by(self, caller: Caller) -> Iterator[Starter]:
        """A starter for one request; whoever enters wakes the session before leaving the context."""
        with self._dispatch.admitting() as room:
            yield Starter(caller.key, caller.traceparent, partial(self._check, caller.key, room))

    def _check(self, key: str | None, room: bool, connection: Connection) -> None:
        if not room:
            raise self._dispatch.no_room()
        most = self._most_per_key
        if most is not None:
            # Until the commit: requests on other nodes count this run, or come before it.
            lock(connection, f"runs of {key}")
            if ownership.runs_of(connection, key) >= most:
                self._dispatch.refused += 1
                raise quota_reached(most)
        self._dispatch.check_room(connection)


def quota_reached(most: int) -> TooManyRunsError:
    """The error for a request that would start a run of a key that already has `most`."""
    return TooManyRunsError(
        f"This API key already has {most:,} active or waiting run{'' if most == 1 else 's'}; try again when one has"
        " ended.",
        code="run_quota_reached",
        most=most,
    )
