"""A running service: its data directory, database, sandboxes and providers are opened from the settings, what an
earlier server left is taken over, and all of it is closed again in the opposite order."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import Connection

from app.bootstrap.agents import Prompts, build_agents, build_collector, login_rules, retention_rules, service_rules
from app.bootstrap.broker import open_relay
from app.bootstrap.checkpoints import build_checkpoints, recovered_checkpoints
from app.bootstrap.cluster import add_node_sources, cluster_checks, cluster_node
from app.bootstrap.mcp import mcp_host
from app.bootstrap.providers import build_providers, default_model
from app.bootstrap.sandboxes import build_sandboxes, looking_for_sandboxes, open_factories, sandbox_kinds
from app.bootstrap.sources import open_sources
from app.bootstrap.webhooks import deliverer_of
from app.bootstrap.workspaces import MIN_STORE_S, open_workspaces
from app.db.backends import backend_of
from app.db.engine import Database, open_database
from app.db.migrate import upgrade_in_subprocess
from app.db.repositories import secrets, server_wide, sessions
from app.errors import SandboxUnavailableError, StorageError
from app.eventlog.bus import Bus
from app.eventlog.log import StreamItem
from app.llm.reachability import Condition
from app.llm.registry import Providers
from app.messages import new_id
from app.runtime.agents import AgentSetup
from app.runtime.destinations import Destinations
from app.runtime.dispatch import Dispatch
from app.runtime.learned_models import LearnedQuirks
from app.runtime.mcp.offer import SEARCH as MCP_SEARCH
from app.runtime.registry import Registry, RunBounds
from app.runtime.retention import OutputBound, Retention
from app.runtime.sandboxes.leftovers import Leftovers
from app.runtime.sandboxes.pool import Sandboxes
from app.runtime.services import Services, build_services
from app.runtime.setup import CLUSTER, Fence, RuntimeSetup
from app.runtime.telemetry.health import ComponentCheck, Health, component_checks
from app.runtime.telemetry.metrics import Metrics, add_elsewhere, add_sources, add_webhooks, add_workspaces
from app.runtime.telemetry.tracing import CompactionLog, otlp_exporter, tracing
from app.runtime.transactions import compactions
from app.runtime.vault import KEY_DIFFERS, KEY_MISSING, Vault
from app.runtime.webhooks.deliverer import Deliverer
from app.runtime.workspaces.cache import machine_id
from app.runtime.workspaces.keeper import Workspaces
from app.sandbox.base import SandboxFactory
from app.sessions import Status
from app.settings import Settings
from app.tools import FileOutputStore
from app.tools.submit import NAME as SUBMIT_OUTPUT

if TYPE_CHECKING:
    from app.cluster.node import Node

Observers = list[Callable[[Sequence[StreamItem]], None]]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Runtime:
    """A built service, and what is shown to the operator. `sandbox` is the default sandbox, None if none is available;
    `left_out` maps each kind of sandbox that is allowed but unavailable to the reason. `close_streams` ends all event
    streams and returns their number; `readers` returns the number of open ones. `metrics` returns Prometheus text, and
    blocks."""

    services: Services
    model: str
    sandbox: str | None
    left_out: Mapping[str, str]
    close_streams: Callable[[], int]
    readers: Callable[[], int]
    metrics: Callable[[], bytes]


@asynccontextmanager
async def build(settings: Settings, prompts: Prompts) -> AsyncIterator[Runtime]:
    """A running service: database migrated, leftovers of the previous process removed, interrupted runs resumed.
    Leaving the context parks the runs and closes everything. Raises `StorageError` if the database cannot be used."""
    async with AsyncExitStack() as stack:
        base = await open_resources(settings, stack)
        agents = await build_agents(settings, prompts, base.database, base.providers, base.quirks)
        tools = agents.registry.names()
        metrics = Metrics([*tools, SUBMIT_OUTPUT, MCP_SEARCH])
        observers: Observers = [metrics.observe, CompactionLog().observe]
        bus = Bus(lambda items: _notify(observers, items), settings.max_readers)
        broker = await open_relay(settings, base.database, bus, base.instance_id, metrics, stack)
        fence = Fence(base.database, CLUSTER if settings.temporal is not None else None)
        setup = await _setup(settings, base, agents, bus, metrics, fence, stack)
        bound = OutputBound(setup, base.store, settings.session_output_max_bytes)
        observers.append(bound.observe)
        bounds = RunBounds(settings.max_runs, settings.max_waiting_runs)
        registry = Registry(setup, bounds)
        node = await cluster_node(settings, setup, bounds, base.instance_id)
        dispatch: Dispatch = registry if node is None else node.dispatch
        add_node_sources(metrics, node, setup)
        await _trace(settings, observers, dispatch, tools, stack)
        stack.push_async_callback(registry.aclose, settings.shutdown_grace_s)
        stack.callback(bus.close)
        destinations = Destinations(settings.webhook_networks)
        deliverer = deliverer_of(settings, setup, destinations)
        add_webhooks(metrics, deliverer.counts, base.database)
        health = _health(settings, base, fence, setup.workspaces, broker | cluster_checks(node))
        stack.push_async_callback(health.aclose)
        services = build_services(
            setup,
            dispatch,
            service_rules(settings, tools),
            health,
            login_rules(settings),
            models=base.providers.models,
            output_path=base.store.path,
            outputs=base.store,
            destinations=destinations,
            webhooks_changed=deliverer.changed,
        )
        stack.push_async_callback(services.checkpoints.aclose, settings.shutdown_grace_s)
        await fence.take()
        if setup.checkpoints is not None:
            await stack.enter_async_context(recovered_checkpoints(base.database, setup.checkpoints))
        await stack.enter_async_context(bound.kept())
        await services.logins.sweep()
        if node is None:
            await resume_after_restart(setup, registry, base.store, parks=settings.recover == "park")
        else:
            await stack.enter_async_context(node.running(works=settings.role != "api", drain_s=settings.drain_s))
        release = partial(_release, registry, node, bus, base.sandboxes, deliverer)
        await stack.enter_async_context(fence.watched(release))
        await _look_after(settings, base, setup, dispatch, metrics, stack)
        if settings.role != "worker":
            await stack.enter_async_context(deliverer.running())
        model, sandbox = default_model(settings), _default_sandbox(settings, base)
        yield Runtime(services, model, sandbox, base.left_out, bus.close, lambda: bus.readers, metrics.render)


async def _setup(
    settings: Settings,
    base: Resources,
    agents: AgentSetup,
    bus: Bus,
    metrics: Metrics,
    fence: Fence,
    stack: AsyncExitStack,
) -> RuntimeSetup:
    """What all sessions of the server share."""
    node_id = new_id() if settings.temporal is not None else None
    workspaces = await _open_workspaces(settings, base, node_id, stack)
    mcp = mcp_host(settings)
    stack.callback(mcp.close)
    vault = vault_of(settings)
    if settings.temporal is not None:
        await _compare_keys(base, vault)
    sources = await open_sources(settings, partial(_secret, base.database, vault))
    stack.callback(sources.close)
    setup = RuntimeSetup(
        base.database,
        bus,
        base.sandboxes,
        agents,
        build_collector(settings, base.store),
        base.store.path,
        metrics.repaired,
        fence.check,
        node=node_id,
        workspaces=workspaces,
        sources=sources,
        vault=vault,
        mcp=mcp,
        checkpoints=await build_checkpoints(
            settings, base.database, base.sandboxes, workspaces, vault, base.instance_id, stack
        ),
    )
    base.sandboxes.on_stop = partial(setup.commands.end, reason="sandbox_stopped")
    base.sandboxes.in_background = lambda session_id: len(setup.commands.of(session_id))
    stack.push_async_callback(setup.commands.aclose)
    return setup


async def _compare_keys(base: Resources, vault: Vault) -> None:
    """Warns if this node of a cluster has no key, or a different one from the node that started last."""
    mine = vault.fingerprint(base.instance_id)
    if mine is None:
        log.warning("secret_key_missing", detail=KEY_MISSING)
        return
    _, last = await base.database.read(server_wide.secret_key_id)
    if mine != last:
        await base.database.writer.write(lambda c: server_wide.set_secret_key_id(c, mine))
        if last is not None:
            log.warning("secret_key_differs", detail=KEY_DIFFERS)


def vault_of(settings: Settings) -> Vault:
    """The key of a server: its setting, or a file; a node of a cluster has to be given one."""
    key = settings.secret_key.get_secret_value() if settings.secret_key is not None else None
    return Vault(key, None if settings.temporal is not None else settings.data_dir / "secret.key")


async def _secret(database: Database, vault: Vault, session_id: str, name: str) -> str | None:
    """The value of a session's secret."""
    rows = await database.read(lambda c: secrets.of_session(c, session_id))
    return (await vault.decrypt([row for row in rows if row.name == name])).get(name)


