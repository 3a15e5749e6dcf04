"""What the proxies of all sandboxes share: how names are resolved and addresses dialed, and how much they may use."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from app.sandbox.egress.addresses import may_be_reached
from app.sandbox.egress.refusals import RefusedError

CONNECT_S = 15.0
"""How long it may take to resolve a name, and to connect to one of its addresses, in seconds each."""
MAX_CONNECTIONS = 128
"""Connections of all sandboxes that are served at the same time; each takes two descriptors of the server's."""
_RESOLVERS = 8
_MOST_ADDRESSES = 4

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolve = Callable[[str], list[str]]
Dial = Callable[[str, int], Awaitable[Connection]]


class UnreachableError(Exception):
    """A host that may be reached cannot be; the message says why."""


def _resolve(name: str) -> list[str]:
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def _end_turn(lookup: asyncio.Future[list[str]], turn: asyncio.Semaphore) -> None:
    """Called when a lookup has ended, even where nobody waits for it any more."""
    turn.release()
    if not lookup.cancelled():
        lookup.exception()


class Gateway:
    """The server's side of all proxies. `refused` counts what they refused."""

    def __init__(self, resolve: Resolve = _resolve, dial: Dial = asyncio.open_connection) -> None:
        """`resolve` gives the addresses of a name, and blocks; `dial` connects to an address and a port."""
        self.refused = 0
        self.slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self._resolve = resolve
        self._dial = dial
        # Its own, since a name server that does not answer must not hold up the threads of everything else.
        self._threads = ThreadPoolExecutor(_RESOLVERS, "egress-resolver")

    async def connect(self, name: str, port: int, turn: asyncio.Semaphore) -> Connection:
        """A connection to an allowed name, which is resolved once: what is dialed is what was checked. `turn` bounds
        the lookups of one sandbox. Raises `RefusedError` where no address may be reached, and `UnreachableError`."""
        addresses = await self._lookup(name, turn)
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

    async def _lookup(self, name: str, turn: asyncio.Semaphore) -> list[str]:
        await turn.acquire()
        lookup = asyncio.get_running_loop().run_in_executor(self._threads, self._resolve, name)
        lookup.add_done_callback(lambda done: _end_turn(done, turn))
        try:
            async with asyncio.timeout(CONNECT_S):
                return list(dict.fromkeys(await asyncio.shield(lookup)))
        except (OSError, UnicodeError, TimeoutError) as exc:
            raise UnreachableError(f"{name} cannot be resolved") from exc

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
