"""A receiver of webhooks: an HTTP server in a thread, which verifies what it gets and answers as told."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks.webhooks import Webhook


@dataclass(frozen=True)
class Received:
    """A request: its body, and what its headers say."""

    id: str
    body: dict[str, Any]
    headers: dict[str, str]
    address: str
    raw: bytes

    @property
    def seq(self) -> int:
        return int(self.body["seq"])


@dataclass
class Receiver:
    """`answer` gives the status for a request, or None to hang until the end; `pause_s` are the seconds between two
    bytes of a response. `accepted` are the requests that got a 2xx, `requests` all of them."""

    port: int = 0
    answer: Callable[[Received], int | None] = lambda _: 204
    location: str | None = None
    pause_s: float = 0
    requests: list[Received] = field(default_factory=list)
    accepted: list[Received] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    ending: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def last(self) -> dict[str, Any]:
        """The body of the last request that was accepted."""
        return self.accepted[-1].body if self.accepted else {"type": None, "seq": None}

    def take(self, received: Received) -> int | None:
        status = self.answer(received)
        with self.changed:
            self.requests.append(received)
            if status is not None and 200 <= status < 300:
                self.accepted.append(received)
            self.changed.notify_all()
        return status

    def wait(self, done: Callable[[Receiver], bool], seconds: float = 60) -> None:
        """Waits until something is true of what was received. Blocks."""
        with self.changed:
            assert self.changed.wait_for(lambda: done(self), seconds), [r.body["type"] for r in self.requests]

    def verify(self, secret: str) -> None:
        """Every request is signed as Standard Webhooks wants it."""
        library = Webhook(secret)
        for received in self.requests:
            assert library.verify(received.raw, received.headers) == received.body


class _Handler(BaseHTTPRequestHandler):
    receiver: Receiver
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        named = {name.lower(): value for name, value in self.headers.items()}
        address = self.request.getsockname()[0]
        status = self.receiver.take(Received(named["webhook-id"], json.loads(raw), named, address, raw))
        if status is None:
            self.receiver.ending.wait(60)
            self.close_connection = True
            return
        if self.receiver.pause_s:
            self._send_slowly(f"HTTP/1.1 {status} Slow\r\nContent-Length: 0\r\n\r\n".encode())
            return
        self.send_response(status)
        if self.receiver.location is not None:
            self.send_header("Location", self.receiver.location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send_slowly(self, response: bytes) -> None:
        for at in range(len(response)):
            self.wfile.write(response[at : at + 1])
            self.receiver.ending.wait(self.receiver.pause_s)

    def log_message(self, *_: object) -> None: ...


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, *arguments: Any) -> None:
        self.connections: list[socket.socket] = []
        super().__init__(*arguments)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self.connections.append(connection)
        return connection, address

    def server_close(self) -> None:
        """Also ends connections that are kept open, as the end of a process does."""
        super().server_close()
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, *_: object) -> None:
        """A killed server leaves its requests."""


@contextmanager
def receiving(receiver: Receiver | None = None, host: str = "127.0.0.1") -> Iterator[Receiver]:
    """Runs a receiver, on its port or on a free one; it may be run again after its end."""
    receiver = receiver or Receiver()
    handler = type("Handler", (_Handler,), {"receiver": receiver})
    with _Server((host, receiver.port), handler) as server:
        receiver.port = server.server_port
        receiver.ending.clear()
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield receiver
        finally:
            receiver.ending.set()
            server.shutdown()
            thread.join()
