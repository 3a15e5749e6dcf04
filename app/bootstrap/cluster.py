"""Whether this server is a node of a cluster, and which one. Only here is `app.cluster` imported, and only if it is."""

from __future__ import annotations

import asyncio
import re
import socket
from importlib.util import find_spec
from typing import TYPE_CHECKING

import structlog

from app.db.backends import backend_of
from app.db.postgres import PostgresServer
from app.runtime.registry import RunBounds
from app.runtime.setup import RuntimeSetup
from app.runtime.telemetry.health import ComponentCheck, checked
from app.runtime.telemetry.metrics import Metrics
from app.settings import Settings

if TYPE_CHECKING:
    from app.cluster.engine import EngineAddress
    from app.cluster.node import Node

TASK_QUEUE = "palimpsest-"

WILDCARDS = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not bound to
"""Hosts that stand for all addresses of a machine."""

log = structlog.get_logger(__name__)

_HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:]+\]|[^:/@\s]+):[0-9]{1,5}")


def cluster_problem(settings: Settings) -> str | None:
    """Why this server cannot be the node that its settings say; None if it can, or is none."""
    if settings.temporal is None:
        needs = "needs a cluster: set PALIMPSEST_TEMPORAL to its Temporal server"
        return f"PALIMPSEST_ROLE={settings.role} {needs}." if settings.role != "all" else None
    if not _HOST_AND_PORT.fullmatch(settings.temporal):
        return "PALIMPSEST_TEMPORAL must be like HOST:7233, without a scheme; PALIMPSEST_TEMPORAL_TLS turns on TLS."
    if settings.node_address is not None and not _HOST_AND_PORT.fullmatch(settings.node_address):
        return "PALIMPSEST_NODE_ADDRESS must be like 10.0.0.5:8000, without a scheme."
    if find_spec("temporalio") is None:
        return "PALIMPSEST_TEMPORAL needs a client that is not installed: pip install 'palimpsest[cluster]'."
    if not isinstance(backend_of(settings.url), PostgresServer):
        return (
            "PALIMPSEST_TEMPORAL makes this server a node of a cluster, which needs a Postgres database that all nodes"
            " reach: set PALIMPSEST_DATABASE_URL."
        )
    return None


async def cluster_node(settings: Settings, setup: RuntimeSetup, bounds: RunBounds, instance_id: str) -> Node | None:
    """This server's node, None for a server on its own. Nodes of one database share a task queue, so that one Temporal
    server may serve several clusters."""
    if settings.temporal is None:
        return None
    from app.cluster.node import Node

    engine = engine_address(settings, settings.temporal, instance_id)
    own = await asyncio.to_thread(node_address, settings)
    return await Node.at(engine, setup, bounds, settings.role, own)


def node_address(settings: Settings) -> str | None:
    """HOST:PORT at which other nodes reach this one; None if that cannot be told now. Blocks, since names are looked
    up."""
    if settings.node_address is not None or settings.temporal is None:
        return settings.node_address
    host = _address_toward(settings.temporal) if settings.host in WILDCARDS else settings.host
    if host is None:
        return None
    return f"[{host}]:{settings.port}" if ":" in host else f"{host}:{settings.port}"


def _address_toward(target: str) -> str | None:
    """The address of this machine in the network through which it reaches `target`. Nothing is sent."""
    host, _, port = target.rpartition(":")
    try:
        family, kind, _, _, address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError as error:
        log.warning("node_address_unknown", target=target, reason=str(error))
        return None


def engine_address(settings: Settings, target: str, instance_id: str) -> EngineAddress:
    """The engine at `target`, and the task queue of a database."""
    from app.cluster.engine import EngineAddress

    key = settings.temporal_api_key
    return EngineAddress(
        target,
        settings.temporal_namespace,
        settings.temporal_tls,
        None if key is None else key.get_secret_value(),
        f"{TASK_QUEUE}{instance_id}",
    )


def add_node_sources(metrics: Metrics, node: Node | None, setup: RuntimeSetup) -> None:
    """Adds the metrics of a node."""
    if node is not None:
        from app.cluster.metrics import add_cluster_sources

        add_cluster_sources(metrics, node, setup.counts)


def cluster_checks(node: Node | None) -> dict[str, ComponentCheck]:
    """The health checks that a node has in addition."""
    return {} if node is None else {"engine": checked(node.engine.check, "answers")}
