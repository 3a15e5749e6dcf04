"""Following a session in a terminal or for a script: what is drawn, and where typed lines go."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from app.cli.approval_prompts import Asker, Teller
from app.cli.client import Client
from app.cli.following import Take, write_answer, write_json
from app.cli.screen import CliError, Notes, Screen, is_capable, one_line
from app.cli.terminal_input import TerminalInput, can_be_read
from app.cli.view import View
from app.messages import new_id

if TYPE_CHECKING:
    from rich.text import Text

    from app.cli.live import LiveScreen

Form = Literal["text", "json", "answer"]
"""What a follower prints: the session for a person, its events as JSON lines, or the run's answer alone."""


@dataclass(frozen=True, slots=True)
class Watched:
    """`takers` are to get the session's events, `leave` restores the terminal at once. `steers` is whether lines that
    are typed reach the session."""

    takers: tuple[Take, ...]
    leave: Callable[[], None]
    steers: bool


@asynccontextmanager
async def watching(
    client: Client, session_id: str, notes: Notes, form: Form, *, own_task: bool = False, steers: bool = True
) -> AsyncIterator[Watched]:
    """Shows the session while the context lasts. At a terminal, asks about each call that waits for approval; else
    prints how to decide from elsewhere. With `steers`, a line typed at the terminal is sent to the session."""
    live = _live_screen() if form == "text" else None
    screen = live or Screen()
    steering = Steering(client, session_id, notes)
    typed = None
    if form != "json" and can_be_read() and (live is not None or sys.stderr.isatty()):
        typed = TerminalInput(steering.take if steers else lambda _: None, edited=live is not None)
    prompt = Teller(client, session_id, notes) if typed is None else Asker(client, session_id, notes, typed)
    show = {"json": write_json, "answer": write_answer}.get(form) or View(screen, own_task=own_task).show
    takers: tuple[Take, ...] = (show, prompt.hear)
    async with AsyncExitStack() as stack:
        if live is not None:
            takers = (*takers, await stack.enter_async_context(_drawn(live, notes, typed if steers else None)))
        if typed is not None:
            stack.enter_context(typed.opened())
            await stack.enter_async_context(_running(steering.run()))
        await stack.enter_async_context(_running(prompt.run()))

        def leave() -> None:
            if typed is not None:
                typed.restore()
            if live is not None:
                live.close()

        yield Watched(takers, leave, steers and typed is not None)
    steering.report_unsent(typed.line if typed is not None else "")


def _live_screen() -> LiveScreen | None:
    """Standard output as a live screen, if it can be one; Rich is imported only then."""
    if not is_capable(sys.stdout):
        return None
    from app.cli.live import LiveScreen

    return LiveScreen(sys.stdout)


@asynccontextmanager
async def _drawn(screen: LiveScreen, notes: Notes, typed: TerminalInput | None) -> AsyncIterator[Take]:
    """Draws the screen while the context lasts, with what is being done and the line that is being typed below it, and
    notes above. Yields the function to call with the session's events."""
    from app.cli.activity import Activity
    from app.cli.live import REDRAWN_S, status_line, typed_line

    activity = Activity()

    def footer(width: int) -> list[Text]:
        doing = activity.line(datetime.now(UTC), width)
        lines = [status_line(doing)] if doing else []
        return lines if typed is None else [*lines, typed_line(typed.question or "> ", typed.line, width)]

    async def draw() -> None:
        while True:
            screen.redraw()
            await asyncio.sleep(REDRAWN_S)

    screen.footer, screen.has_cursor = footer, typed is not None
    with _redirected(notes, screen):
        try:
            async with _running(draw()):
                yield activity.take
        finally:
            screen.close()


@contextmanager
def _redirected(notes: Notes, screen: Screen) -> Iterator[None]:
    """Writes notes on the screen if both are on a terminal: below it, they would be overwritten."""
    before = notes.screen
    if sys.stderr.isatty():
        notes.screen = screen
    try:
        yield
    finally:
        notes.screen = before


@asynccontextmanager
async def _running(work: Awaitable[None]) -> AsyncIterator[None]:
    """Runs `work` as a task while the context lasts."""
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class Steering:
    """Sends typed lines to a session, in order."""

    def __init__(self, client: Client, session_id: str, notes: Notes) -> None:
        self._client = client
        self._path = f"/v1/sessions/{session_id}/queue"
        self._notes = notes
        self._lines: list[str] = []
        self._news = asyncio.Event()

    def take(self, line: str) -> None:
        self._lines.append(line)
        self._news.set()

    async def run(self) -> None:
        """Runs until it is cancelled. A line that is refused is reported, and not sent again."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._lines:
                body = {"id": new_id(), "content": self._lines[0]}
                try:
                    await self._client.call("POST", self._path, json=body)
                except CliError as error:
                    self._notes.warn(f"not sent: {one_line(self._lines[0])}: {error.detail} ({error.code})")
                self._lines.pop(0)

    def report_unsent(self, line: str) -> None:
        """Reports what was typed too late: lines that were not sent, and one that was not finished."""
        for text in (*self._lines, line):
            if text.strip():
                self._notes.warn(f"not sent: {one_line(text)}")