async def _open_workspaces(
    settings: Settings, base: Resources, node: str | None, stack: AsyncExitStack
) -> Workspaces | None:
    workspaces = await open_workspaces(settings, base.database, base.sandboxes, base.instance_id, node)
    if workspaces is not None:
        # Closed after the runs, whose last changes it stores.
        stack.push_async_callback(workspaces.aclose, max(MIN_STORE_S, settings.shutdown_grace_s))
    return workspaces


async def _look_after(
    settings: Settings,
    base: Resources,
    setup: RuntimeSetup,
    dispatch: Dispatch,
    metrics: Metrics,
    stack: AsyncExitStack,
) -> None:
    """Adds the metrics, and begins what is done regularly until the stack is closed."""
    add_sources(
        metrics,
        registry=dispatch,
        counts=setup.counts,
        bus=setup.bus,
        database=base.database,
        sandboxes=base.sandboxes,
        background_slots=setup.agents.background_slots,
        directories=directories(settings),
    )
    add_elsewhere(metrics, setup.commands, setup.kept, base.database)
    await stack.enter_async_context(metrics.measuring_lag())
    await stack.enter_async_context(Retention(setup, base.store, retention_rules(settings)).sweeping())
    if setup.node is not None or setup.workspaces is not None:
        data_dir = await asyncio.to_thread(machine_id, settings.data_dir)
        await stack.enter_async_context(Leftovers(base.database, base.sandboxes, data_dir).swept())
    await stack.enter_async_context(_searching_for_sandboxes(settings, base))
    if setup.workspaces is not None:
        add_workspaces(metrics, setup.workspaces)
        await stack.enter_async_context(setup.workspaces.upkeep.kept())


