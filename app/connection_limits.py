"""Limits on HTTP connections from unauthenticated clients: the cost of each one, and of all together."""

from __future__ import annotations

import asyncio
import resource
from asyncio import TimerHandle
from collections import deque
from dataclasses import dataclass
from http import HTTPStatus
from typing import ClassVar
from weakref import ref

import orjson
import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from app.errors import (
    PROBLEM_MEDIA_TYPE,
    HeadTimeoutError,
    HeadTooLargeError,
    MalformedRequestError,
    PalimpsestError,
)

MAX_HEAD_BYTES = 64 * 1024
"""Request line and headers together; most servers and proxies accept between 8 and 64 KiB."""

HEADER_BYTES = 128
"""Memory of a header in addition to its text. Many tiny ones would cost twenty times what was sent."""

MAX_HEADS_BYTES = 32 * 1024 * 1024
"""All heads together: incomplete ones, those waiting behind another, and large ones of requests that are being
answered."""

SMALL_HEAD_BYTES = 4 * 1024
"""Heads up to this size are not counted while their request is answered, since a reader's may last for days."""

MAX_UNSENT_BYTES = 64 * 1024 * 1024
"""All unsent responses together. Beyond that, the connection that holds the most is closed."""

HEAD_S = 10.0
"""Seconds a client has to send a head, counted from the connection or its first byte."""

MAX_PIPELINED = 32
"""Requests that may wait behind the one being answered. Each costs kilobytes for twenty bytes sent."""

MAX_CONNECTIONS = 4_096
"""Connections, unless more readers are allowed; an idle one costs about 10 KB."""

STALLED_S = 30.0
"""Seconds after which a reader that takes none of its pending output is dropped."""

RESERVED_FILES = 512
"""Descriptors reserved for the server's own work: database, providers, downloads, and 256 for egress."""

FILES_PER_RUN = 10
"""Descriptors reserved per run: eight for a command (pipes and killing it), one for the model's response."""

SPARE_CONNECTIONS = 64
"""Connections reserved for requests other than streams."""

_NO_REQUEST = MalformedRequestError("This is not a valid HTTP/1.1 request.")
_TOO_LATE = HeadTimeoutError(f"The head of the request did not arrive within {HEAD_S:.0f} seconds.")
_TOO_LARGE = HeadTooLargeError(f"The request line and headers are larger than {MAX_HEAD_BYTES} bytes.")

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Bounds:
    """Limits and counters shared by all connections of a server: how many there may be, how long a reader may stall,
    and the bytes of heads and unsent responses held now."""

    connections: int = MAX_CONNECTIONS
    stalled_s: float = STALLED_S
    held: int = 0
    unsent: int = 0


def raise_file_limit() -> int:
    """Raises the soft limit of open files to the hard one, and returns the limit in effect. Some systems have a soft
    limit of 256 or 1,024 for programs that use `select`, which this one does not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else hard
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return soft
    return wanted


def connections_for(files: int, readers: int, runs: int) -> int:
    """The number of connections allowed for this many descriptors, stream readers and concurrent runs."""
    room = files - RESERVED_FILES - FILES_PER_RUN * runs
    return min(max(MAX_CONNECTIONS, 2 * readers), max(files // 2, room))


def most_readers(connections: int) -> int:
    """The number of stream readers that fit into this many connections."""
    return max(1, connections - SPARE_CONNECTIONS)


DIRECT_BODY = "palimpsest.direct_body"
"""Name of the extension of ASGI under which a request's scope has its `ChunkedBody`."""


