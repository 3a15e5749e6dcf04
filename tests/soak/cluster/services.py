"""The services of a run, each for real and of the run's own: Postgres, Temporal, Redis, moto's S3."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.db.backends import backend_of
from app.db.migrate import upgrade
from scripts.servers import postgres
from scripts.servers.redis import RedisServer
from scripts.servers.temporal import Temporal
from tests.s3 import CREDENTIALS, S3Server, running_s3
from tests.soak.cluster import writes
from tests.soak.cluster.links import Links
from tests.soak.cluster.plan import SERVICES

DATABASE = "soak"
BUCKET_URL = "s3://workspaces/soak?endpoint=http://127.0.0.1:{}"


@dataclass(slots=True)
class Services:
    """What nodes need, and the links that lead to it from each of them."""

    postgres: postgres.Server
    temporal: Temporal
    redis: RedisServer
    s3: S3Server | None
    links: Links

    @property
    def database_url(self) -> str:
        """The database, past all links."""
        return postgres.Cluster(self.postgres.folder).url(DATABASE)

    def settings(self, name: str) -> dict[str, str]:
        """The settings of a node that uses them through its own links."""
        database, broker, engine, store = (self.links.port(f"{name}/{service}") for service in SERVICES)
        found = {
            "PALIMPSEST_DATABASE_URL": f"postgresql+psycopg://{name}@127.0.0.1:{database}/{DATABASE}",
            "PALIMPSEST_BROKER": f"redis://127.0.0.1:{broker}",
            "PALIMPSEST_TEMPORAL": f"127.0.0.1:{engine}",
        }
        if self.s3 is None:
            return found
        return {**found, "PALIMPSEST_WORKSPACE_STORE": BUCKET_URL.format(store), **CREDENTIALS}

    async def away(self, service: str, seconds: float) -> None:
        """Ends a service, and starts it again after so long. The store is only frozen, as it keeps all in memory."""
        end: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
            "database": (self.postgres.stop, self.postgres.start),
            "engine": (self.temporal.stop, self.temporal.start),
            "broker": (self.redis.kill, self.redis.start),
        }
        if self.s3 is not None:
            end["store"] = (self.s3.stop, self.s3.resume)
        stop, start = end[service]
        await asyncio.to_thread(stop)
        try:
            await asyncio.sleep(seconds)
        finally:
            await asyncio.to_thread(start)


@contextmanager
def running_services(folder: Path, nodes: list[str], *, has_store: bool) -> Iterator[Services]:
    """All services, with an empty database for these nodes."""
    with ExitStack() as stack:
        server = postgres.Server(durable=True)
        stack.callback(server.remove)
        temporal = Temporal()
        stack.callback(temporal.remove)
        redis = RedisServer(folder)
        stack.callback(redis.kill)
        s3 = stack.enter_context(running_s3()) if has_store else None
        targets = {
            "database": str(server.folder / ".s.PGSQL.5432"),
            "broker": f"127.0.0.1:{redis.port}",
            "engine": temporal.address,
            "store": f"127.0.0.1:{s3.port if s3 is not None else redis.port}",
        }
        links = Links({f"{node}/{service}": target for node in nodes for service, target in targets.items()})
        stack.callback(links.close)
        services = Services(server, temporal, redis, s3, links)
        postgres.Cluster(server.folder).create(DATABASE)
        upgrade(services.database_url)
        engine = backend_of(services.database_url).migrating()
        writes.install(engine, nodes)
        engine.dispose()
        yield services