def _notify(observers: Observers, items: Sequence[StreamItem]) -> None:
    for observe in observers:
        observe(items)


async def _trace(
    settings: Settings, observers: Observers, registry: Dispatch, tools: Sequence[str], stack: AsyncExitStack
) -> None:
    """Adds tracing to the observers of committed events, if a receiver is configured. An API node of a cluster sees how
    runs begin, but not how they end: their workers trace them."""
    if (
        settings.otlp_endpoint
        and settings.role != "api"
        and (exporter := await asyncio.to_thread(otlp_exporter, settings.otlp_endpoint))
    ):
        traces = await stack.enter_async_context(tracing(exporter, model_of=registry.model_of, tools=tools))
        observers.append(traces.observe)


def _health(
    settings: Settings,
    base: Resources,
    fence: Fence,
    workspaces: Workspaces | None,
    cluster: Mapping[str, ComponentCheck],
) -> Health:
    def conditions() -> Awaitable[list[Condition]]:
        return base.providers.conditions(default_model(settings))

    store = workspaces.component if workspaces is not None else None
    parts = component_checks(base.database, fence.check, base.sandboxes, directories(settings), conditions, store)
    return Health({**parts, **cluster})


async def _release(registry: Registry, node: Node | None, bus: Bus, sandboxes: Sandboxes, deliverer: Deliverer) -> None:
    """Stops all work, since another server has taken over; stored data can still be read here."""
    deliverer.end()
    await registry.supersede()
    if node is not None:
        await node.supersede()
    bus.close()
    sandboxes.disown()


