"""Calls that wait for approval, while their session is followed: asked about at the terminal, or reported with the
command that decides."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any

from app.cli.approvals import Call, decide, how_to_decide, pending, time_left, whole
from app.cli.client import Client, ServerEvent
from app.cli.screen import CliError, Notes, one_line, short
from app.cli.terminal_input import TerminalInput

_DECISIONS = {"y": "approve", "yes": "approve", "n": "deny", "no": "deny"}


class ApprovalPrompt(ABC):
    """Tracks the waiting calls from the session's events; subclasses handle them."""

    def __init__(self, client: Client, session_id: str, notes: Notes) -> None:
        self._client = client
        self._session_id = session_id
        self._notes = notes
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
            self._notes.warn(error.detail)
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
                    self._notes.warn(f"call {shown} needs approval, {time_left(item)}: {how}")


class Asker(ApprovalPrompt):
    """Asks about one call at a time, as long as it waits."""

    def __init__(self, client: Client, session_id: str, notes: Notes, typed: TerminalInput) -> None:
        super().__init__(client, session_id, notes)
        self._typed = typed

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
        if not self._typed.edited:  # else it is on the screen, from the event
            self._notes.warn(whole(call))
        while call_id in self._waiting:
            line = await self._line(call_id, call)
            if line is None:
                continue
            if not line:
                return False
            word, _, reason = line.strip().partition(" ")
            decision = _DECISIONS.get(word.lower().rstrip(",:"))
            if decision is not None:
                self._waiting.pop(call_id, None)
                await self._decide(call_id, decision, reason.strip() or None)
        return True

    async def _decide(self, call_id: str, decision: str, reason: str | None) -> None:
        try:
            await decide(self._client, self._session_id, call_id, decision, reason)
        except CliError as error:
            self._notes.warn(error.detail)

    async def _line(self, call_id: str, call: Call) -> str | None:
        """The next line from the terminal, empty at its end; None if the call was decided elsewhere in the meantime."""
        what = one_line(call.summary(), 40) if self._typed.edited else "it"
        question = f"allow {what}? y, or n and the reason: "
        with self._typed.asking(question) as answer:
            if not self._typed.edited:  # after what was typed before is discarded
                self._notes.screen.write(question, fg="yellow")
            while not answer.done() and call_id in self._waiting:
                self._news.clear()
                news = asyncio.ensure_future(self._news.wait())
                both: set[asyncio.Future[Any]] = {answer, news}
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
            if answer.done():
                return answer.result()
        if not self._typed.edited:
            self._notes.screen.fresh()
        return None