class ChunkedBody:
    """The body of one response, written to its connection without waiting and without messages of ASGI, whose layers
    take longer than the write."""

    def __init__(self, cycle: RequestResponseCycle) -> None:
        # Weak, since the cycle holds the scope, which holds this: only the garbage collector would free them.
        self._cycle = ref(cycle)
        self._transport = cycle.transport

    @property
    def is_ready(self) -> bool:
        """Whether the response has begun, and all of its body so far has been passed to the kernel."""
        cycle = self._cycle()
        if cycle is None or not cycle.chunked_encoding or cycle.response_complete or cycle.disconnected:
            return False
        return not cycle.flow.write_paused and not self._transport.is_closing()

    def write(self, data: bytes) -> None:
        """Sends data, at least one byte, as a chunk. Call it only if it is ready."""
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits on the size and duration of a request's head, on pipelined requests, on readers
    that take nothing, and on connections. If there are too many, the one that has been idle longest is closed."""

    bounds: ClassVar[Bounds]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Pause on any output that the kernel does not take at once.
        transport.set_write_buffer_limits(high=0)
        self._stall: TimerHandle | None = None
        self._unsent = 0
        self._parsed = 0
        self._head_bytes = 0
        self._answering_bytes = 0
        self._waiting: deque[int] = deque()
        self._heads = 0
        self._in_head = False
        self._timer: TimerHandle | None = None
        self._refusal: PalimpsestError = _NO_REQUEST
        self._idle_since: float | None = self.loop.time()
        self._start_timer()
        if len(self.connections) > self.bounds.connections:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._stop_stall()
        self._hold(0)
        self.bounds.held -= self._answering_bytes + sum(self._waiting)
        self._answering_bytes = 0
        self._waiting.clear()
        self._leave_unsent(0)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_stall()
        waiting = self.transport.get_write_buffer_size()
        self._watch(waiting)
        self._leave_unsent(waiting)
        if self.bounds.unsent > MAX_UNSENT_BYTES:
            self._drop_largest()

    def resume_writing(self) -> None:
        self._stop_stall()
        self._leave_unsent(0)
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        was_idle, begun = self._idle_since is not None, self._heads
        if was_idle:
            # Line ends alone also count, although they start no message.
            self._start_timer()
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            # A head that started behind other data is counted by its parsed part.
            is_all_head = self._heads == begun or (was_idle and self._heads == begun + 1)
            received = self._head_bytes + len(data) if is_all_head else 0
            self._hold(max(received, self._parsed))
            if self._head_bytes > MAX_HEAD_BYTES or self.bounds.held > MAX_HEADS_BYTES:
                self._refuse(_TOO_LARGE)

    def on_message_begin(self) -> None:
        self._heads += 1
        self._parsed = 0
        self._in_head = True
        self._hold(0)
        self._start_timer()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + HEADER_BYTES)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._hold(0)
        self._stop_timer()
        if len(self.pipeline) >= MAX_PIPELINED or self.bounds.held > MAX_HEADS_BYTES:
            self._refuse_head()
        self._idle_since = None
        waiting = len(self.pipeline)
        super().on_headers_complete()
        self.scope["extensions"] = {DIRECT_BODY: ChunkedBody(self.cycle)}  # type: ignore[dict-item]
        if len(self.pipeline) > waiting:
            self._waiting.append(self._parsed)
            self.bounds.held += self._parsed
        else:
            self._answer(self._parsed)

    def on_response_complete(self) -> None:
        if not self.pipeline:
            self._idle_since = self.loop.time()
        self._answer(0)
        if self._waiting and not self.transport.is_closing():
            next_head = self._waiting.popleft()
            self.bounds.held -= next_head
            self._answer(next_head)
        super().on_response_complete()
        if self._idle_since is not None and self.cycle is not None:
            # An idle connection would keep the head of its last request, which is no longer counted.
            self.headers, self.url = [], b""
            self.scope = self.cycle.scope = {}  # type: ignore[typeddict-item]

    def send_400_response(self, msg: str) -> None:
        """Answers what the parser refuses."""
        self._refuse(self._refusal)

    def _count(self, size: int) -> None:
        self._parsed += size
        if self._parsed > MAX_HEAD_BYTES:
            self._refuse_head()

    def _refuse_head(self) -> None:
        self._refusal = _TOO_LARGE
        raise ValueError("the parser stops at an exception, and refuses the request")

    def _answer(self, head: int) -> None:
        """Counts the head of the request being answered, if it is large; 0 for no request."""
        counted = max(0, head - SMALL_HEAD_BYTES)
        self.bounds.held += counted - self._answering_bytes
        self._answering_bytes = counted

    def _hold(self, size: int) -> None:
        self.bounds.held += size - self._head_bytes
        self._head_bytes = size

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_S, self._refuse, _TOO_LATE)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch(self, waiting: int) -> None:
        self._stall = self.loop.call_later(self.bounds.stalled_s, self._check, waiting)

    def _check(self, before: int) -> None:
        """Drops a reader whose pending output has not shrunk: a graceful close would wait for it forever."""
        waiting = self.transport.get_write_buffer_size()
        if waiting < before:
            self._watch(waiting)
            self._leave_unsent(waiting)
        else:
            log.info("reader_dropped", waiting=waiting)
            self.transport.abort()

    def _stop_stall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _leave_unsent(self, size: int) -> None:
        self.bounds.unsent += size - self._unsent
        self._unsent = size

    def _drop_largest(self) -> None:
        readers = (connection for connection in self.connections if isinstance(connection, BoundedProtocol))
        largest = max(readers, key=lambda connection: connection._unsent, default=self)
        log.info("reader_dropped", waiting=largest._unsent, reason="memory for unsent responses is full")
        largest._leave_unsent(0)
        largest.transport.abort()

    def _refuse(self, error: PalimpsestError) -> None:
        """Answers a head that never became a request, and closes the connection. No answer is sent to a client that has
        sent nothing, which would take it for the answer to its first request, or in the middle of another answer."""
        self._stop_timer()
        if self._idle_since is None:
            self.transport.abort()
            return
        if self._heads:
            body = orjson.dumps(error.problem())
            head = (
                f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\ncontent-type: {PROBLEM_MEDIA_TYPE}\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        self.transport.close()

    def _make_room(self) -> None:
        idle = [c for c in self.connections if isinstance(c, BoundedProtocol) and c._idle_since is not None]
        oldest = min(idle, key=lambda c: c._idle_since or 0.0, default=self)
        log.debug("connection_closed", reason="too many connections", most=self.bounds.connections)
        oldest.transport.abort()


def bounded(connections: int, stalled_s: float = STALLED_S) -> type[BoundedProtocol]:
    """The protocol of a server with this many connections."""

    class Protocol(BoundedProtocol):
        bounds = Bounds(connections, stalled_s)

    return Protocol
