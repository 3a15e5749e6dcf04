"""Plays one answer over one connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from tests.provider.board import Board
from tests.provider.dialect import Dialect, Frame
from tests.provider.script import Begin, Delay, EndWithoutFinish, Gate, Hang, HttpError, Reset

Message: TypeAlias = MutableMapping[str, Any]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

EVENT_STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}


class Dropped(Exception):
    """The script drops the connection; raised so that nothing more is sent."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


@dataclass(slots=True)
class Player:
    """Sends the frames of an answer and obeys its controls. Headers go out with the first byte. `pace` is in frames a
    second; the clock runs from the first frame, so a late frame is followed by a shorter pause."""

    send: Send
    board: Board
    dialect: Dialect
    headers: Mapping[str, str]
    started: bool = False

    async def play(self, frames: Iterator[Frame], pace: float | None) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        for frame in frames:
            if isinstance(frame, bytes):
                if pace:
                    await asyncio.sleep(max(0.0, due - loop.time()))
                    due += 1 / pace
                await self._write(frame)
            elif isinstance(frame, dict):
                await self.document(200, frame, {})
                return
            elif isinstance(frame, HttpError):
                await self._error(frame)
                return
            else:
                await self._obey(frame)
        await self._start()
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _obey(self, control: Frame) -> None:
        match control:
            case Delay():
                await asyncio.sleep(control.seconds)
            case Hang():
                await asyncio.Event().wait()
            case Gate():
                await self._stand_at(control.name)
            case Reset():
                raise Dropped(control.how)
            case Begin() | EndWithoutFinish():
                await self._start()
            case _:
                raise TypeError(f"cannot be played here: {control!r}")

    async def _stand_at(self, gate: str) -> None:
        with self.board.change() as board:
            board.reached[gate] += 1
        await self.board.until(lambda board: gate in board.opened)

    async def _start(self) -> None:
        if not self.started:
            await self._respond(200, {**EVENT_STREAM, **self.headers})

    async def _write(self, data: bytes) -> None:
        await self._start()
        await self.send({"type": "http.response.body", "body": data, "more_body": True})

    async def _respond(self, status: int, headers: Mapping[str, str]) -> None:
        self.started = True
        encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": encoded})

    async def _error(self, error: HttpError) -> None:
        if self.started:
            raise ValueError("an HttpError must stand before any content")
        body = self.dialect.status_error(error.status) if error.body is None else error.body
        await self.document(error.status, body, error.headers)

    async def document(self, status: int, body: Mapping[str, Any] | bytes, headers: Mapping[str, str]) -> None:
        """One whole response with its length."""
        data = body if isinstance(body, bytes) else orjson.dumps(dict(body))
        fixed = {"content-type": "application/json", "content-length": str(len(data))}
        await self._respond(status, {**fixed, **self.headers, **headers})
        await self.send({"type": "http.response.body", "body": data, "more_body": False})
