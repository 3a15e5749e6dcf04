"""What `palimpsest doctor` checks of a cluster: its engine, broker and store, and whether the settings fit together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from app.bootstrap.cluster import cluster_problem, engine_address
from app.bootstrap.service import vault_of
from app.cli.check import Check
from app.db.backends import backend_of
from app.db.repositories import server_wide
from app.errors import PalimpsestError, UnavailableError, WorkspaceStoreError
from app.messages import new_id
from app.runtime.vault import KEY_DIFFERS, KEY_MISSING
from app.settings import Settings

if TYPE_CHECKING:
    from app.cluster.engine import EngineInfo

STORE_S = 30.0
"""Seconds that the store may take for the probe. Its client repeats failed requests by itself for 20 s."""


async def cluster(settings: Settings) -> list[Check]:
    """The checks of what the settings name; none for a server on its own."""
    key = asyncio.to_thread(_key, settings)
    groups = await asyncio.gather(_roles(settings), key, _engine(settings), _broker(settings), _store(settings))
    return [check for group in groups for check in group]


async def _roles(settings: Settings) -> list[Check]:
    """Whether this server can be the node that its settings say, and what the other nodes would not see."""
    if (problem := cluster_problem(settings)) is not None:
        return [Check("cluster", "missing", problem, "Fix these settings; all nodes need the same ones.")]
    if settings.temporal is None:
        return []
    lacks = []
    if settings.broker is None:
        lacks.append("PALIMPSEST_BROKER: readers on other nodes get live text only as whole parts")
    if settings.workspace_store is None:
        lacks.append("PALIMPSEST_WORKSPACE_STORE: all nodes must share one data directory")
    if lacks:
        return [Check("cluster", "warning", f"role {settings.role}, without {'; without '.join(lacks)}", _SET_THEM)]
    return [Check("cluster", "ok", f"role {settings.role}")]


_SET_THEM = "Set these on all nodes, unless this is intended."


def _key(settings: Settings) -> list[Check]:
    """Whether a node can encrypt secrets, and reads those of the others. Blocks."""
    if settings.temporal is None or cluster_problem(settings) is not None:
        return []
    if settings.secret_key is None:
        return [Check("secret key", "warning", KEY_MISSING, _SET_KEY)]
    engine = backend_of(settings.url).migrating()
    try:
        with engine.connect() as connection:
            instance_id, last = server_wide.secret_key_id(connection)
    except SQLAlchemyError:
        return []  # the database has its own check, and may have no tables yet
    finally:
        engine.dispose()
    if last is not None and last != vault_of(settings).fingerprint(str(instance_id)):
        return [Check("secret key", "warning", KEY_DIFFERS, _SET_KEY)]
    return [Check("secret key", "ok", "set" if last is None else "the same as that of the node that started last")]


_SET_KEY = "Set it to the same value on all nodes."


async def _engine(settings: Settings) -> list[Check]:
    """Whether Temporal answers and has the namespace."""
    if settings.temporal is None or cluster_problem(settings) is not None:
        return []
    from app.cluster.engine import look_at

    target, namespace = settings.temporal, settings.temporal_namespace
    try:
        # Nothing is asked of a task queue.
        found = await look_at(engine_address(settings, target, ""))
    except UnavailableError as error:
        fix = "Start Temporal, or fix PALIMPSEST_TEMPORAL, _TLS and _API_KEY. Until then, sessions wait for a worker."
        return [Check("engine", "missing", f"{target} cannot be used: {error.detail}", fix)]
    return [_namespace(found, f"Temporal {found.version or 'of unknown version'} at {target}", namespace)]


def _namespace(found: EngineInfo, engine_is: str, namespace: str) -> Check:
    if not found.has_namespace:
        detail = f"{engine_is} has no namespace {namespace}"
        create = f"temporal operator namespace create --namespace {namespace} --retention 24h"
        return Check("engine", "missing", detail, f"`{create}` creates it; or fix PALIMPSEST_TEMPORAL_NAMESPACE.")
    return Check("engine", "ok", f"{engine_is}, namespace {namespace}")


async def _broker(settings: Settings) -> list[Check]:
    """The broker between servers, if one is set: whether it can be reached."""
    if settings.broker is None:
        return []
    from app.cluster.broker import BrokerError, RedisBroker

    try:
        opened = await asyncio.to_thread(RedisBroker, settings.broker.get_secret_value())
    except BrokerError as error:
        return [Check("broker", "missing", str(error), "Fix or unset PALIMPSEST_BROKER.")]
    try:
        await opened.connect()
    except BrokerError as error:
        detail = f"{opened.address} cannot be used: {error}"
        return [Check("broker", "warning", detail, "Start it, or fix PALIMPSEST_BROKER. Live text is late without it.")]
    finally:
        await opened.aclose()
    return [Check("broker", "ok", f"Redis at {opened.address}")]


async def _store(settings: Settings) -> list[Check]:
    """The store of workspaces: whether an object can be written, read, listed and deleted there."""
    if settings.workspace_store is None:
        return []
    from app.cluster.object_store import open_store

    try:
        store = await asyncio.to_thread(open_store, settings.workspace_store)
    except WorkspaceStoreError as error:
        return [Check("store", "missing", error.detail, "Fix PALIMPSEST_WORKSPACE_STORE.")]
    # Never the name of an instance, below which snapshots are.
    key, data = f"doctor/{new_id()}", b"written by palimpsest doctor"
    step = "written"
    try:
        async with asyncio.timeout(STORE_S):
            await store.put(key, data)
            step = "read"
            found = await store.get(key)
            step = "listed"
            listed = await store.list("doctor/")
            step = "deleted"
            await store.delete([key])
    except (PalimpsestError, TimeoutError) as error:
        reason = error.detail if isinstance(error, PalimpsestError) else f"it took longer than {STORE_S:.0f} s."
        detail = f"an object could not be {step} in the {store.describe()}: {reason}"
        return [Check("store", "missing", detail, _STORE_FIX)]
    if found != data or key not in listed:
        return [Check("store", "missing", f"the {store.describe()} does not return what was written", _STORE_FIX)]
    return [Check("store", "ok", f"{store.describe()}: written, read, listed and deleted")]


_STORE_FIX = (
    "Check that it runs, that the bucket exists, and that AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY may list, read,"
    " write and delete objects in it."
)
