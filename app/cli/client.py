"""The command line's way to a server: its HTTP API, and event streams that survive a lost connection."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any, Self

import httpx

from app.cli import screen
from app.cli.packing import Meter
from app.cli.screen import (
    CliError,
    ConnectionLostError,
    NoServerError,
    ServerRefusedError,
    SessionDeletedError,
    UsageError,
)

RECONNECTS = 5
"""Max consecutive reconnects without an event before a stream is given up."""
RECONNECT_DELAY_S = 1.0
"""The same delay as the server's `retry`."""
SILENCE_S = 45.0
"""A stream without a byte for this long is dead: the server sends a comment every 5 s."""
ANSWER_S = 60.0
"""Read timeout for responses other than event streams, in seconds."""
UNPACK_S = 600.0
"""Read timeout for the response to an archive, which the server has to unpack first."""
_PAGE = 500
_PIECE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Target:
    """A server and its key. `has_to_be_named`: other commands find this server only if given its URL."""

    url: str
    key: str | None = None
    has_to_be_named: bool = False


class Client:
    """Calls one server. Methods raise `ServerRefusedError` for a problem, `NoServerError` where nobody answers and
    `ConnectionLostError` where an answer breaks off."""

    def __init__(self, target: Target, on_notice: Callable[[str], None] = lambda _: None) -> None:
        """`on_notice` is called with a sentence when the connection is lost."""
        self.url = target.url.rstrip("/")
        self.has_to_be_named = target.has_to_be_named
        self.on_notice = on_notice
        url = _checked(self.url)
        self._http = httpx.AsyncClient(
            base_url=self.url,
            headers={b"Authorization": f"Bearer {target.key}".encode()} if target.key else {},
            timeout=httpx.Timeout(ANSWER_S, connect=10),
            verify=url.scheme == "https",  # loading the certificates takes 30 ms
            trust_env=url.host not in ("localhost", "127.0.0.1", "::1"),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def call(self, method: str, path: str, **options: Any) -> Any:
        """The JSON of a response; None if it has no body."""
        try:
            response = await self._http.request(method, path, **options)
        except httpx.TransportError as error:
            raise self._failure(error, "the response arrived") from error
        _check(response)
        try:
            return response.json() if response.content else None
        except ValueError as error:
            raise CliError(f"The server at {self.url} is not a Palimpsest server.", code="not_palimpsest") from error

    def _failure(self, error: httpx.TransportError, awaited: str) -> CliError:
        """The CLI error for a transport error: no server answers, or the connection was lost before `awaited`."""
        if isinstance(error, _NOBODY):
            return NoServerError(
                f"No server answers at {self.url} ({_reason(error)}). Start one with `palimpsest serve`."
            )
        return ConnectionLostError(f"The connection to {self.url} was lost before {awaited}: {_reason(error)}.")

    async def session(self, session_id: str) -> dict[str, Any]:
        session: dict[str, Any] = await self.call("GET", f"/v1/sessions/{session_id}")
        return session

    async def find(self, given: str) -> str:
        """The id of the only session whose id starts or ends with `given`. Raises `CliError`."""
        piece = screen.typed(given, "session")
        if len(piece) >= screen.FULL:
            return piece
        found = screen.matching(piece, [str(item["id"]) async for item in self.sessions()])
        if not found:
            raise CliError(
                f"No session id starts or ends with {piece}; `palimpsest sessions ls` lists them.",
                code="session_not_found",
            )
        if len(found) > 1:
            several = f"{len(found)} session ids start or end with {piece}: {screen.listed(found)}."
            raise CliError(several, code="ambiguous_id")
        return found[0]

    async def sessions(self, limit: int | None = None, **filters: str | None) -> AsyncIterator[dict[str, Any]]:
        """Sessions, newest first, at most `limit`."""
        cursor: str | None = None
        left = limit
        while left is None or left > 0:
            query = {**filters, "cursor": cursor, "limit": min(left or _PAGE, _PAGE)}
            page = await self.call("GET", "/v1/sessions", params={k: v for k, v in query.items() if v is not None})
            for item in page["items"]:
                yield item
            cursor = page["next_cursor"]
            left = None if left is None else left - len(page["items"])
            if cursor is None:
                return

    async def create_with(self, body: dict[str, Any], archive: IO[bytes]) -> dict[str, Any]:
        """Creates a session with the files of an archive, and shows how much of that has been sent."""
        size = archive.tell()
        archive.seek(0)
        meter = Meter()
        sent = _Sent(archive, lambda done: meter.show(lambda: f"sending: {done / max(1, size):.0%}"))
        parts = {"session": ("session.json", json.dumps(body), "application/json"), "archive": ("files.tar.gz", sent)}
        try:
            session: dict[str, Any] = await self.call("POST", "/v1/sessions", files=parts, timeout=UNPACK_S)
        finally:
            meter.clear()
        return session

    async def download(self, session_id: str, file: IO[bytes]) -> None:
        """Writes the workspace's tar into `file`."""
        await self._save(f"/v1/sessions/{session_id}/archive", file)

    async def patch(self, session_id: str, file: IO[bytes], start: str | None = None) -> None:
        """Writes what has changed in the workspace into `file`: since the checkpoint `start`, by default the first."""
        since = "" if start is None else f"&from={start}"
        await self._save(f"/v1/sessions/{session_id}/changes?format=patch{since}", file)

    async def unpack(self, session_id: str, archive: IO[bytes], *, replace: bool) -> None:
        """Unpacks an archive in the workspace, which loses all other files with `replace`."""
        archive.seek(0)

        async def pieces() -> AsyncIterator[bytes]:
            while piece := await asyncio.to_thread(archive.read, _PIECE_BYTES):
                yield piece

        params = {"mode": "replace" if replace else "merge"}
        path = f"/v1/sessions/{session_id}/archive"
        await self.call("PUT", path, params=params, content=pieces(), timeout=UNPACK_S)

    async def _save(self, path: str, file: IO[bytes]) -> None:
        try:
            async with self._http.stream("GET", path) as response:
                await _check_stream(response)
                async for chunk in response.aiter_bytes():
                    await asyncio.to_thread(file.write, chunk)
        except httpx.TransportError as error:
            raise self._failure(error, "all files arrived") from error

    async def follow(
        self, session_id: str, after: int = 0, *, until_idle: bool = True
    ) -> AsyncGenerator[ServerEvent, None]:
        """The events after the seq `after` until the session is idle, or without `until_idle` forever; reconnects as
        needed. Raises `SessionDeletedError` if the session is deleted in the meantime."""
        last = after
        failures = 0
        known = False
        while True:
            try:
                async with contextlib.aclosing(self._stream(session_id, last, until_idle)) as events:
                    async for event in events:
                        failures, known = 0, True
                        last = event.id or last
                        yield event
                        if event.event == "session.deleted":
                            raise _deleted(session_id)
                known = True
                if until_idle and await self._is_over(session_id, last):
                    return
                reason = "the server ended the stream"
            except httpx.TransportError as error:
                reason = _reason(error)
            except (NoServerError, ConnectionLostError) as error:
                reason = error.detail
            except ServerRefusedError as error:
                if known and error.code == "session_not_found":
                    raise _deleted(session_id) from error
                raise
            failures += 1
            if failures > RECONNECTS:
                raise ConnectionLostError(
                    f"The connection to {self.url} was lost. Continue with `palimpsest sessions follow {session_id}`."
                )
            self.on_notice(f"connection lost, reconnecting ({failures} of {RECONNECTS}): {reason}")
            await asyncio.sleep(RECONNECT_DELAY_S)

    async def _stream(self, session_id: str, last: int, until_idle: bool) -> AsyncGenerator[ServerEvent, None]:
        request = self._http.stream(
            "GET",
            f"/v1/sessions/{session_id}/events",
            params={"until": "idle"} if until_idle else {},
            headers={"Accept": "text/event-stream", "Last-Event-ID": str(last)},
            timeout=httpx.Timeout(SILENCE_S, connect=10),
        )
        async with request as response:
            await _check_stream(response)
            async with contextlib.aclosing(read_events(response.aiter_bytes())) as events:
                async for event in events:
                    yield event

    async def _is_over(self, session_id: str, last: int) -> bool:
        """Whether the stream ended because the session is idle, not because the server stopped."""
        session = await self.session(session_id)
        return bool(session["status"] == "idle" and session["last_seq"] <= last)


_NOBODY = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, httpx.UnsupportedProtocol)
"""Errors before a connection was established."""


