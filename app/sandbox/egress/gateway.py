"""What the proxies of all sandboxes share: how names are resolved and addresses dialed, and how much they may use."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from app.sandbox.egress.addresses import may_be_reached
from app.sandbox.egress.refusals import RefusedError
from app.sandbox.egress.sharing import Share, Shares

CONNECT_S = 15.0
"""How long it may take to resolve a name, with the wait for its turn, and to connect to one of its addresses, in
seconds each."""
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


class UnreachableError(Exception):
    """A host that may be reached cannot be; the message says why."""


def _resolve(name: str) -> list[str]:
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def _end_lookup(lookup: asyncio.Future[list[str]], share: Share) -> None:
    """Called when a lookup has ended, even where nobody waits for it any more. Until then it keeps the session's share,
    so that a new proxy of the session does not begin with an empty one."""
    share.lookups.release()
    if not lookup.cancelled():
        lookup.exception()


class Gateway:
    """The server's side of all proxies. `refused` counts what they refused."""

    def __init__(self, resolve: Resolve = _resolve, dial: Dial = asyncio.open_connection) -> None:
        """`resolve` gives the addresses of a name, and blocks; `dial` connects to an address and a port."""
        self.refused = 0
        self.shares = Shares()
        self._turn = asyncio.Lock()
        self._resolve = resolve
        self._dial = dial
        # Its own, since a name server that does not answer must not hold up the threads of everything else.
        self._threads = ThreadPoolExecutor(_RESOLVERS, "egress-resolver")

    async def pause(self) -> None:
        """Lets the event loop do other work before a sandbox's next connection; sandboxes take turns."""
        async with self._turn:
            await asyncio.sleep(ACCEPT_S)

    async def connect(self, name: str, port: int, share: Share) -> Connection:
        """A connection to an allowed name, which is resolved once: what is dialed is what was checked. `share` is the
        session's. Raises `RefusedError` where no address may be reached, and `UnreachableError`."""
        addresses = await self._lookup(name, share)
        allowed = [address for address in addresses if may_be_reached(address)]
        if not allowed:
            raise RefusedError("its name leads to no public address")
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
