"""The proxy of tests in which a network fails."""

from __future__ import annotations

import asyncio
import gc
import socket

from tests.passing_on import PassedOn


async def _close_after(turns: int, target: tuple[str, int]) -> None:
    """Closes a proxy so many turns of the loop after a client has connected."""
    links = PassedOn(lambda: asyncio.open_connection(*target))
    proxy = await asyncio.start_server(links.accept, "127.0.0.1", 0)
    with socket.create_connection(proxy.sockets[0].getsockname()):
        for _ in range(turns):
            await asyncio.sleep(0)
        await links.close(proxy)


def test_no_connection_is_left_open_at_whatever_instant_it_is_closed() -> None:
    for turns in range(12):
        with socket.create_server(("127.0.0.1", 0)) as target, asyncio.Runner() as runner:
            runner.run(_close_after(turns, target.getsockname()))
    # Once for all: it goes through everything that the tests before have left in memory.
    gc.collect()  # fails the test with asyncio's warning