def _reason(error: httpx.TransportError) -> str:
    """The error's message; timeouts have none."""
    if isinstance(error, httpx.ReadTimeout):
        return "timed out waiting for data"
    return str(error) or type(error).__name__


class _Sent:
    """A file whose reader is reported."""

    def __init__(self, file: IO[bytes], report: Callable[[int], None]) -> None:
        self._file = file
        self._report = report
        self.seek, self.tell, self.fileno = file.seek, file.tell, file.fileno

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._report(self._file.tell())
        return data


def _deleted(session_id: str) -> SessionDeletedError:
    return SessionDeletedError(f"Session {session_id} was deleted while it was followed.")


def _checked(url: str) -> httpx.URL:
    """A server's URL. Raises `UsageError`."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        parsed = httpx.URL()
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise UsageError(f"{url} is not a server URL such as http://127.0.0.1:8000.", code="bad_url")
    return parsed


async def _check_stream(response: httpx.Response) -> None:
    if not response.is_success:
        await response.aread()
    _check(response)


def _check(response: httpx.Response) -> None:
    """Raises the problem in an error response; a server that is starting or stopping counts as absent."""
    if response.is_success:
        return
    problem = _problem(response)
    detail = str(problem.get("detail") or f"The server responded with status {response.status_code}.")
    code = str(problem.get("code") or f"http_{response.status_code}")
    if response.status_code == httpx.codes.SERVICE_UNAVAILABLE and code == "unavailable":
        raise NoServerError(detail, code="unavailable")
    if response.status_code == httpx.codes.UNAUTHORIZED:
        detail += " Pass it with --key or PALIMPSEST_API_KEY."
    refused = ServerRefusedError(detail, code=code)
    refused.extra.update(problem)
    raise refused


def _problem(response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event of a session; `id` is its seq, None for a live event."""

    id: int | None
    event: str
    data: dict[str, Any]

    def json_line(self) -> str:
        """The event on one line, in ASCII."""
        return json.dumps({"id": self.id, "event": self.event, "data": self.data}, separators=(",", ":"))


async def read_events(chunks: AsyncIterator[bytes]) -> AsyncGenerator[ServerEvent, None]:
    """The events in a stream of arbitrary chunks; comments and an incomplete last event are skipped.

    Lines are split only at LF, as the server writes them: JSON may contain other line separators.
    """
    rest = b""
    async for chunk in chunks:
        *blocks, rest = (rest + chunk).split(b"\n\n")
        for block in blocks:
            event = _parse(block)
            if event is not None:
                yield event


def _parse(block: bytes) -> ServerEvent | None:
    fields: dict[bytes, bytes] = {}
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        fields[name] = value.removeprefix(b" ")
    if b"data" not in fields:
        return None
    seq = int(fields[b"id"]) if b"id" in fields else None
    return ServerEvent(seq, fields.get(b"event", b"message").decode(), json.loads(fields[b"data"]))
