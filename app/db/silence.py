"""Connections of psycopg that end if their server is silent for too long: psycopg itself waits forever. Keep-alive does
not help, since a server that is frozen, or a proxy that has lost it, still acknowledges what it gets."""

from __future__ import annotations

from collections.abc import Callable, Generator
from time import monotonic
from typing import Any, TypeVar

from psycopg import Connection, OperationalError
from psycopg.abc import PQGen

T = TypeVar("T")


class SilentServerError(OperationalError):
    """The server has said nothing for too long, and its connection was closed."""


def connecting(silence_s: float) -> Callable[..., Connection[Any]]:
    """`psycopg.connect`, for connections that are closed after `silence_s` seconds in which their server has neither
    answered nor taken what it was sent."""

    class BoundedConnection(Connection[Any]):
        def wait(self, gen: PQGen[T], *args: Any, **options: Any) -> T:
            try:
                return super().wait(_bounded(gen, silence_s), *args, **options)
            except SilentServerError:
                self.close()
                raise

    return BoundedConnection.connect


def _bounded(gen: PQGen[T], silence_s: float) -> Generator[Any, Any, T]:
    """The generator, which is resumed with 0 each tenth of a second in which nothing has happened."""
    silent_since = monotonic()
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if ready:
                silent_since = monotonic()
            elif monotonic() - silent_since > silence_s:
                raise SilentServerError(f"no answer for {silence_s:.0f} seconds")
            wanted = gen.send(ready)
    except StopIteration as end:
        value: T = end.value
        return value
