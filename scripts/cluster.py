"""Starts a cluster on this machine, as `make cluster` does, without containers: Postgres, Temporal's development server
and Redis from what is installed, API nodes behind a small proxy, and workers. To try things out, and to break them:
kill any of its processes.

The nodes share a data directory, as on one machine with several processes. With `--separate` each has its own, as on
machines of their own: then a workspace moves through the store, a folder here. Needs a checkout, `make install`, and
Debian's packages postgresql and redis-server. Everything listens on loopback only. Settings for the nodes, such as keys
of providers, come from the environment and from `.env`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import quote

import httpx

from scripts.proxy import Proxy
from scripts.servers import postgres, redis, temporal

DATABASE = "palimpsest"
DRAIN_S = 10
"""Seconds that workers let current steps take to end after Ctrl-C, unless PALIMPSEST_DRAIN_S is set. The next start
with the same data continues what was interrupted."""
READY_S = 60.0
END_S = 60.0
"""Seconds beyond the drain after which a node is killed."""
LOG_TAIL = 2000


class StartError(Exception):
    """The cluster cannot be started; the text says why."""


@dataclass(frozen=True, slots=True)
class Servers:
    """The addresses of what the nodes share, as their settings."""

    database: str
    engine: str
    broker: str
    store: str

    @property
    def settings(self) -> dict[str, str]:
        return {
            "PALIMPSEST_DATABASE_URL": self.database,
            "PALIMPSEST_TEMPORAL": self.engine,
            "PALIMPSEST_BROKER": self.broker,
            "PALIMPSEST_WORKSPACE_STORE": self.store,
        }


@contextmanager
def servers(folder: Path) -> Iterator[Servers]:
    """Postgres, Temporal, Redis and a folder for workspaces, with their data in `folder`, which are kept."""
    for name in ("postgres", "temporal", "redis", "store"):
        (folder / name).mkdir(exist_ok=True)
    try:
        database = postgres.Server(folder / "postgres")
    except subprocess.CalledProcessError as error:
        reason = "Its account must be able to reach this folder; under root, that is `postgres`."
        raise StartError(f"Postgres cannot be set up in {folder / 'postgres'}. {reason}") from error
    except AssertionError as error:
        raise StartError(f"Postgres cannot be started in {folder / 'postgres'}: {error}") from error
    try:
        cluster = postgres.Cluster(database.folder)
        if not cluster.has(DATABASE):
            cluster.create(DATABASE)
        engine = temporal.Temporal(folder / "temporal")
        try:
            broker = redis.RedisServer(folder / "redis")
            try:
                store = f"file://{quote(str(folder / 'store'))}"
                yield Servers(cluster.url(DATABASE), engine.address, broker.url, store)
            finally:
                broker.kill()
        finally:
            engine.stop()
    finally:
        database.stop(signal.SIGINT)


@dataclass
class Node:
    """A node as a process of this one."""

    name: str
    role: str
    port: int
    log: Path
    settings: dict[str, str]
    process: asyncio.subprocess.Process | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    async def start(self) -> None:
        """Starts it and waits until it is ready. Raises `StartError`."""
        serve = [sys.executable, "-m", "app", "serve", "--role", self.role, "--port", str(self.port)]
        # It ends with this process, however that ends, and not by the terminal's Ctrl-C: workers end before API nodes.
        argv = ["setpriv", "--pdeathsig=KILL", *serve]
        with self.log.open("a") as log:
            self.process = await asyncio.create_subprocess_exec(
                *argv, env={**os.environ, **self.settings}, stdout=log, stderr=log, start_new_session=True
            )
        try:
            async with asyncio.timeout(READY_S), httpx.AsyncClient(trust_env=False) as client:
                while self.process.returncode is None and not await self._is_ready(client):  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise StartError(f"{self.name} is not ready after {READY_S:.0f} s: {self._tail()}") from None
        if self.process.returncode is not None:
            raise StartError(f"{self.name} ended: {self._tail()}")

    async def _is_ready(self, client: httpx.AsyncClient) -> bool:
        try:
            return (await client.get(f"{self.url}/readyz")).status_code == 200
        except httpx.TransportError:
            return False

    def _tail(self) -> str:
        return f"{self.log}\n{self.log.read_text(errors='replace')[-LOG_TAIL:]}"

    async def watch(self) -> None:
        """Reports its end."""
        assert self.process is not None
        code = await self.process.wait()
        how = signal.Signals(-code).name if code < 0 else f"status {code}"
        print(f"{self.name} (pid {self.pid}) has ended: {how}", flush=True)

    async def end(self) -> None:
        """Has it end as at a deploy, and kills it if it does not."""
        if self.process is None or self.process.returncode is not None:
            return
        self.process.terminate()
        try:
            async with asyncio.timeout(float(self.settings["PALIMPSEST_DRAIN_S"]) + END_S):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()


def make_nodes(options: argparse.Namespace, folder: Path, shared: Servers) -> list[Node]:
    """The nodes of the cluster, not started yet: first the API nodes."""
    nodes = []
    for role, count in (("api", options.api), ("worker", options.workers)):
        for number in range(1, count + 1):
            name = f"{role}-{number}"
            data = folder / "nodes" / (name if options.separate else "shared")
            data.mkdir(mode=0o700, parents=True, exist_ok=True)
            settings = {
                "PALIMPSEST_DRAIN_S": os.environ.get("PALIMPSEST_DRAIN_S", str(DRAIN_S)),
                "PALIMPSEST_LOG_FORMAT": "json",
                "PALIMPSEST_DATA_DIR": str(data),
                **shared.settings,
            }
            nodes.append(Node(name, role, redis.free_port(), folder / "logs" / f"{name}.log", settings))
    return nodes


@asynccontextmanager
async def running(nodes: Sequence[Node]) -> AsyncIterator[None]:
    """The nodes, ready. Leaving the context ends them, workers first."""
    async with AsyncExitStack() as stack:
        for role in ("api", "worker"):
            stack.push_async_callback(_end_all, [node for node in nodes if node.role == role])
        # The first one makes the database's tables.
        await nodes[0].start()
        await asyncio.gather(*(node.start() for node in nodes[1:]))
        yield


async def _end_all(nodes: Sequence[Node]) -> None:
    await asyncio.gather(*(node.end() for node in nodes))


def describe(url: str, nodes: Sequence[Node], shared: Servers, folder: Path) -> str:
    """What the user is shown, once everything is ready."""
    lines = [f"  {node.name:<10} {node.url}  pid {node.pid}" for node in nodes]
    return "\n".join(
        [
            f"The cluster is ready at {url}",
            "",
            *lines,
            f"  database   {shared.database}",
            f"  engine     {shared.engine}",
            f"  broker     {shared.broker}",
            f"  store      {shared.store}",
            f"  logs       {folder / 'logs'}",
            "",
            f'Run a session with `palimpsest run --server {url} "…"`, then `kill -9` the worker whose log names it:',
            "another one continues. Ctrl-C stops everything.",
        ]
    )


async def run(options: argparse.Namespace, folder: Path, shared: Servers) -> None:
    """Runs the nodes and the proxy until a signal."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    nodes = make_nodes(options, folder, shared)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running(nodes))
        proxy = Proxy([node.port for node in nodes if node.role == "api"])
        url = await stack.enter_async_context(proxy.listening(options.port))
        print(describe(url, nodes, shared, folder), flush=True)
        watchers = [asyncio.create_task(node.watch()) for node in nodes]
        await stop.wait()
        print("Stopping: workers let their current steps end.", flush=True)
        for watcher in watchers:
            watcher.cancel()


