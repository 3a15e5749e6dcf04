"""How a run reports, and how it ends early."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

ENDED = 130
"""The exit code of a run that was stopped, as in shells after Ctrl-C."""
Result = TypeVar("Result")


def say(line: str) -> None:
    """A line for whoever watches."""
    print(line, file=sys.stderr, flush=True)


async def ended_by_signals(work: Coroutine[Any, Any, Result]) -> Result:
    """Cleans up on SIGTERM as on Ctrl-C."""
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task
