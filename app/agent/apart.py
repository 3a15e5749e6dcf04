"""Pure work on a long conversation, away from the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized
from typing import ParamSpec, TypeVar

import structlog

P = ParamSpec("P")
T = TypeVar("T")

LONG = 100
"""Messages from which work on all of them goes to a thread; with fewer the longest work, which looks at a dozen
contexts in turn, takes some 10 ms."""

log = structlog.get_logger(__name__)


async def apart(messages: Sized, work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """What `work` gives, which reads these messages and what belongs to them; other sessions go on meanwhile.

    Whoever may change the conversation awaits this. A cancel therefore waits until the work is done, a fraction of a
    second, since nothing may change what a thread reads. It takes the place of what the work has given; an error of the
    work is its cause, and in the log.
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
    if not cancelled:
        return task.result()
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.error("work_failed_after_cancel", work=getattr(work, "__qualname__", repr(work)), exc_info=error)
    raise asyncio.CancelledError from error
