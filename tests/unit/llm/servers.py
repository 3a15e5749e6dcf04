"""A small HTTP/1.1 server for one test: it plays scripted answers and records requests and disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

End = Literal["whole", "cut", "hang"]


@dataclass(frozen=True)
class Scripted:
    """One answer. `pieces` are sent one by one. Then the body ends properly (`whole`), the connection breaks (`cut`),
    or nothing more is sent until the client disconnects (`hang`)."""

    status: int = 200
    pieces: Sequence[bytes] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    end: End = "whole"
    silent: bool = False


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        parsed: dict[str, Any] = orjson.loads(self.body)
        return parsed


class LocalServer:
    """`asked` grows with each request, and `arrived` is set; `left` when a client closes a connection that hangs."""

    def __init__(self, answers: Sequence[Scripted]) -> None:
        self._answers = list(answers)
        self.asked: list[Asked] = []
        self.arrived = asyncio.Event()
        self.left = asyncio.Event()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (asked := await _read(reader)) is not None:
                self.asked.append(asked)
                self.arrived.set()
                answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                if not await self._play(answer, reader, writer):
                    break
        except ConnectionError:
            self.left.set()
        finally:
            writer.close()

    async def _play(self, answer: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if not answer.silent:
            headers = {"content-type": "text/event-stream", "transfer-encoding": "chunked", **answer.headers}
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            writer.write(f"HTTP/1.1 {answer.status} Said\r\n{lines}\r\n".encode())
        for piece in answer.pieces:
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        if answer.end == "whole":
            writer.write(b"0\r\n\r\n")
            await writer.drain()
            return True
        if answer.end == "hang":
            await reader.read()
            self.left.set()
        return False


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    return Asked(method, path, headers, await reader.readexactly(int(headers.get("content-length", 0))))


@asynccontextmanager
async def local_server(*answers: Scripted) -> AsyncIterator[LocalServer]:
    """Plays one answer per request; the last one repeatedly."""
    local = LocalServer(answers)
    server = await asyncio.start_server(local.serve, "127.0.0.1", 0, limit=64 * 1024 * 1024)
    local.port = server.sockets[0].getsockname()[1]
    try:
        yield local
    finally:
        server.close()


def sse(*documents: dict[str, Any] | str) -> list[bytes]:
    """One piece for each event."""
    return [
        b"data: %s\n\n" % (document.encode() if isinstance(document, str) else orjson.dumps(document))
        for document in documents
    ]


def document(status: int, body: Any, **headers: str) -> Scripted:
    """An answer without a stream."""
    data = body.encode() if isinstance(body, str) else orjson.dumps(body)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Scripted(status, [data], {"content-type": "application/json", **named})
