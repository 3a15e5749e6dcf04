"""What the proxies of all sandboxes share: how names are resolved, which addresses may be dialed, how connections are
shared between sessions, and what was refused."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary

CONNECT_S = 15.0
"""Timeout for resolving a name, including the wait for a turn, and for connecting to one of its addresses, in seconds
each."""
_RESOLVERS = 256
"""Threads that resolve names, started when needed. They are enough for 128 sessions with `SESSION_LOOKUPS` each: a
thread that waits for a name server cannot be interrupted."""
_MOST_ADDRESSES = 4
ACCEPT_S = 0.003
"""Between two connections of all sandboxes, in seconds. Each costs the event loop about a millisecond, and a flood of
them would take it from everyone."""
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolve = Callable[[str], list[str]]
Dial = Callable[[str, int], Awaitable[Connection]]

MAX_CONNECTIONS = 128
"""Maximum connections served at the same time, over all sessions; each takes two of the server's descriptors."""
SESSION_CONNECTIONS = 32
"""Maximum connections served at the same time for one session."""
SESSION_LOOKUPS = 2
"""Maximum names resolved at the same time for one session."""

_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
"""All of IANA's global unicast space. Addresses that embed an IPv4 address are outside of it or listed below: mapped,
compatible, translated (64:ff9b::/96 and 64:ff9b:1::/48)."""
_SPECIAL = [
    ipaddress.ip_network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3"),
        "168.63.129.16/32",  # a public number, but on Azure the virtual machine's host answers there
        # IETF protocols with Teredo and ORCHID, documentation, 6to4, documentation
        *("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"),
    )
]
"""The special-purpose registries of IANA (RFC 6890), multicast and reserved addresses, and Azure's WireServer."""

MAX_HOSTS = 10
"""Maximum refused hosts in one result; a model needs no more to understand."""
_MAX_HOST_CHARS = 100


class UnreachableError(Exception):
    """An allowed host cannot be reached; the message says why."""


def _resolve(name: str) -> list[str]:
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def _end_lookup(lookup: asyncio.Future[list[str]], share: Share) -> None:
    """Called when a lookup has ended, even if its caller is gone. Until then it counts against the session's share, so
    that a new proxy of the session does not start with an empty one."""
    share.lookups.release()
    if not lookup.cancelled():
        lookup.exception()


class Gateway:
    """The server's side of all proxies. `refused` counts the refusals."""

    def __init__(self, resolve: Resolve = _resolve, dial: Dial = asyncio.open_connection) -> None:
        """`resolve` returns the addresses of a name, and blocks; `dial` connects to an address and a port."""
        self.refused = 0
        self.shares = Shares()
        self._turn = asyncio.Lock()
        self._resolve = resolve
        self._dial = dial
        # A separate pool, since a name server that does not answer must not block other threads.
        self._threads = ThreadPoolExecutor(_RESOLVERS, "egress-resolver")

    async def pause(self) -> None:
        """Lets the event loop do other work before a sandbox's next connection; sandboxes take turns."""
        async with self._turn:
            await asyncio.sleep(ACCEPT_S)

    async def connect(self, name: str, port: int, share: Share) -> Connection:
        """Connects to an allowed name. The name is resolved once: the address that was checked is the one dialed.
        `share` is the session's. Raises `RefusedError` if no address may be reached, and `UnreachableError`."""
        addresses = await self._lookup(name, share)
        allowed = [address for address in addresses if may_be_reached(address)]
        if not allowed:
            raise RefusedError("its name does not resolve to a public address")
        for address in allowed[:_MOST_ADDRESSES]:
            try:
                async with asyncio.timeout(CONNECT_S):
                    return await self._dial(address, port)
            except (OSError, TimeoutError):
                continue
        raise UnreachableError(f"{name} does not answer on port {port}")

    async def _lookup(self, name: str, share: Share) -> list[str]:
        try:
            async with asyncio.timeout(CONNECT_S):
                await share.lookups.acquire()
                lookup = asyncio.get_running_loop().run_in_executor(self._threads, self._resolve, name)
                lookup.add_done_callback(lambda done: _end_lookup(done, share))
                return list(dict.fromkeys(await asyncio.shield(lookup)))
        except (OSError, UnicodeError, TimeoutError) as exc:
            raise UnreachableError(f"{name} cannot be resolved") from exc

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class Share:
    """One session's share of the connections and lookups."""

    def __init__(self) -> None:
        self.lookups = asyncio.Semaphore(SESSION_LOOKUPS)
        self.served: dict[asyncio.Task[Any], None] = {}
        """Tasks of connections being served, oldest first."""
        self.waiting: dict[asyncio.Task[Any], asyncio.Future[None]] = {}
        """Tasks of connections waiting to be served, oldest first."""

    @property
    def is_full(self) -> bool:
        return len(self.served) >= SESSION_CONNECTIONS


