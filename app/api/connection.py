"""Dropping a connection whose reader takes nothing."""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

_ABORT = "palimpsest.abort"
"""Key of the scope under which a response finds its connection's `abort`."""


def remember(scope: Scope, send: Send) -> None:
    """Notes how to drop the connection of this request; `send` must be the server's own.

    ASGI has no way to do it, and a polite close waits for ever for a reader that takes nothing, so this reaches into
    uvicorn's request cycle. Under another server there is nothing to note, and `drop` does nothing.
    """
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    scope[_ABORT] = getattr(transport, "abort", None)


async def drop(scope: Scope, receive: Receive) -> None:
    """Drops the connection with all that waits to be sent, and returns when the server has noticed."""
    abort = scope.get(_ABORT)
    if abort is None:
        return
    abort()
    while (await receive())["type"] != "http.disconnect":
        pass
