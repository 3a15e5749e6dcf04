"""Follows a run: on the screen or as JSON, and cancels it when Ctrl-C is pressed."""

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
    """The exit status that says how a run ended."""
    return _STATUSES.get(outcome or "", FAILED)


def writer(as_json: bool, *, own_task: bool = False) -> Callable[[ServerEvent], None]:
    """What is done with each event: a JSON line, or the view for a person."""
    if not as_json:
        return View(Screen(), own_task=own_task).show

    def write(event: ServerEvent) -> None:
        sys.stdout.write(event.json_line() + "\n")
        sys.stdout.flush()

    return write


async def show_all(events: AsyncGenerator[ServerEvent, None], *takers: Callable[[ServerEvent], None]) -> str | None:
    """Gives all events to those who take them, in order, and closes their connection where they cannot be shown; the
    outcome of the last run among them."""
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
    """Cancels the session's run at the first Ctrl-C and leaves the program at the second."""

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
            signal.signal(signal.SIGINT, before)  # asyncio's own, which the loop does not put back

    def _pressed(self) -> None:
        if self._task is not None:
            self.say("quits; the session stays as it is")
            with suppress(OSError):
                sys.stdout.flush()
            # A server in this process would take its time to end its runs; a killed one goes on where it was.
            os._exit(CANCELLED)
        self.say("cancels the run; press Ctrl-C again to quit at once")
        self._task = asyncio.get_running_loop().create_task(self._cancel())

    async def _cancel(self) -> None:
        try:
            await self.client.call("POST", f"/v1/sessions/{self.session_id}/cancel")
        except PalimpsestError as error:
            self.say(f"the run could not be cancelled: {error.detail}")