def _searching_for_sandboxes(settings: Settings, base: Resources) -> AbstractAsyncContextManager[None]:
    async def find() -> Mapping[str, SandboxFactory]:
        return (await open_factories(settings, base.instance_id))[0]

    return looking_for_sandboxes(base.sandboxes, find, base.database)


def _default_sandbox(settings: Settings, base: Resources) -> str | None:
    return base.sandboxes.kinds.describe() if len(base.left_out) < len(sandbox_kinds(settings)) else None


@dataclass(frozen=True, slots=True)
class Resources:
    """`instance_id` identifies the database and labels its containers; `left_out` maps each kind of sandbox that is
    allowed but unavailable to the reason."""

    database: Database
    instance_id: str
    sandboxes: Sandboxes
    left_out: Mapping[str, str]
    providers: Providers
    quirks: LearnedQuirks
    store: FileOutputStore


async def open_resources(settings: Settings, stack: AsyncExitStack) -> Resources:
    """Opens all resources; the stack closes them, the database last. Raises `StorageError`."""
    database = await open_storage(settings)
    stack.push_async_callback(database.aclose)
    instance_id = await database.writer.write(sessions.instance_id)
    sandboxes, left_out = await build_sandboxes(settings, instance_id)
    stack.push_async_callback(sandboxes.aclose)
    quirks = LearnedQuirks(database)
    await quirks.load()
    providers = await asyncio.to_thread(build_providers, settings, quirks)
    stack.push_async_callback(providers.aclose)
    store = FileOutputStore(settings.data_dir / "outputs")
    stack.push_async_callback(store.aclose)
    return Resources(database, instance_id, sandboxes, left_out, providers, quirks, store)


def prepare_data_dir(settings: Settings) -> None:
    """Creates the data directory, accessible to its owner only. Raises `StorageError`."""
    try:
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"The data directory {settings.data_dir} cannot be created: {error.strerror}.") from error
    if not os.access(settings.data_dir, os.W_OK | os.X_OK):
        raise StorageError(f"The data directory {settings.data_dir} is not writable.")


def directories(settings: Settings) -> Sequence[Path]:
    """The directories on this machine that hold a server's data."""
    folder = backend_of(settings.url).folder
    return (settings.data_dir,) if folder is None else (settings.data_dir, folder)


async def open_storage(settings: Settings) -> Database:
    """Opens and migrates the database; creates the data directory first. Raises `StorageError`."""
    await asyncio.to_thread(prepare_data_dir, settings)
    database = await asyncio.to_thread(open_database, settings.url)
    try:
        await asyncio.to_thread(upgrade_in_subprocess, settings.url, database.connect)
    except BaseException:
        await database.aclose()
        raise
    return database


async def resume_after_restart(setup: RuntimeSetup, registry: Registry, store: FileOutputStore, *, parks: bool) -> None:
    """Removes leftovers of deleted sessions, then resumes interrupted runs, or `parks` them."""
    database = setup.database

    def query(connection: Connection) -> tuple[set[str], list[str]]:
        busy = [status for status in Status if status is not Status.IDLE]
        return set(sessions.ids(connection)), [id for status in busy for id in sessions.ids(connection, status=status)]

    known, running = await database.read(query)
    await store.remove_orphans(known)
    await _recover_sandboxes(setup, known, running)
    await setup.commands.recover(setup)
    await database.writer.write(compactions.abandon_all)
    setup.to_park.update(running if parks else ())
    for session_id in running:
        registry.wake(session_id)


async def _recover_sandboxes(setup: RuntimeSetup, known: set[str], at_work: Collection[str]) -> None:
    """Removes sandboxes whose sessions are not `known`, and what runs in those of sessions that were running; adopts
    the others that still run."""
    sandboxes = setup.sandboxes
    try:
        removed = await sandboxes.kinds.remove_orphans(known, at_work)
        left = await sandboxes.kinds.running()
        sandboxes.adopt(await setup.database.read(lambda c: sessions.sandboxes(c, left)))
    except SandboxUnavailableError as error:
        log.warning("orphan_removal_failed", reason=error.detail)
    else:
        if removed:
            log.info("orphans_removed", names=removed)
