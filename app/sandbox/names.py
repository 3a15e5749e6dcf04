"""Looks up the addresses of names in its own threads, so that a name server that does not answer delays nothing
else."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

Resolve = Callable[[str], list[str]]

_THREADS = 64
"""Threads that resolve names, and do nothing else: one that waits for a name server cannot be interrupted."""


def resolve(host: str) -> list[str]:
    """The addresses of a name. Blocks; raises `OSError` or `UnicodeError`."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


class Resolver:
    """One lookup of a name at a time: its name server may not answer, and must not take the threads of others."""

    def __init__(self, resolve: Resolve = resolve) -> None:
        self._resolve = resolve
        self._threads = ThreadPoolExecutor(_THREADS, "resolver")
        self._lookups: dict[str, asyncio.Future[list[str]]] = {}

    async def addresses(self, host: str) -> list[str]:
        """The addresses of a name now, each once. Raises `OSError` or `UnicodeError` if it cannot be resolved."""
        if (lookup := self._lookups.get(host)) is None:
            lookup = asyncio.get_running_loop().run_in_executor(self._threads, self._resolve, host)
            self._lookups[host] = lookup
            lookup.add_done_callback(partial(self._looked_up, host))
        return list(dict.fromkeys(await asyncio.shield(lookup)))

    def _looked_up(self, host: str, lookup: asyncio.Future[list[str]]) -> None:
        """Its error is for those who wait; there may be nobody left."""
        del self._lookups[host]
        if not lookup.cancelled():
            lookup.exception()

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
