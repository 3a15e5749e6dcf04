"""The egress proxy by itself: a resolver and a dialer of the test's stand for DNS and the internet."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from app.sandbox.egress import Gateway, Proxy
from app.sandbox.egress.gateway import (
    MAX_CONNECTIONS,
    MAX_HOSTS,
    SESSION_CONNECTIONS,
    SESSION_LOOKUPS,
    Connection,
    Refusals,
)
from app.sandbox.egress.requests import MAX_HEAD_LINES
from tests.unit.sandbox.test_client_hello import hello

PUBLIC = "93.184.216.34"
HOSTS = ("packages.example.com", "*.example.org")
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Internet:
    """What is outside: `addresses` of names, all of them public unless a test says otherwise, and one program behind
    every address."""

    def __init__(self) -> None:
        self.addresses: dict[str, list[str]] = {}
        self.resolved: list[str] = []
        self.dialed: list[tuple[str, int]] = []
        self.requests: list[bytes] = []
        self.port = 0

    def resolve(self, name: str) -> list[str]:
        self.resolved.append(name)
        return self.addresses.get(name, [PUBLIC])

    async def dial(self, address: str, port: int) -> Connection:
        self.dialed.append((address, port))
        return await asyncio.open_connection("127.0.0.1", self.port)


class Client:
    """What a program in the sandbox sends to the proxy."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def open(self) -> Connection:
        return await asyncio.open_connection("127.0.0.1", self._port)

    async def ask(self, *pieces: bytes) -> bytes:
        """The whole answer to what is sent; empty where the connection is broken off."""
        reader, writer = await self.open()
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        try:
            return await rest(reader)
        finally:
            writer.close()


async def rest(reader: asyncio.StreamReader) -> bytes:
    """What still comes until the end; nothing where the connection is broken off."""
    async with asyncio.timeout(60):
        try:
            return await reader.read()
        except ConnectionError:
            return b""


@asynccontextmanager
async def running(internet: Internet, serve: Serve) -> AsyncIterator[tuple[Client, Refusals, Gateway]]:
    """A proxy whose hosts are served by `serve`."""

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve(reader, writer)
        writer.close()

    outside = await asyncio.start_server(keep, "127.0.0.1", 0)
    internet.port = outside.sockets[0].getsockname()[1]
    listener = socket.create_server(("127.0.0.1", 0))
    gateway = Gateway(internet.resolve, internet.dial)
    proxy, refusals = Proxy(gateway, "session", HOSTS), Refusals()
    client = Client(listener.getsockname()[1])
    proxy.serve(listener)
    try:
        with proxy.noting(refusals):
            yield client, refusals, gateway
    finally:
        await proxy.close()
        gateway.close()
        outside.close()


@asynccontextmanager
async def another(gateway: Gateway, session: str) -> AsyncIterator[Client]:
    """A further proxy, of any session."""
    listener = socket.create_server(("127.0.0.1", 0))
    proxy = Proxy(gateway, session, HOSTS)
    proxy.serve(listener)
    try:
        yield Client(listener.getsockname()[1])
    finally:
        await proxy.close()