class Shares:
    """The shares of all sessions.

    If all connections are in use, a session that needs another one gets it from the session with the most, which closes
    its oldest, unless the first has nearly as many itself. When a connection ends, the session with the fewest is next.
    """

    def __init__(self) -> None:
        self._shares: WeakValueDictionary[str, Share] = WeakValueDictionary()

    def of(self, session: str) -> Share:
        """The share of a session, the same for all its proxies."""
        return self._shares.setdefault(session, Share())

    @asynccontextmanager
    async def serving(self, share: Share) -> AsyncIterator[None]:
        """Waits until the current task may serve a connection, which it may inside the context. The task is cancelled
        to hand its connection to another session."""
        task = asyncio.current_task()
        assert task is not None
        try:
            await self._enter(share, task)
            yield
        finally:
            self._leave(share, task)

    async def _enter(self, share: Share, task: asyncio.Task[Any]) -> None:
        largest = max(self._shares.values(), key=lambda each: len(each.served))
        is_free = sum(len(each.served) for each in self._shares.values()) < MAX_CONNECTIONS
        # A session that would then have the most must wait, or two would keep closing each other's connections.
        if share.is_full or not (is_free or len(largest.served) > len(share.served) + 1):
            share.waiting[task] = asyncio.get_running_loop().create_future()
            await share.waiting[task]
            return
        if not is_free:
            _close_oldest(largest)
        share.served[task] = None

    def _leave(self, share: Share, task: asyncio.Task[Any]) -> None:
        share.waiting.pop(task, None)
        if task in share.served:  # it was not closed for another session
            del share.served[task]
            self._serve_next()

    def _serve_next(self) -> None:
        waiting = [share for share in self._shares.values() if share.waiting and not share.is_full]
        if waiting:
            share = min(waiting, key=lambda each: len(each.served))
            task = next(iter(share.waiting))
            turn = share.waiting.pop(task)
            share.served[task] = None
            if not turn.done():  # a task that was just cancelled leaves on its own
                turn.set_result(None)


def _close_oldest(share: Share) -> None:
    oldest = next(iter(share.served))
    del share.served[oldest]
    oldest.cancel()


def is_public(text: str) -> bool:
    """Whether an address is global unicast. An address with a zone is not."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and (address not in _GLOBAL_V6 or address.scope_id):
        return False
    return not any(address in network for network in _SPECIAL if network.version == address.version)


def is_own(text: str) -> bool:
    """Whether an address is this machine's, including public ones of its interfaces: only those can be bound. An
    unexpected error from the kernel counts as yes."""
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((text, 0))
    except OSError as exc:
        return exc.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
    return True


def may_be_reached(text: str) -> bool:
    """Whether a sandbox may be connected to an address."""
    return is_public(text) and not is_own(text)


class RefusedError(Exception):
    """The proxy refuses a connection. `reason` says why, for the model; `host` is the refused host if it is not the one
    in the request."""

    def __init__(self, reason: str, host: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.host = host


class Refusals:
    """The refusals of one command, each host once, at most `MAX_HOSTS` of them."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}
        self._more = False

    def add(self, host: str, reason: str) -> None:
        host = printable(host)
        if host in self._reasons:
            return
        if len(self._reasons) == MAX_HOSTS:
            self._more = True
            return
        self._reasons[host] = reason

    def described(self) -> tuple[str, ...]:
        """A sentence for each host."""
        sentences = tuple(f"{host} was refused: {reason}" for host, reason in self._reasons.items())
        return (*sentences, "further hosts were refused") if self._more else sentences


def printable(host: str) -> str:
    """A host as written by a program in the sandbox, short and without control characters."""
    shown = "".join(char if char.isascii() and char.isprintable() else "?" for char in host)
    return shown if len(shown) <= _MAX_HOST_CHARS else f"{shown[:_MAX_HOST_CHARS]}..."
