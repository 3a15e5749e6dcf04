"""The server under test as a cluster: two nodes for requests and three workers, with PALIMPSEST_TEST_CLUSTER=1.

The nodes are instances of the service in threads of this process. They share nothing in memory: what one needs of
another goes through real Postgres, Temporal and Redis servers. Requests go to the nodes in turn.
"""

from __future__ import annotations

import atexit
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import cycle
from pathlib import Path
from tempfile import mkdtemp
from typing import Self
from unittest.mock import patch

from pydantic import SecretStr

from app.sandbox.host.bubblewrap import BubblewrapFactory
from app.settings import Settings
from scripts.servers.redis import RedisServer
from scripts.servers.temporal import temporal
from tests.behavior.harness import RunningServer, alternate
from tests.databases import in_cluster
from tests.requirements import need

API_NODES, WORKERS = 2, 3

OF_ONE_WORKER = {"max_runs", "max_sandboxes", "max_background_summaries"}
"""Limits that each worker has: a test that sets one of them gets one worker."""

OF_ONE_API_NODE = {"max_readers"}


def start(settings: Settings) -> RunningServer:
    """A server with these settings: a cluster where the tests run against one."""
    return RunningCluster(settings).start() if in_cluster() else RunningServer(settings).start()


def prepare() -> None:
    """Starts Temporal and Redis. Not by a thread that ends before the tests do: they end with the one that starts
    them."""
    for kind in ("temporal", "redis"):
        need(kind)
    temporal()
    broker()


@cache
def broker() -> RedisServer:
    """The Redis server of this process, which its tests share."""
    folder = Path(mkdtemp(prefix="palimpsest-redis-"))
    server = RedisServer(folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.kill)
    return server


_tried: set[str] = set()
"""The ways in which bubblewrap has made a sandbox for a server of this process."""


@contextmanager
def _bubblewrap_tried_once() -> Iterator[None]:
    """Lets a server start without making a sandbox if another one of this process could. Five nodes make five, which
    takes a fifth of a cluster's start."""
    check = BubblewrapFactory.check

    async def once(factory: BubblewrapFactory) -> None:
        if (how := factory.describe()) not in _tried:
            await check(factory)
            _tried.add(how)

    with patch.object(BubblewrapFactory, "check", once):
        yield


_running: dict[Path, RunningCluster] = {}
"""By data directory."""


class RunningCluster(RunningServer):
    """Nodes on one database and one data directory. Each use of `url` gives the next API node's; a `Client` of one of
    them sends its requests to all in turn."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        given = settings.model_fields_set
        self._api = self._nodes("api", 1 if given & OF_ONE_API_NODE else API_NODES)
        self._workers = self._nodes("worker", 1 if given & OF_ONE_WORKER else WORKERS)
        self._urls: Iterator[str] = iter(())

    def _nodes(self, role: str, count: int) -> Sequence[RunningServer]:
        # At its end, a test waits for no step that is under way.
        node = {
            "role": role,
            "temporal": temporal().address,
            "broker": SecretStr(broker().url),
            "drain_s": 0,
            "secret_key": SecretStr("k" * 32),
        }
        return [RunningServer(self.settings.model_copy(update=node)) for _ in range(count)]

    @property
    def url(self) -> str:
        return next(self._urls)

    def start(self) -> Self:
        """Starts all nodes. Those of a cluster before it on the same data are ended first: nodes with different
        settings are no cluster."""
        if (former := _running.get(self.settings.data_dir)) is not None:
            former.stop()
        _running[self.settings.data_dir] = self
        try:
            with _bubblewrap_tried_once(), ThreadPoolExecutor() as pool:
                list(pool.map(RunningServer.start, [*self._api, *self._workers]))
        except BaseException:
            self.stop()
            raise
        urls = [node.url for node in self._api]
        alternate(urls, [node.url for node in self._workers])
        self._urls = cycle(urls)
        return self

    def stop(self) -> None:
        if _running.get(self.settings.data_dir) is self:
            del _running[self.settings.data_dir]
        with ThreadPoolExecutor() as pool:
            list(pool.map(RunningServer.stop, [*self._api, *self._workers]))
