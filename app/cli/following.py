"""Follows a run, on the screen or as JSON, and cancels it on Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field

from app.cli.client import Client
from app.cli.errors import CANCELLED, COMPLETED, FAILED
from app.cli.screen import Screen
from app.cli.sse import ServerEvent
from app.cli.view import View
from app.errors import PalimpsestError

_STATUSES = {"completed": COMPLETED, "cancelled": CANCELLED}


def exit_status(outcome: str | None) -> int:
    """The exit status for a run's outcome."""
    return _STATUSES.get(outcome or "", FAILED)


def writer(as_json: bool, *, own_task: bool = False) -> Callable[[ServerEvent], None]:
    """A function that writes each event: as a JSON line, or for a person."""
    if not as_json:
        return View(Screen(), own_task=own_task).show

    def write(event: ServerEvent) -> None:
        sys.stdout.write(event.json_line() + "\n")
        sys.stdout.flush()

    return write


async def show_all(events: AsyncGenerator[ServerEvent, None], *takers: Callable[[ServerEvent], None]) -> str | None:
    """Passes all events to `takers`, in order, and closes the connection even if one fails. Returns the last run's
    outcome."""
    outcome: str | None = None
    async with aclosing(events):
        async for event in events:
            for take in takers:
                take(event)
            if event.event == "session.idle":
                outcome = event.data["outcome"]
    return outcome


@dataclass
class CtrlC:
    """Cancels the session's run at the first Ctrl-C and quits at the second."""

    client: Client
    session_id: str
    say: Callable[[str], None]
    _task: asyncio.Task[None] | None = field(default=None, repr=False)

    @contextmanager
    def handled(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        before = signal.getsignal(signal.SIGINT)
        loop.add_signal_handler(signal.SIGINT, self._pressed)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, before)  # asyncio's own, which the loop does not restore

    def _pressed(self) -> None:
        if self._task is not None:
            self.say("quitting; the session stays as it is")
            with suppress(OSError):
                sys.stdout.flush()
            # A server in this process would take long to end its runs; after a kill, they continue at the next start.
            os._exit(CANCELLED)
        self.say("canceling the run; press Ctrl-C again to quit at once")
        self._task = asyncio.get_running_loop().create_task(self._cancel())

    async def _cancel(self) -> None:
        try:
            await self.client.call("POST", f"/v1/sessions/{self.session_id}/cancel")
        except PalimpsestError as error:
            self.say(f"the run could not be cancelled: {error.detail}")
