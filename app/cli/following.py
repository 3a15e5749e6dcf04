"""Follows a run on the screen or as JSON, and cancels it on Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field

from app.cli.client import Client, ServerEvent
from app.cli.screen import CANCELLED, COMPLETED, FAILED, LIMIT, UNANSWERED, Screen, json_text, visible
from app.errors import PalimpsestError

_STATUSES = {"completed": COMPLETED, "cancelled": CANCELLED, "limit_reached": LIMIT}

Take = Callable[[ServerEvent], None]
"""Handles an event of the session."""


@dataclass
class RunEnd:
    """How the last run of a stream ended; `outcome` is None without one. `unanswered` is whether one of its calls was
    denied because nobody decided in time."""

    outcome: str | None = None
    unanswered: bool = False

    def take(self, event: ServerEvent) -> None:
        """Handles an event of the session."""
        if event.event == "session.running" and event.data["trigger"] != "recovery":
            self.unanswered = False
        elif event.event == "approval.resolved" and event.data["by"] == "timeout":
            self.unanswered = True
        elif event.event == "session.idle":
            self.outcome = event.data["outcome"]

    @property
    def status(self) -> int:
        """The exit status."""
        status = _STATUSES.get(self.outcome or "", FAILED)
        return UNANSWERED if self.unanswered and status in (COMPLETED, FAILED) else status


def write_json(event: ServerEvent) -> None:
    """Prints an event as a line of JSON."""
    sys.stdout.write(event.json_line() + "\n")
    sys.stdout.flush()


def write_answer(event: ServerEvent) -> None:
    """Prints the output or the answer, or on standard error why the run has neither."""
    if event.event != "session.idle":
        return
    data = event.data
    if data["outcome"] == "completed":
        output = data.get("output")
        text = visible(data["answer"] or "") if output is None else json_text(output)
        sys.stdout.write(text if text.endswith("\n") or not text else text + "\n")
        sys.stdout.flush()
    else:
        why = (data.get("error") or {}).get("detail") or "The run did not complete."
        Screen(sys.stderr).line(f"{data['outcome'].replace('_', ' ')}: {why}", fg="yellow")


async def show_all(events: AsyncGenerator[ServerEvent, None], *takers: Take) -> RunEnd:
    """Passes all events to `takers`, in order, and closes the connection even if one fails. Returns how the last run
    ended."""
    end = RunEnd()
    async with aclosing(events):
        async for event in events:
            for take in (*takers, end.take):
                take(event)
    return end


@dataclass
class CtrlC:
    """Cancels the session's run at the first Ctrl-C and quits at the second."""

    client: Client
    session_id: str
    say: Callable[[str], None]
    leave: Callable[[], None] = lambda: None
    """Restores the terminal; called before the process quits."""
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
                self.leave()
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