def answering(answer: bytes, internet: Internet) -> Serve:
    """Reads a request's head, keeps it and answers."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        internet.requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await writer.drain()

    return serve


POST = b"POST http://packages.example.com/ HTTP/1.1\r\nHost: a\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\nProxy-Authenticate: x\r\n\r\nhello"


def get(target: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {target} HTTP/1.1", *(headers or ["Host: a"]), "", ""]).encode()


@pytest.fixture
def internet() -> Internet:
    return Internet()


async def test_what_is_dialed_is_the_address_that_was_checked(internet: Internet) -> None:
    internet.addresses["packages.example.com"] = ["127.0.0.1", "10.0.0.1", PUBLIC]
    async with running(internet, answering(OK, internet)) as (client, refusals, gateway):
        answer = await client.ask(get("http://packages.example.com/a?b"))
    assert answer.endswith(b"\r\n\r\nhello")
    assert internet.resolved == ["packages.example.com"]
    assert internet.dialed == [(PUBLIC, 80)]
    assert (refusals.described(), gateway.refused) == ((), 0)


async def test_a_name_without_a_public_address_is_refused(internet: Internet) -> None:
    internet.addresses["packages.example.com"] = ["127.0.0.1", "::1", "::ffff:8.8.8.8", "169.254.169.254"]
    async with running(internet, answering(OK, internet)) as (client, refusals, gateway):
        assert (await client.ask(get("http://packages.example.com/"))).startswith(b"HTTP/1.1 403 ")
    assert internet.dialed == []
    assert refusals.described() == ("packages.example.com was refused: its name does not resolve to a public address",)
    assert gateway.refused == 1


async def test_a_name_that_is_not_listed_is_never_resolved(internet: Internet) -> None:
    async with running(internet, answering(OK, internet)) as (client, refusals, _):
        for target in ("http://secret.tunnel.evil.net/", "http://example.org/"):
            assert b"403" in await client.ask(get(target))
        assert b"403" in await client.ask(b"CONNECT secret.tunnel.evil.net:443 HTTP/1.1\r\nHost: a\r\n\r\n")
    assert internet.resolved == []
    assert len(refusals.described()) == 2


async def test_each_host_is_named_once_up_to_a_limit(internet: Internet) -> None:
    async with running(internet, answering(OK, internet)) as (client, refusals, gateway):
        for number in range(MAX_HOSTS + 5):
            for _ in range(2):
                await client.ask(get(f"http://h{number}.evil.net/"))
    assert len(refusals.described()) == MAX_HOSTS + 1
    assert len(set(refusals.described())) == MAX_HOSTS + 1
    assert gateway.refused == 2 * (MAX_HOSTS + 5)


def test_what_is_shown_of_a_host_is_short_and_printable() -> None:
    refusals = Refusals()
    refusals.add("\x1b[31m" + "x" * 500 + "\n", "why")
    (sentence,) = refusals.described()
    assert len(sentence) < 150
    assert sentence.isprintable()


async def test_the_host_sees_its_own_name_and_nothing_of_the_connection(internet: Internet) -> None:
    request = get(
        "http://Packages.EXAMPLE.com:80?q=1",
        *("Host: elsewhere.example.net", "Connection: close, X-Secret", "X-Secret: 1", "Proxy-Authorization: Basic x"),
        *("Proxy-Connection: Keep-Alive", "Upgrade: websocket", "TE: trailers", "X-Kept: 1"),
    )
    async with running(internet, answering(OK, internet)) as (client, _, _):
        answer = (await client.ask(request)).lower()
    (head,) = internet.requests
    assert head.lower().split(b"\r\n")[:-2] == [
        *(b"get /?q=1 http/1.1", b"host: packages.example.com", b"x-kept: 1", b"connection: close")
    ]
    assert b"connection: close" in answer
    assert b"keep-alive" not in answer
    assert b"proxy-authenticate" not in answer


@pytest.mark.parametrize(
    "request_",
    [
        POST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        POST + b"Transfer-Encoding: chunked, identity\r\n\r\n",
        b"GET http://packages.example.com/ HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET http://packages.example.com/ HTTP/1.1\r\nHost: a\r\nX: 1\r\n\tfolded\x00\r\n\r\n",
        b"GET http://packages.example.com/#part HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET ftp://packages.example.com/ HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /page HTTP/1.1\r\nHost: packages.example.com\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: packages.example.com\r\n\r\n",
        b"CONNECT packages.example.com:443 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        b"GET http://packages.example.com/" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET http://packages.example.com/ HTTP/1.1\r\nHost: a\r\n" + b"a:\r\n" * MAX_HEAD_LINES + b"\r\n",
        b"\x16\x03\x01\x00\x05hello\r\n\r\n",
    ],
)
async def test_ambiguous_requests_are_not_forwarded(internet: Internet, request_: bytes) -> None:
    async with running(internet, answering(OK, internet)) as (client, _, _):
        assert (await client.ask(request_)).startswith(b"HTTP/1.1 400 ")
    assert (internet.resolved, internet.requests) == ([], [])


async def test_lines_of_a_body_are_no_headers(internet: Internet) -> None:
    body = b"line\n" * 2 * MAX_HEAD_LINES
    async with running(internet, answering(OK, internet)) as (client, _, _):
        answer = await client.ask(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert answer.startswith(b"HTTP/1.1 200 ")


async def test_sandboxes_take_turns_with_their_connections(internet: Internet) -> None:
    gateway = Gateway(internet.resolve, internet.dial)
    done: list[str] = []

    async def flood(name: str, times: int) -> None:
        for _ in range(times):
            await gateway.pause()
            done.append(name)

    await asyncio.gather(flood("many", 5), flood("few", 3))
    assert done[:6] == ["many", "few"] * 3


async def test_a_connection_carries_one_request(internet: Internet) -> None:
    async with running(internet, answering(OK, internet)) as (client, _, _):
        answer = await client.ask(get("http://packages.example.com/one") + get("http://evil.net/two"))
    assert answer.count(b"HTTP/1.1") == 1
    assert [head.split(b" ")[1] for head in internet.requests] == [b"/one"]


async def test_bodies_pass_in_both_directions(internet: Internet) -> None:
    """Longer than all buffers together, chunked and after the host's `100 Continue`."""
    size = 3 * 2**20

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while (line := await reader.readline()) != b"0\r\n":
            writer.write((await reader.readexactly(int(line, 16) + 2))[:-2])
            await writer.drain()

    head = POST + b"Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with running(internet, echo) as (client, _, _):
        reader, writer = await client.open()
        writer.write(head)
        assert b"100" in await reader.readuntil(b"\r\n\r\n")
        reading = asyncio.create_task(reader.read())
        for _ in range(size // 2**15):
            writer.write(b"8000\r\n" + b"x" * 2**15 + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        answer = await reading
        writer.close()
    assert answer.count(b"x") == size


async def test_a_response_may_start_before_the_request_ends(internet: Internet) -> None:
    head = POST + b"Content-Length: 1000000\r\n\r\n"
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!"
    async with running(internet, answering(refusal, internet)) as (client, _, _):
        assert (await client.ask(head)).endswith(b"no!")


async def test_an_invalid_response_is_a_bad_gateway(internet: Internet) -> None:
    async with running(internet, answering(b"SSH-2.0-x\r\n\r\n", internet)) as (client, refusals, _):
        assert (await client.ask(get("http://packages.example.com/"))).startswith(b"HTTP/1.1 502 ")
    assert refusals.described() == ()


async def test_a_truncated_response_is_truncated_for_the_client(internet: Internet) -> None:
    part = b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\npart"
    async with running(internet, answering(part, internet)) as (client, _, _):
        answer = await client.ask(get("http://packages.example.com/"))
    assert b"content-length: 50" in answer.lower()
    assert answer.endswith(b"part")


CONNECT = b"CONNECT packages.example.com:443 HTTP/1.1\r\nHost: elsewhere.example.net\r\n\r\n"


async def echo_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.read(2**16))


@pytest.mark.parametrize("together", [True, False])
async def test_tls_for_the_host_itself_passes(internet: Internet, together: bool) -> None:
    data = hello("packages.example.com")
    pieces = [CONNECT + data] if together else [CONNECT, data[:7], data[7:]]
    async with running(internet, echo_all) as (client, refusals, _):
        answer = await client.ask(*pieces)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(data)
    assert internet.dialed == [(PUBLIC, 443)]
    assert refusals.described() == ()


@pytest.mark.parametrize(
    ("data", "host", "why"),
    [
        (hello("elsewhere.example.net"), "elsewhere.example.net", "requested over a connection"),
        (hello(None), "packages.example.com", "no server name"),
        (b"SSH-2.0-OpenSSH\r\n", "packages.example.com", "only TLS"),
    ],
)
async def test_only_tls_for_the_host_passes_the_tunnel(internet: Internet, data: bytes, host: str, why: str) -> None:
    sent: list[bytes] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent.append(await reader.read())

    async with running(internet, note) as (client, refusals, _):
        answer = await client.ask(CONNECT, data)
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n"
    assert b"".join(sent) == b""
    (sentence,) = refusals.described()
    assert sentence.startswith(host)
    assert why in sentence


async def test_a_handshake_sees_the_certificate_of_the_host(internet: Internet) -> None:
    """The proxy is no party to TLS: a client meets exactly what the host sends."""
    async with running(internet, echo_all) as (client, _, _):
        reader, writer = await client.open()
        writer.write(CONNECT)
        await reader.readuntil(b"\r\n\r\n")
        with pytest.raises(ssl.SSLError):
            await writer.start_tls(ssl.create_default_context(), server_hostname="packages.example.com")
        writer.close()


async def answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if await reader.read(2**16):
        writer.write(OK)


@asynccontextmanager
async def holding(client: Client, count: int) -> AsyncIterator[list[Connection]]:
    """So many tunnels that are open and say nothing."""
    connections = [await client.open() for _ in range(count)]
    try:
        for reader, writer in connections:
            writer.write(CONNECT)
            await reader.readuntil(b"\r\n\r\n")
        yield connections
    finally:
        for _, writer in connections:
            writer.close()


async def test_connections_beyond_a_sessions_limit_wait(internet: Internet) -> None:
    """Also where its commands have a proxy each."""
    async with running(internet, answer_all) as (client, _, gateway), another(gateway, "session") as more:
        async with holding(client, SESSION_CONNECTIONS - 1), holding(more, 1):
            asking = [asyncio.create_task(each.ask(get("http://packages.example.com/"))) for each in (client, more)]
            answered, _ = await asyncio.wait(asking, timeout=0.3)  # one that is not held up takes milliseconds
            assert not answered
        assert all(b"hello" in answer for answer in await asyncio.gather(*asking))


async def test_sessions_that_hold_all_connections_leave_some_to_others(internet: Internet) -> None:
    async with AsyncExitStack() as stack:
        first, _, gateway = await stack.enter_async_context(running(internet, answer_all))
        more = [another(gateway, str(number)) for number in range(1, MAX_CONNECTIONS // SESSION_CONNECTIONS)]
        clients = [first, *[await stack.enter_async_context(each) for each in more]]
        tunnels = [await stack.enter_async_context(holding(each, SESSION_CONNECTIONS)) for each in clients]
        late = await stack.enter_async_context(another(gateway, "late"))
        own = await stack.enter_async_context(holding(late, len(clients)))
        assert [await rest(each[0][0]) for each in tunnels] == [b""] * len(clients), "the oldest ones are closed"
        for reader, writer in (own[0], tunnels[0][-1]):
            writer.write(hello("packages.example.com"))
            assert await rest(reader) == OK, "newer ones stay open"


class SilentNames:
    """A resolver that keeps lookups of names that begin with "silent" until `go` is set."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.asked = asyncio.Semaphore(0)
        self._loop = asyncio.get_running_loop()

    def resolve(self, name: str) -> list[str]:
        if name.startswith("silent"):
            self._loop.call_soon_threadsafe(self.asked.release)
            self.go.wait(10)
        return [PUBLIC]

    async def ask(self, client: Client, count: int) -> list[asyncio.Task[bytes]]:
        """Asks for so many of these names, and waits until as many are looked up as a session may."""
        names = [f"http://silent{number}.example.org/" for number in range(count)]
        tasks = [asyncio.create_task(client.ask(get(name))) for name in names]
        for _ in range(SESSION_LOOKUPS):
            await self.asked.acquire()
        return tasks


async def test_silent_name_servers_delay_only_their_own_sessions(internet: Internet) -> None:
    silent = SilentNames()
    internet.resolve = silent.resolve  # type: ignore[method-assign]
    async with AsyncExitStack() as stack:
        client, _, gateway = await stack.enter_async_context(running(internet, answer_all))
        clients = [client, *[await stack.enter_async_context(another(gateway, str(n))) for n in range(9)]]
        waiting = [task for each in clients for task in await silent.ask(each, SESSION_LOOKUPS + 3)]
        late = await stack.enter_async_context(another(gateway, "late"))
        assert b"hello" in await late.ask(get("http://packages.example.com/"))
        assert silent.asked.locked(), "more lookups of one session than its share were begun"
        silent.go.set()
        await asyncio.gather(*waiting)


async def test_pending_lookups_count_for_the_next_proxy_of_their_session(internet: Internet) -> None:
    """In bubblewrap each command has one."""
    silent = SilentNames()
    internet.resolve = silent.resolve  # type: ignore[method-assign]
    async with running(internet, answer_all) as (_, _, gateway):
        async with another(gateway, "other") as client:
            waiting = await silent.ask(client, SESSION_LOOKUPS)
        await asyncio.gather(*waiting)
        async with another(gateway, "other") as client:
            asking = asyncio.create_task(client.ask(get("http://packages.example.com/")))
            answered, _ = await asyncio.wait({asking}, timeout=0.3)  # one that is not held up takes milliseconds
            assert not answered
            silent.go.set()
            assert b"hello" in await asking


async def test_closing_the_proxy_closes_all_connections(internet: Internet) -> None:
    async with running(internet, echo_all) as (client, _, _):
        reader, writer = await client.open()
        writer.write(CONNECT)
        await reader.readuntil(b"\r\n\r\n")
    assert await rest(reader) == b""
    with pytest.raises(ConnectionError):
        await client.open()
    writer.close()
