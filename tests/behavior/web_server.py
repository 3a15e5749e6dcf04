"""A small web with DNS, run as a program in a network namespace: HTTP, HTTPS and DNS on one public address.

`python web_server.py ADDRESS SERVER_ADDRESS DIRECTORY`. It serves the directory's `www` under the allowed names,
answers REACHED under all others, and appends each request to the directory's `log`, one JSON list per line.
"""

from __future__ import annotations

import http.server
import itertools
import json
import socket
import ssl
import struct
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ALLOWED = ("packages.example.com", "*.example.org")
A, AAAA = 1, 28


def is_allowed(host: str) -> bool:
    return host == ALLOWED[0] or host.endswith(".example.org")


def addresses(web: str, server: str) -> dict[str, Callable[[], str]]:
    """Names whose addresses differ from the web's."""
    turns = itertools.cycle([web, "127.0.0.1"])
    fixed = {
        "private.example.org": "10.1.2.3",
        "carrier.example.org": "100.64.0.1",
        "metadata.example.org": "169.254.169.254",
        "loopback.example.org": "127.0.0.1",
        "unspecified.example.org": "0.0.0.0",
        "multicast.example.org": "224.0.0.1",
        "server.example.org": server,
        "mapped.example.org": "::ffff:127.0.0.1",
        "translated.example.org": "64:ff9b::7f00:1",
        "tunneled.example.org": "2002:7f00:1::1",
        "loopback6.example.org": "::1",
    }
    return {"rebinding.example.org": lambda: next(turns), **{n: partial(str, a) for n, a in fixed.items()}}


class Web:
    def __init__(self, address: str, server: str, directory: Path) -> None:
        self.address, self.directory = address, directory
        self._special = addresses(address, server)
        self._log = (directory / "log").open("a", buffering=1)

    def note(self, *entry: Any) -> None:
        self._log.write(json.dumps(entry) + "\n")

    def serve_names(self, listener: socket.socket) -> None:
        while True:
            query, client = listener.recvfrom(4096)
            listener.sendto(self._answer(query), client)

    def _answer(self, query: bytes) -> bytes:
        labels, at = [], 12
        while size := query[at]:
            labels.append(query[at + 1 : at + 1 + size].decode("ascii", "replace"))
            at += 1 + size
        (kind,) = struct.unpack(">H", query[at + 1 : at + 3])
        name, question = ".".join(labels).lower(), query[12 : at + 5]
        self.note("dns", name)
        family = {A: socket.AF_INET, AAAA: socket.AF_INET6}.get(kind)
        special = self._special.get(name)
        wanted = socket.AF_INET if special is None or name == "rebinding.example.org" else _family(special())
        if family != wanted:
            return query[:2] + struct.pack(">HHHHH", 0x8180, 1, 0, 0, 0) + question
        data = socket.inet_pton(family, self.address if special is None else special())
        answer = struct.pack(">HHHIH", 0xC00C, kind, 1, 0, len(data)) + data
        return query[:2] + struct.pack(">HHHHH", 0x8180, 1, 1, 0, 0) + question + answer


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


class Handler(http.server.SimpleHTTPRequestHandler):
    web: Web
    protocol_version = "HTTP/1.1"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, directory=str(self.web.directory / "www"))

    def do_GET(self) -> None:
        host = self.headers.get("Host", "")
        self.web.note("http", host, self.path, sorted(name.lower() for name in self.headers))
        if not is_allowed(host):
            return self._say(200, b"REACHED")
        if self.path == "/redirect":
            return self._say(302, b"", Location="http://elsewhere.example.net/")
        if self.path == "/to-metadata":
            return self._say(302, b"", Location="http://169.254.169.254/latest/meta-data/")
        return super().do_GET()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.web.note("body", body.decode("latin-1"))
        self._say(200, b"taken")

    def _say(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


def main(address: str, server: str, directory: Path) -> None:
    web = Handler.web = Web(address, server, directory)
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind((address, 53))
    plain = http.server.ThreadingHTTPServer((address, 80), Handler)
    secure = http.server.ThreadingHTTPServer((address, 443), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "www/ca.pem", directory / "key.pem")
    context.sni_callback = lambda _, name, __: web.note("tls", name)
    secure.socket = context.wrap_socket(secure.socket, server_side=True, do_handshake_on_connect=False)
    for serve in (partial(web.serve_names, names), plain.serve_forever, secure.serve_forever):
        threading.Thread(target=serve, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
