"""Follows a run on the screen or as JSON, asks the person at the terminal about waiting calls, and cancels it on
Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from app.cli.approvals import Call, decide, how_to_decide, pending, time_left, whole
from app.cli.client import Client, ServerEvent
from app.cli.screen import CANCELLED, COMPLETED, FAILED, LIMIT, UNANSWERED, CliError, Screen, json_text, short, visible
from app.cli.view import View
from app.errors import PalimpsestError

_STATUSES = {"completed": COMPLETED, "cancelled": CANCELLED, "limit_reached": LIMIT}

Hear = Callable[[ServerEvent], None]


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


def writer(as_json: bool, *, own_task: bool = False, quiet: bool = False) -> Callable[[ServerEvent], None]:
    """A function that writes each event: as a JSON line, or for a person; `quiet` writes the answer alone."""
    if quiet:
        return _write_answer
    if not as_json:
        return View(Screen(), own_task=own_task).show

    def write(event: ServerEvent) -> None:
        sys.stdout.write(event.json_line() + "\n")
        sys.stdout.flush()

    return write


def _write_answer(event: ServerEvent) -> None:
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


async def show_all(events: AsyncGenerator[ServerEvent, None], *takers: Callable[[ServerEvent], None]) -> RunEnd:
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


@asynccontextmanager
async def asking(client: Client, session_id: str, *, as_json: bool) -> AsyncIterator[Hear]:
    """Asks at the terminal about every waiting call while the context lasts; without a terminal, prints to standard
    error how to decide from elsewhere. Yields the function to call with the session's events."""
    asks = sys.stdin.isatty() and sys.stderr.isatty() and not as_json
    prompt = (Asker if asks else Teller)(client, session_id, Screen(sys.stderr))
    task = asyncio.create_task(prompt.run())
    try:
        yield prompt.hear
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class ApprovalPrompt(ABC):
    """Tracks the waiting calls from the session's events; subclasses handle them."""

    def __init__(self, client: Client, session_id: str, screen: Screen) -> None:
        self._client = client
        self._session_id = session_id
        self._screen = screen
        self._waiting: dict[str, Call] = {}
        self._news = asyncio.Event()

    def hear(self, event: ServerEvent) -> None:
        """Handles an event of the session."""
        if event.event == "approval.requested":
            self._waiting[event.data["call_id"]] = Call(event.data["name"], event.data["arguments"])
        elif event.event == "approval.resolved":
            self._waiting.pop(event.data["call_id"], None)
        else:
            return
        self._news.set()

    @abstractmethod
    async def run(self) -> None:
        """Runs until it is cancelled."""

    async def _pending(self) -> list[dict[str, Any]]:
        """The calls that still wait; those from older events may be decided already."""
        try:
            return await pending(self._client, self._session_id)
        except CliError as error:
            self._screen.line(error.detail, fg="yellow")
            return []


class Teller(ApprovalPrompt):
    """Prints how to decide on each call."""

    async def run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            if not self._waiting:
                continue
            new = self._waiting
            self._waiting = {}
            items = await self._pending()
            ids = [item["call_id"] for item in items]
            for item in items:
                if item["call_id"] in new:
                    shown = short(item["call_id"], ids)
                    how = how_to_decide(self._client, self._session_id, shown)
                    self._screen.line(f"call {shown} needs approval, {time_left(item)}: {how}", fg="yellow")


class Asker(ApprovalPrompt):
    """Asks about one call at a time, as long as it waits."""

    async def run(self) -> None:
        """Asks until it is cancelled, or the terminal's input ends."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                call_id, call = next(iter(self._waiting.items()))
                if await self._is_pending(call_id) and not await self._ask(call_id, call):
                    return
                self._waiting.pop(call_id, None)

    async def _is_pending(self, call_id: str) -> bool:
        return call_id in [item["call_id"] for item in await self._pending()]

    async def _ask(self, call_id: str, call: Call) -> bool:
        """Asks about a call until it is decided, here or elsewhere; False if the terminal's input has ended."""
        self._screen.line(whole(call), bold=True)
        while call_id in self._waiting:
            _forget_typed()
            self._screen.write("allow it? y, or n and the reason: ", fg="yellow")
            line = await self._line(call_id)
            if line is None:
                self._screen.fresh()
                continue
            if not line:
                return False
            word, _, reason = line.strip().partition(" ")
            decision = {"y": "approve", "yes": "approve", "n": "deny", "no": "deny"}.get(word.lower().rstrip(",:"))
            if decision is not None:
                self._waiting.pop(call_id, None)
                await self._decide(call_id, decision, reason.strip() or None)
        return True

    async def _decide(self, call_id: str, decision: str, reason: str | None) -> None:
        try:
            await decide(self._client, self._session_id, call_id, decision, reason)
        except CliError as error:
            self._screen.line(error.detail, fg="yellow")

    async def _line(self, call_id: str) -> str | None:
        """The next line from the terminal, empty at its end; None if the call was decided elsewhere in the meantime."""
        loop = asyncio.get_running_loop()
        read: asyncio.Future[str] = loop.create_future()

        def take() -> None:
            if not read.done():
                read.set_result(os.read(sys.stdin.fileno(), 64 * 1024).decode("utf-8", "replace"))

        loop.add_reader(sys.stdin.fileno(), take)
        try:
            while not read.done() and call_id in self._waiting:
                self._news.clear()
                news = asyncio.ensure_future(self._news.wait())
                both: set[asyncio.Future[Any]] = {read, news}
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
        finally:
            loop.remove_reader(sys.stdin.fileno())
        return read.result() if read.done() else None


def _forget_typed() -> None:
    """Discards input typed before the question."""
    import termios

    with suppress(termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
