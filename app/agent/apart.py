"""Pure work on a long conversation, away from the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LONG = 500
"""Messages from which work on all of them goes to a thread; with fewer it takes no more than some milliseconds."""


async def apart(messages: Sized, work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """What `work` gives, which reads these messages and what belongs to them; other sessions go on meanwhile.

    Whoever may change the conversation awaits this. A cancel therefore waits until the work is done, a fraction of a
    second, since nothing may change what a thread reads.
    """
    if len(messages) < LONG:
        return work(*args, **more)
    task = asyncio.ensure_future(asyncio.to_thread(work, *args, **more))
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    return task.result()
