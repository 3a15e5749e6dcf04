"""One connection to a server, in its own task: the protocol's version is negotiated, the tools are listed, calls are
made, and a changed list is noted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, TypeVar

import httpx2
import mcp_types as types
from mcp.client import Client
from mcp.client._transport import TransportStreams
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from app import __version__
from app.runtime.mcp.bounds import Received, ServerError
from app.runtime.mcp.catalog import MAX_TOOLS, Listed
from app.runtime.mcp.malformed import LenientStream

T = TypeVar("T")
Streams = TransportStreams
Transport = Callable[[Received, Callable[[], None]], AbstractAsyncContextManager[Streams]]
"""Opens the streams of messages, within bounds; it calls its second argument when the server is gone."""
OnProgress = Callable[[float, float | None, str | None], None]

OPEN_S = 60.0
"""Seconds for connecting and the first list; a command may have to load its packages first."""
LIST_S = 20.0
CLOSE_S = 1.5
"""Seconds for closing; a cancel may take two."""
MAX_PAGES = 50
LISTEN_AGAIN_S = 30.0
PING_S = 30.0
"""Seconds between checks whether a server at a URL is still there; the end of a command is noticed without them."""
PING_PAUSE_S = 3.0
"""Minimum seconds between two pings: some servers end each stream at once."""
PING_WAIT_S = 8.0
"""Seconds that it has to answer, while nothing else is asked of it."""
MAX_DETAIL_CHARS = 1_000
_RESULT: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)

# The package logs what servers send, and the addresses with which it talks to them.
for _name in ("mcp", "client", "httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)


class UnansweredError(Exception):
    """A call has no result, and may or may not have been carried out; the message says why."""


class Connection:
    """A connection; `open` once, then `call` and `list_tools`, and `aclose`. A `remote` server is asked from time to
    time whether it is still there."""

    def __init__(self, *, remote: bool = False) -> None:
        self.received = Received()
        self.changed = False
        """Whether the server's list may have changed since it was read."""
        self._remote = remote
        self._client: Client | None = None
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._calls: set[asyncio.Task[Any]] = set()
        self._malformed: list[Listed] = []
        self.failure: ServerError | None = None
        """Why it ended."""

    @property
    def is_open(self) -> bool:
        return self._task is not None and not self._task.done() and not self._closing.is_set()

    @property
    def protocol(self) -> str:
        return self._open_client().protocol_version

    async def open(self, transport: Transport) -> None:
        """Connects. Raises `ServerError`; may be cancelled, and is then closed by `aclose`. The transport, which may
        refer to the whole session, is not kept: the package's objects, which refer to this one and to each other, stay
        in memory until garbage is collected."""
        self._task = asyncio.create_task(self._live(transport))
        await asyncio.wait({self._task, self._opened}, timeout=OPEN_S, return_when=asyncio.FIRST_COMPLETED)
        if self._opened.done():
            return
        if not self._task.done():
            self.received.fail("timeout", f"The server was not ready within {OPEN_S:g} seconds.")
        await self.aclose()
        raise self.failure or self.received.fail("closed", "The connection ended.")

    async def _live(self, transport: Transport) -> None:
        try:
            streams = self._lenient(transport)
            info = types.Implementation(name="palimpsest", version=__version__)
            async with Client(streams, client_info=info, message_handler=self._heard, cache=None) as client:
                self._client = client
                if not self._opened.done():
                    self._opened.set_result(None)
                watchers = [asyncio.create_task(self._listen(client)), asyncio.create_task(self._watch(client))]
                try:
                    await self._closing.wait()
                finally:
                    for task in watchers:
                        task.cancel()
                    await asyncio.wait(watchers)
        except Exception as error:
            self.failure = self.received.broken or _failure(error, self.received.status)
        else:
            self.failure = self.received.broken or ServerError("closed", "The connection ended.")
        finally:
            self._client = None
            self._closing.set()

    @asynccontextmanager
    async def _lenient(self, transport: Transport) -> AsyncIterator[Streams]:
        async with transport(self.received, self._closing.set) as (reading, writing):
            yield LenientStream(reading, self._version, self._note_malformed, self.received.check_values), writing

    def _version(self) -> str | None:
        return None if self._client is None else self._client.protocol_version

    def _note_malformed(self, name: str, problem: str) -> None:
        if len(self._malformed) < MAX_TOOLS:
            self._malformed.append(Listed(name, "", {}, problem=problem))

    async def _heard(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.changed = True

    async def _listen(self, client: Client) -> None:
        """Asks a server with the newer protocol to report changes, again each time it stops doing so."""
        capability = client.server_capabilities.tools
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not (capability and capability.list_changed):
            return
        while True:
            with suppress(MCPError, SubscriptionLost, TimeoutError):
                async with client.listen(tools_list_changed=True) as events:
                    async for _ in events:
                        self.changed = True
            self.received.doubt.set()
            await asyncio.sleep(LISTEN_AGAIN_S)
            self.changed = True

    async def _watch(self, client: Client) -> None:
        """Ends the connection when the server no longer answers or accepts it, as after a restart. A server that cannot
        be connected to ends it by itself."""
        while self._remote:
            with suppress(TimeoutError):
                async with asyncio.timeout(PING_S):
                    await self.received.doubt.wait()
            self.received.doubt.clear()
            why = await self._ping(client)
            # Some servers do one thing at a time, and a call may take long.
            if why and not self._calls:
                self.received.fail("closed", why)
                self._closing.set()
                return
            await asyncio.sleep(PING_PAUSE_S)

    async def _ping(self, client: Client) -> str:
        """Why the server is gone; empty if it is not. A JSON-RPC error is an answer, since the server may not support
        pings; an HTTP error is not."""
        is_modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
        self.received.forget_status()
        try:
            async with asyncio.timeout(PING_WAIT_S):
                if is_modern:
                    await client.session.send_discover(client.protocol_version)
                else:
                    await client.session.send_request(types.PingRequest(), types.EmptyResult)
        except TimeoutError:
            return f"The server did not answer within {PING_WAIT_S:g} seconds."
        except (MCPError, ValidationError, RuntimeError):
            status = self.received.status
            return "" if status is None else f"The server no longer accepts the connection (status {status})."
        return ""

    async def list_tools(self) -> list[Listed]:
        """The server's tools, a few more than can be offered at most, with those that are malformed at the end. Raises
        `ServerError`."""
        self.changed = False
        try:
            async with asyncio.timeout(LIST_S):
                return await self._own(self._list())
        except TimeoutError as error:
            raise ServerError("timeout", f"The server did not list its tools within {LIST_S:g} seconds.") from error
        except UnansweredError as error:
            raise ServerError("closed", str(error)) from error

    async def _list(self) -> list[Listed]:
        client = self._open_client()
        if client.server_capabilities.tools is None:
            return []
        tools: list[Listed] = []
        self._malformed.clear()
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            try:
                page = await client.list_tools(cursor=cursor)
            except Exception as error:
                raise self.received.broken or _failure(error, self.received.status) from error
            tools += map(_listed, page.tools)
            cursor = page.next_cursor
            if cursor is None or len(tools) > MAX_TOOLS:
                return [*tools, *self._malformed]
        raise ServerError("protocol_error", f"The server's list of tools has more than {MAX_PAGES} pages.")

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        timeout_s: float,
        on_progress: OnProgress,
        traceparent: str | None = None,
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Calls a tool once, as part of this trace. Raises `ServerError` if the server refused it, and
        `UnansweredError`; when it is cancelled, so is the call at the server."""

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            on_progress(progress, total, message)

        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        if traceparent is not None:
            # See https://modelcontextprotocol.io/seps/414: servers of any transport find it there.
            params["_meta"] = {"traceparent": traceparent}
        request = types.CallToolRequest(params=types.CallToolRequestParams.model_validate(params))
        # Not `call_tool`: it also checks results against the server's own schema, in time without bounds.
        send = self._open_client().session.send_request(
            request, _RESULT, request_read_timeout_seconds=timeout_s, progress_callback=heard
        )
        self.received.forget_status()
        try:
            return await self._own(send)
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                # Whatever is left of it: the next call has a new one.
                self._closing.set()
            if error.code in (types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT) or self.received.broken:
                raise UnansweredError(self._why_unanswered(error, timeout_s)) from error
            if error.code == types.PARSE_ERROR:
                raise UnansweredError("The server's answer is invalid.") from error
            if (status := self.received.status) is not None:
                self.received.doubt.set()
                if status >= 500:
                    # Often from a proxy that no longer waits for the server.
                    raise UnansweredError(f"The answer has status {status}.") from error
            raise ServerError("refused", f"{error.message[:MAX_DETAIL_CHARS]} (code {error.code})") from error
        except (ValidationError, RuntimeError, ValueError) as error:
            raise UnansweredError("The server's answer is invalid.") from error

    def _why_unanswered(self, error: MCPError | None, timeout_s: float) -> str:
        if self.received.broken is not None:
            return self.received.broken.detail
        if error is not None and error.code == types.REQUEST_TIMEOUT:
            return f"The server did not answer within {timeout_s:g} seconds."
        return "The connection ended before the server answered."

    async def _own(self, work: Awaitable[T]) -> T:
        """Awaits work in its own task: when it is cancelled, notifying the server may take longer than the caller can
        wait."""
        task = asyncio.ensure_future(work)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task}, timeout=CLOSE_S / 3)
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise
        if task.cancelled():
            raise UnansweredError(self._why_unanswered(None, 0))
        return task.result()

    def _open_client(self) -> Client:
        if self._client is None or not self.is_open:
            raise self.failure or self.received.broken or ServerError("closed", "The connection ended.")
        return self._client

    async def aclose(self) -> None:
        """Ends the connection, and what is still open on it."""
        self._closing.set()
        tasks = {*self._calls, *([self._task] if self._task is not None else [])}
        for task in self._calls:
            task.cancel()
        if self._task is not None and not self._opened.done():
            self._task.cancel()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=CLOSE_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=CLOSE_S)
        for task in tasks:
            if task.done() and not task.cancelled():
                task.exception()
        if self.failure is None:
            self.failure = self.received.broken


def _listed(tool: types.Tool) -> Listed:
    hints = tool.annotations
    read_only = hints is not None and hints.read_only_hint is True
    return Listed(tool.name, tool.description or tool.title or "", dict(tool.input_schema), read_only)


def _failure(error: BaseException, status: int | None) -> ServerError:
    """A foreign error as why a server cannot be used; of several, the first that says something."""
    for each in _flat(error):
        match each:
            case ServerError():
                return each
            case httpx2.TimeoutException() | TimeoutError():
                return ServerError("timeout", "The server did not answer in time.")
            case httpx2.ConnectError():
                return ServerError("unreachable", f"Cannot connect to the server: {str(each)[:300]}.")
            case httpx2.HTTPError():
                return ServerError("closed", f"The connection ended: {str(each)[:300] or type(each).__name__}.")
            case MCPError() if status is not None:
                code = "unauthorized" if status in (401, 403) else "http_error"
                return ServerError(code, f"The server answered with status {status}.")
            case MCPError() if each.code == types.CONNECTION_CLOSED:
                return ServerError("closed", f"The connection ended: {each.message[:MAX_DETAIL_CHARS]}.")
            case MCPError():
                return ServerError("protocol_error", f"{each.message[:MAX_DETAIL_CHARS]} (code {each.code})")
            case ValidationError():
                return ServerError("protocol_error", f"The server's answer is invalid: {_first_problem(each)}.")
            case RuntimeError() | ValueError():
                return ServerError("protocol_error", "The server's messages are invalid.")
    return ServerError("protocol_error", f"The connection failed ({type(error).__name__}).")


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(str(step) for step in first['loc'])[:200]}: {first['msg'][:200]}"


def _flat(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _flat(inner)
    else:
        yield error