def missing() -> list[str]:
    """What has to be installed first."""
    found = [module.missing() for module in (postgres, temporal, redis)]
    return [why for why in found if why is not None]


@contextmanager
def data_folder(given: Path | None) -> Iterator[Path]:
    """The given folder, or one that is removed at the end."""
    folder = Path(mkdtemp(prefix="palimpsest-cluster-")) if given is None else given.absolute()
    if not folder.exists() or given is None:
        folder.mkdir(parents=True, exist_ok=True)
        # Postgres runs as an account of its own and has to reach its folder in there; each part protects itself.
        folder.chmod(0o711)
    for name in ("logs", "nodes"):
        (folder / name).mkdir(mode=0o700, exist_ok=True)
    try:
        yield folder
    finally:
        if given is None:
            shutil.rmtree(folder, ignore_errors=True)


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.cluster", description=__doc__.split("\n\n")[0])
    parser.add_argument("--workers", type=positive, default=3, metavar="N", help="workers (3)")
    parser.add_argument("--api", type=positive, default=2, metavar="N", help="API nodes (2)")
    parser.add_argument("--port", type=int, default=8000, help="port of the proxy before the API nodes; 0 takes any")
    parser.add_argument("--data", type=Path, metavar="DIR", help="keeps all data here; otherwise they are removed")
    parser.add_argument("--separate", action="store_true", help="gives each node its own data directory")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs until Ctrl-C; the exit status."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    if absent := missing():
        print("\n".join(absent), file=sys.stderr)
        return 1
    try:
        with data_folder(options.data) as folder, servers(folder) as shared:
            asyncio.run(run(options, folder, shared))
    except (StartError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
