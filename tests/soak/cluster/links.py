"""The ways from nodes to services: a proxy each, which can refuse, drop or stall its connections.

The proxies run in a process of their own, so that they are not slowed down by what the rig does; it is controlled by
lines of JSON on its standard input.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import uvloop

from tests.passing_on import PassedOn, Streams

ROOT = Path(__file__).resolve().parents[3]
How = Literal["cut", "stall", "flow"]
"""Refuse and drop connections; keep them and pass nothing on; work."""


class Links:
    """The proxies, as a process of this one. `targets` are the services by the link's name: `HOST:PORT`, or the path of
    a Unix socket."""

    def __init__(self, targets: Mapping[str, str]) -> None:
        command = ["setpriv", "--pdeathsig=KILL", sys.executable, "-m", __name__]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._ports: dict[str, int] = self._say(dict(targets))

    def port(self, name: str) -> int:
        """Where the link's service is reached, on 127.0.0.1."""
        return self._ports[name]

    def set(self, names: Iterable[str], how: How) -> None:
        """Changes some links."""
        self._say({"names": sorted(names), "how": how})

    def close(self) -> None:
        self._process.kill()
        self._process.wait(10)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _say(self, message: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


class _Link:
    """One proxy."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._passed_on = PassedOn(self._connect)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self._listener.getsockname()[1]
        self._server: asyncio.Server | None = None

    async def _connect(self) -> Streams | None:
        host, _, port = self._target.rpartition(":")
        if host:
            return await asyncio.open_connection(host, int(port))
        return await asyncio.open_unix_connection(self._target)

    async def set(self, how: How) -> None:
        if how == "stall":
            await self._passed_on.stall()
            return
        await self._passed_on.flow()
        if how == "cut":
            server, self._server = self._server, None
            if server is not None:
                server.close()
            await self._passed_on.drop()
        elif self._server is None:
            self._server = await asyncio.start_server(
                self._passed_on.accept, "127.0.0.1", self.port, backlog=512, reuse_address=True
            )

    async def begin(self) -> None:
        self._listener.close()
        await self.set("flow")


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    links: dict[str, _Link] = {}
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        message = json.loads(line)
        if not links:
            links = {name: _Link(target) for name, target in message.items()}
            for link in links.values():
                await link.begin()
            _answer({name: link.port for name, link in links.items()})
        else:
            await _set(links, message["names"], message["how"])
            _answer("done")


async def _set(links: Mapping[str, _Link], names: Collection[str], how: How) -> None:
    for name in names:
        await links[name].set(how)


def _answer(message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    uvloop.run(_serve())
