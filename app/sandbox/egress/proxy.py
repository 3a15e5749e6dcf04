"""The proxy of one sandbox and its port inside it: HTTP and TLS pass to the hosts that the session may reach, nothing
else does."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from typing import Any

import h11

from app.errors import SandboxUnavailableError
from app.sandbox.egress.gateway import Gateway, Refusals, RefusedError, UnreachableError, printable
from app.sandbox.egress.listener import PORT, open_listener
from app.sandbox.egress.requests import (
    READ_BYTES,
    BadRequestError,
    Peer,
    Target,
    named_host,
    passed_back,
    passed_on,
    server_name,
    target_of,
)
from app.sessions import is_covered

RETRY_S = 0.1
HEAD_S = 15.0
"""Timeout for a request's head, and for the first TLS message, in seconds."""
IDLE_S = 300.0
"""Idle timeout of a connection, in seconds: some servers take minutes to answer."""
LINGER_S = 2.0
"""Seconds to keep reading from a refused client, so that it sees the refusal."""


class Proxy:
    """Serves the connections of one sandbox. `session` is the session it belongs to, and `hosts` are the patterns of
    allowed hosts."""

    def __init__(self, gateway: Gateway, session: str, hosts: tuple[str, ...]) -> None:
        self._gateway = gateway
        self._share = gateway.shares.of(session)
        self._hosts = hosts
        self._tasks: set[asyncio.Task[None]] = set()
        self._noted: list[Refusals] = []

    def serve(self, listener: socket.socket) -> None:
        """Starts serving connections of a listening socket, which `close` closes."""
        self._start(self._accept(listener))

    async def close(self) -> None:
        """Ends all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @contextmanager
    def noting(self, refusals: Refusals) -> Iterator[None]:
        """Collects the refusals inside the context."""
        self._noted.append(refusals)
        try:
            yield
        finally:
            self._noted.remove(refusals)

    async def _accept(self, listener: socket.socket) -> None:
        """Accepts only as many connections as are served, and slowly enough to leave time for others on the event loop;
        the rest wait in the kernel."""
        listener.setblocking(False)
        with listener:
            while True:
                connection = await self._next(listener)
                served = asyncio.Event()
                self._start(self._serve(connection, served)).add_done_callback(partial(_set, served))
                await served.wait()
                await self._gateway.pause()

    async def _next(self, listener: socket.socket) -> socket.socket:
        while True:
            try:
                return (await asyncio.get_running_loop().sock_accept(listener))[0]
            except OSError:  # out of descriptors, or the client has left
                await asyncio.sleep(RETRY_S)

    async def _serve(self, connection: socket.socket, served: asyncio.Event) -> None:
        """Serves a connection, and sets `served` once that starts."""
        reader, writer = await asyncio.open_connection(sock=connection)
        try:
            async with self._gateway.shares.serving(self._share):
                served.set()
                await self._answer(Peer(h11.SERVER, reader, writer))
                writer.close()
                async with asyncio.timeout(IDLE_S):
                    await writer.wait_closed()
        except (OSError, TimeoutError, h11.ProtocolError):
            pass  # a client that disconnected gets no response
        finally:
            writer.transport.abort()

    async def _answer(self, client: Peer) -> None:
        host = ""
        try:
            async with asyncio.timeout(HEAD_S):
                request = await client.event()
            if not isinstance(request, h11.Request):
                return
            host = named_host(request)
            await self._pass(client, request, target_of(request))
        except RefusedError as refusal:
            host = refusal.host or host
            self._note(host, refusal.reason)
            await _say(client, 403, f"{printable(host)} was refused: {refusal.reason}")
        except UnreachableError as error:
            await _say(client, 502, str(error))
        except (BadRequestError, h11.RemoteProtocolError) as error:
            await _say(client, 400, str(error))

    def _note(self, host: str, reason: str) -> None:
        self._gateway.refused += 1
        for refusals in self._noted:
            refusals.add(host, reason)

    async def _pass(self, client: Peer, request: h11.Request, target: Target) -> None:
        if not is_covered(target.host, self._hosts):
            raise RefusedError("it is not among the session's allowed_hosts")
        reader, writer = await self._gateway.connect(target.host, target.port, self._share)
        host = Peer(h11.CLIENT, reader, writer)
        try:
            await (_tunnel(client, host, target) if target.path is None else _relay(client, host, request, target))
        finally:
            writer.transport.abort()


def _set(event: asyncio.Event, _: asyncio.Task[None]) -> None:
    event.set()


async def _tunnel(client: Peer, host: Peer, target: Target) -> None:
    """Forwards a connection once its first message proves that it is TLS to the checked host."""
    await client.event()  # the end of the request
    await client.send(h11.Response(status_code=200, headers=[], reason=b"Connection established"))
    hello = client.surplus
    async with asyncio.timeout(HEAD_S):
        while (name := server_name(hello)) is None:
            if not (piece := await client.reader.read(READ_BYTES)):
                return
            hello += piece
    if name != target.host:
        raise RefusedError(f"it was requested over a connection to {target.host}", name)
    host.writer.write(hello)
    async with asyncio.timeout(IDLE_S) as limit:
        alive = _restart(limit)
        await _both(_copy(client, host, alive), _copy(host, client, alive))


async def _copy(source: Peer, sink: Peer, alive: Callable[[], None]) -> None:
    while piece := await source.reader.read(READ_BYTES):
        alive()
        sink.writer.write(piece)
        await sink.writer.drain()
    sink.writer.write_eof()


async def _relay(client: Peer, host: Peer, request: h11.Request, target: Target) -> None:
    """Forwards one request and returns its response."""
    await host.send(passed_on(request, target))
    async with asyncio.timeout(IDLE_S) as limit:
        alive = _restart(limit)
        await _both(_send_body(client, host, alive), _send_answer(host, client, alive))


async def _send_body(client: Peer, host: Peer, alive: Callable[[], None]) -> None:
    while not isinstance(event := await client.event(), h11.EndOfMessage):
        alive()
        if not isinstance(event, h11.Data):
            raise ConnectionAbortedError("the request ended unexpectedly")
        with suppress(ConnectionError):  # the host may respond before it has read everything
            await host.send(h11.Data(data=bytes(event.data)))
    with suppress(ConnectionError):
        await host.send(h11.EndOfMessage())


async def _send_answer(host: Peer, client: Peer, alive: Callable[[], None]) -> None:
    try:
        while not isinstance(event := await host.event(), h11.EndOfMessage):
            alive()
            match event:
                case h11.Response():
                    await client.send(passed_back(event))
                case h11.Data():
                    await client.send(h11.Data(data=bytes(event.data)))
    except h11.RemoteProtocolError as exc:
        raise UnreachableError("the host's answer cannot be read") from exc
    await client.send(h11.EndOfMessage())


async def _both(sending: Coroutine[Any, Any, None], answering: Coroutine[Any, Any, None]) -> None:
    """Runs both until the response has ended; an error in either ends the other."""
    tasks = sender, answer = asyncio.create_task(sending), asyncio.create_task(answering)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if sender.done():
            sender.result()
        await answer
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _restart(limit: asyncio.Timeout) -> Callable[[], None]:
    loop = asyncio.get_running_loop()
    return lambda: limit.reschedule(loop.time() + IDLE_S)


async def _say(client: Peer, status: int, text: str) -> None:
    """Responds in place of the host, unless the response has already started."""
    if client.has_answered:
        return
    body = f"{text}.\n".encode()
    headers = [
        ("content-type", "text/plain; charset=utf-8"),
        ("content-length", str(len(body))),
        ("connection", "close"),
    ]
    await client.send(h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase.encode()))
    await client.send(h11.Data(data=body))
    await client.send(h11.EndOfMessage())
    client.writer.write_eof()
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while await client.reader.read(READ_BYTES):
                pass


class PortTakenError(Exception):
    """A process in the sandbox already listens on the proxy's port."""


async def enter(pid: int, mark: str = "") -> socket.socket:
    """Opens the listening socket in the network of a process, which has `mark` among its mounts. Raises
    `PortTakenError`, and `SandboxUnavailableError` if that network cannot be entered."""
    try:
        return await asyncio.to_thread(open_listener, pid, mark)
    except OSError as exc:
        if exc.errno == errno.EADDRINUSE:
            raise PortTakenError from exc
        raise unavailable(f"its network cannot be entered ({exc})") from exc


def unavailable(reason: str) -> SandboxUnavailableError:
    """The error for a session that cannot be limited to its hosts; its commands do not run."""
    return SandboxUnavailableError(
        f"The sandbox cannot be limited to allowed_hosts: {reason}.", code="allowed_hosts_unavailable"
    )


def environment() -> dict[str, str]:
    """The variables that name the proxy, in both spellings: curl reads `http_proxy` only in lower case."""
    proxy, direct = f"http://127.0.0.1:{PORT}", "localhost,127.0.0.1,::1"
    names = {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": direct}
    return {**names, **{name.lower(): value for name, value in names.items()}}
