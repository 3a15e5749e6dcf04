"""The engine behind TLS: the client checks the certificate, and sends its API key with each call."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import SupportsIndex

import pytest
from hpack import Decoder

from app.cluster.engine import EngineAddress, look_at
from app.errors import UnavailableError
from scripts.servers.temporal import temporal
from tests.passing_on import PassedOn, Streams
from tests.requirements import need

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, PADDED, PRIORITY = 0x1, 0x8, 0x20


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost with its key, signed by itself."""
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    options = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    # Not that of an authority, which clients do not accept from a server.
    names += ["-addext", "basicConstraints=critical,CA:FALSE"]
    command = ["openssl", "req", *options, *names, "-keyout", str(file), "-out", str(file.with_suffix(".crt"))]
    subprocess.run(command, check=True, capture_output=True)
    file.write_text(file.read_text() + file.with_suffix(".crt").read_text())
    return file


class Sent(asyncio.StreamReader):
    """What a client sends, kept while it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = bytearray()

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        self.kept += bytes(data)
        super().feed_data(data)

    def headers(self) -> list[tuple[str, str]]:
        """Of all requests, by the frames of HTTP/2."""
        found: list[tuple[str, str]] = []
        decoder, rest = Decoder(), bytes(self.kept).removeprefix(PREFACE)
        while len(rest) >= 9:
            size, kind, flags = int.from_bytes(rest[:3], "big"), rest[3], rest[4]
            frame, rest = rest[9 : 9 + size], rest[9 + size :]
            if kind == HEADERS and len(frame) == size:
                assert not flags & PADDED
                fields = decoder.decode(frame[5 if flags & PRIORITY else 0 :])
                found += [(str(name), str(value)) for name, value in fields]
        return found


@asynccontextmanager
async def behind_tls(address: str, certificate: Path) -> AsyncIterator[tuple[str, list[Sent]]]:
    """The address of a proxy that ends TLS before the server at `address`, and what its clients send."""
    host, _, port = address.rpartition(":")

    async def connect() -> Streams:
        return await asyncio.open_connection(host, int(port))

    links, clients = PassedOn(connect), list[Sent]()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(["h2"])

    def accept() -> asyncio.StreamReaderProtocol:
        clients.append(Sent())
        return asyncio.StreamReaderProtocol(clients[-1], links.accept)

    server = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0, ssl=context)
    try:
        yield f"localhost:{server.sockets[0].getsockname()[1]}", clients
    finally:
        await links.close(server)


async def test_the_engine_is_reached_through_tls_with_a_key(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("temporal")
    async with behind_tls(temporal().address, certificate) as (proxy, clients):
        with pytest.raises(UnavailableError):
            await look_at(EngineAddress(proxy, "default", False, None, "queue"))
        with pytest.raises(UnavailableError):
            # Nothing vouches for the certificate yet.
            await look_at(EngineAddress(proxy, "default", True, None, "queue"))
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_suffix(".crt")))
        assert (await look_at(EngineAddress(proxy, "default", True, None, "queue"))).has_namespace
        clients.clear()
        assert (await look_at(EngineAddress(proxy, "default", False, "the-key", "queue"))).has_namespace
        keys = [value for client in clients for name, value in client.headers() if name == "authorization"]
        assert keys
        assert set(keys) == {"Bearer the-key"}
