"""A running service: assembled from its settings, and closed in reverse order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from app.bootstrap.agents import Prompts, build_agents, build_collector
from app.bootstrap.foundation import Foundation, lay_foundation
from app.bootstrap.providers import default_model
from app.bootstrap.rules import login_rules, retention_rules, service_rules
from app.bootstrap.sandboxes import open_factories, sandbox_kinds
from app.bootstrap.storage import directories
from app.bootstrap.taking_up import take_up
from app.eventlog.bus import Bus
from app.eventlog.log import StreamItem
from app.llm.reach import Condition
from app.runtime.compaction_log import CompactionLog
from app.runtime.fence import Fence
from app.runtime.health import Health, looks
from app.runtime.metrics import Metrics
from app.runtime.output_bound import OutputBound
from app.runtime.readings import add_readings
from app.runtime.registry import Registry, RunBounds
from app.runtime.retention import Retention
from app.runtime.sandbox_search import looking_for_sandboxes
from app.runtime.sandboxes import Sandboxes
from app.runtime.services import Services, build_services
from app.runtime.setup import RuntimeSetup
from app.runtime.tracing import otlp_exporter, tracing
from app.sandbox.base import SandboxFactory
from app.settings import Settings

Observers = list[Callable[[Sequence[StreamItem]], None]]


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
        base = await lay_foundation(settings, stack)
        agents = await build_agents(settings, prompts, base.database, base.providers)
        tools = agents.registry.names()
        metrics = Metrics(tools)
        observers: Observers = [metrics.observe, CompactionLog().observe]
        bus = Bus(lambda items: _notify(observers, items), settings.max_readers)
        fence = Fence(base.database)
        collector = build_collector(settings, base.store)
        setup = RuntimeSetup(
            base.database, bus, base.sandboxes, agents, collector, base.store.path, metrics.repaired, fence.check
        )
        bound = OutputBound(setup, base.store, settings.session_output_max_bytes)
        observers.append(bound.observe)
        registry = Registry(setup, RunBounds(settings.max_runs, settings.max_waiting_runs))
        await _trace(settings, observers, registry, tools, stack)
        stack.push_async_callback(registry.aclose, settings.shutdown_grace_s)
        stack.callback(bus.close)
        health = _health(settings, base, fence)
        stack.push_async_callback(health.aclose)
        services = build_services(
            setup,
            registry,
            service_rules(settings, tools),
            health,
            login_rules(settings),
            models=base.providers.models,
            output_path=base.store.path,
            outputs=base.store,
        )
        await fence.take()
        await stack.enter_async_context(bound.kept())
        await services.logins.sweep()
        await take_up(setup, registry, base.store, parks=settings.recover == "park")
        await stack.enter_async_context(fence.watched(partial(_release, registry, bus, base.sandboxes)))
        add_readings(
            metrics,
            registry=registry,
            bus=bus,
            database=base.database,
            sandboxes=base.sandboxes,
            places=agents.places,
            directories=directories(settings),
        )
        await stack.enter_async_context(metrics.measuring_lag())
        await stack.enter_async_context(Retention(setup, base.store, retention_rules(settings)).sweeping())
        await stack.enter_async_context(_searching_for_sandboxes(settings, base))
        model, sandbox = default_model(settings), _default_sandbox(settings, base)
        yield Runtime(services, model, sandbox, base.left_out, bus.close, lambda: bus.readers, metrics.render)


def _notify(observers: Observers, items: Sequence[StreamItem]) -> None:
    for observe in observers:
        observe(items)


async def _trace(
    settings: Settings, observers: Observers, registry: Registry, tools: Sequence[str], stack: AsyncExitStack
) -> None:
    """Adds tracing to the observers of committed events, if a receiver is configured."""
    if settings.otlp_endpoint and (exporter := await asyncio.to_thread(otlp_exporter, settings.otlp_endpoint)):
        traces = await stack.enter_async_context(tracing(exporter, model_of=registry.model_of, tools=tools))
        observers.append(traces.observe)


def _health(settings: Settings, base: Foundation, fence: Fence) -> Health:
    def conditions() -> Awaitable[list[Condition]]:
        return base.providers.conditions(default_model(settings))

    return Health(looks(base.database, fence.check, base.sandboxes, directories(settings), conditions))


async def _release(registry: Registry, bus: Bus, sandboxes: Sandboxes) -> None:
    """Stops all work, since another server has taken over; stored data can still be read here."""
    await registry.supersede()
    bus.close()
    sandboxes.disown()


def _searching_for_sandboxes(settings: Settings, base: Foundation) -> AbstractAsyncContextManager[None]:
    async def find() -> Mapping[str, SandboxFactory]:
        return (await open_factories(settings, base.instance_id))[0]

    return looking_for_sandboxes(base.sandboxes, find, base.database)


def _default_sandbox(settings: Settings, base: Foundation) -> str | None:
    return base.sandboxes.describe() if len(base.left_out) < len(sandbox_kinds(settings)) else None
