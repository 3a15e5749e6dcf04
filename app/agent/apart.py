"""Runs CPU-bound work on a long conversation off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized
from typing import ParamSpec, TypeVar

import structlog

P = ParamSpec("P")
T = TypeVar("T")

LONG = 100
"""Number of messages from which work that reads all of them runs in a thread. With fewer, the longest work, which
measures a dozen contexts in turn, takes about 10 ms."""

log = structlog.get_logger(__name__)


async def apart(messages: Sized, work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """Run `work`, which reads these messages and what belongs to them, without blocking other sessions.

    Anything that may change the conversation must await this. Nothing may change what a thread reads, so a cancellation
    waits until the work is done (a fraction of a second) and then replaces its result; an error of the work is logged
    and becomes the cancellation's cause.
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
