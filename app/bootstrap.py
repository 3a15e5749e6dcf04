"""Builds the service from its settings: the only place that knows all rooms."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import structlog
from dotenv import dotenv_values
from sqlalchemy import Connection

from app.agent.collecting import Collector
from app.agent.loop_guard import GuardRules
from app.agent.model_calls import ModelCalls
from app.agent.places import Places
from app.context.policies import resolve
from app.context.prompts import SYSTEM_TEMPLATE
from app.db.engine import Database, open_database, sqlite_path
from app.db.migrate import upgrade
from app.db.repositories import sessions
from app.errors import SandboxAwayError, SandboxUnavailableError, StorageError
from app.eventlog.bus import Bus
from app.eventlog.log import StreamItem
from app.llm.base import Prices
from app.llm.catalog import Catalog, ModelOverride
from app.llm.reach import Condition
from app.llm.registry import ProviderConfig, Providers
from app.runtime import compactions
from app.runtime.admission import ServiceRules
from app.runtime.agents import AgentSetup
from app.runtime.approval_rules import operators_approval
from app.runtime.fence import Fence
from app.runtime.health import Health, looks
from app.runtime.metrics import Metrics
from app.runtime.readings import add_readings
from app.runtime.registry import Registry, RunBounds
from app.runtime.retention import Retention, RetentionRules
from app.runtime.sandbox_policy import SandboxPolicy
from app.runtime.sandbox_search import looking_for_sandboxes
from app.runtime.sandboxes import Sandboxes
from app.runtime.services import Services, build_services
from app.runtime.setup import RuntimeSetup
from app.runtime.tracing import otlp_exporter, tracing
from app.runtime.windows import LearnedWindows
from app.sandbox.base import SandboxFactory, SandboxLimits, Stream
from app.sandbox.detect import SandboxKind, open_factory
from app.sessions import Limits, Status
from app.settings import DEMO_MODEL, Settings
from app.tools import FileOutputStore, OutputCollector, OutputLimit, ToolRegistry, default_tools
from app.tools.recall import left_out_hint

log = structlog.get_logger(__name__)

DEFAULT_MODELS = {"openai": "openai/gpt-5", "anthropic": "anthropic/claude-sonnet-5"}
"""What a provider's key alone stands for."""

OPENAI_URL = "https://api.openai.com/v1"
ANTHROPIC_URL = "https://api.anthropic.com"


@dataclass(frozen=True, slots=True)
class Runtime:
    """A built service, and what a person is told of it. `sandbox` is the default one, None where there is none;
    `left_out` are the kinds of sandbox that the settings allow and sessions do not get, each with the reason.
    `close_streams` ends the streams of all readers and says how many there were, `readers` how many there are;
    `metrics` gives Prometheus' text, and blocks."""

    services: Services
    model: str
    sandbox: str | None
    left_out: Mapping[str, str]
    close_streams: Callable[[], int]
    readers: Callable[[], int]
    metrics: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class Prompts:
    """The texts that an operator may replace: the system prompt's instructions, and the sections that a summary shall
    have, None for those of its policy and profile."""

    system: str = SYSTEM_TEMPLATE
    summary: str | None = None


def provider_configs(settings: Settings) -> list[ProviderConfig]:
    """All configured providers. A key named by `api_key_env` may stand in the environment or in `.env`."""
    environment = {**dotenv_values(".env"), **os.environ}
    configs = [
        ProviderConfig("scripted", "scripted"),
        ProviderConfig(
            "openai",
            "openai",
            settings.openai_base_url or OPENAI_URL,
            _secret(settings.openai_api_key),
            needs_key=settings.openai_base_url is None,
        ),
        ProviderConfig(
            "anthropic",
            "anthropic",
            settings.anthropic_base_url or ANTHROPIC_URL,
            _secret(settings.anthropic_api_key),
            needs_key=settings.anthropic_base_url is None,
        ),
    ]
    for name, provider in settings.providers.items():
        key = environment.get(provider.api_key_env) if provider.api_key_env else None
        configs.append(ProviderConfig(name, provider.kind, provider.base_url, key, needs_key=False))
    return configs


def _secret(value: object) -> str | None:
    get = getattr(value, "get_secret_value", None)
    return get() or None if get is not None else None


def default_model(settings: Settings) -> str:
    """The model of a session that names none: the setting, else what the first key stands for, else the demo."""
    if settings.model:
        return settings.model
    keyed = {"openai": settings.openai_api_key, "anthropic": settings.anthropic_api_key}
    return next((DEFAULT_MODELS[name] for name, key in keyed.items() if _secret(key)), DEMO_MODEL)


def secrets_of(settings: Settings) -> list[str]:
    """All keys that this server knows, for taking them out of logs."""
    keys = [config.api_key for config in provider_configs(settings) if config.api_key]
    return keys + [key.get_secret_value() for key in settings.api_keys]


def build_providers(settings: Settings) -> Providers:
    """The model providers with their catalog."""
    overrides = {
        name: ModelOverride(
            model.context_window,
            model.max_output_tokens,
            Prices(**model.prices.model_dump()) if model.prices is not None else None,
        )
        for name, model in settings.models.items()
    }
    configs = provider_configs(settings)
    catalog = Catalog(overrides, base_urls={config.name: config.base_url for config in configs})
    return Providers(configs, catalog, settings.provider_idle_timeout_s)


def exposes_server(kind: str, settings: Settings) -> bool:
    """Whether commands in this kind of sandbox would reach this server while it asks for no key."""
    return kind == "bubblewrap" and settings.sandbox_network == "on" and not settings.api_keys


def sandbox_kinds(settings: Settings) -> tuple[SandboxKind, ...]:
    """The kinds of sandbox that the settings allow, the preferred one first."""
    return ("docker", "bubblewrap") if settings.sandbox == "auto" else (settings.sandbox,)


async def open_factories(
    settings: Settings, instance_id: str
) -> tuple[dict[str, SandboxFactory], dict[str, SandboxUnavailableError]]:
    """The kinds of sandbox that the settings allow and this machine has; and those that it has not or that would not be
    safe, each with the reason."""
    factories: dict[str, SandboxFactory] = {}
    left_out: dict[str, SandboxUnavailableError] = {}
    for kind in sandbox_kinds(settings):
        if exposes_server(kind, settings):
            left_out[kind] = SandboxUnavailableError("Its network is the host's, and the server asks for no key.")
            continue
        try:
            factories[kind] = await open_factory(
                kind,
                data_dir=settings.data_dir,
                instance_id=instance_id,
                docker_host=settings.docker_host,
                image=settings.sandbox_image,
            )
        except SandboxUnavailableError as error:
            left_out[kind] = error
    return factories, left_out


async def build_sandboxes(settings: Settings, instance_id: str) -> tuple[Sandboxes, dict[str, str]]:
    """The sandboxes of this server, and the kinds that are left out, with the reasons. Having none is not the end:
    sessions can be read, `readyz` says what is missing, and an Engine that answers later is taken in then."""
    factories, left_out = await open_factories(settings, instance_id)
    network = None if settings.sandbox_network is None else settings.sandbox_network == "on"
    limits = SandboxLimits(settings.sandbox_memory_mb, settings.sandbox_cpus, settings.sandbox_pids)
    policy = SandboxPolicy(
        settings.sandbox_image,
        network,
        limits,
        settings.sandbox_idle_s,
        settings.sandbox_wait_s,
        settings.max_sandboxes,
    )
    away = () if factories else [kind for kind, why in left_out.items() if isinstance(why, SandboxAwayError)]
    sandboxes = Sandboxes(factories, policy, expected=away)
    return sandboxes, {kind: why.detail for kind, why in left_out.items()}


def prepare_data_dir(settings: Settings) -> None:
    """Makes the data directory, for its owner alone. Raises `StorageError`."""
    try:
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"The data directory {settings.data_dir} cannot be made: {error.strerror}.") from error
    if not os.access(settings.data_dir, os.W_OK | os.X_OK):
        raise StorageError(f"The data directory {settings.data_dir} cannot be written to.")


def _agents(settings: Settings, prompts: Prompts, providers: Providers, windows: LearnedWindows) -> AgentSetup:
    return AgentSetup(
        models=ModelCalls(providers.resolve, providers.catalog.cost, settings.provider_max_attempts, windows=windows),
        windows=windows,
        model_info=providers.info,
        ask_window=providers.ask_window,
        registry=ToolRegistry(default_tools(read_chars=settings.tool_output_chars)),
        template=prompts.system,
        summary_template=prompts.summary,
        command_timeout_s=settings.command_timeout_s,
        max_command_timeout_s=settings.command_timeout_max_s,
        output_chars=settings.tool_output_chars,
        places=Places(settings.max_background_summaries),
        last_step_s=settings.last_step_s,
        guard=GuardRules(settings.loop_guard_tell, settings.loop_guard_end),
    )


def _rules(settings: Settings, tools: Sequence[str]) -> ServiceRules:
    most = Limits(**settings.session_limits.model_dump())
    return ServiceRules(
        default_model=default_model(settings),
        compaction=resolve(settings.compaction),
        limits=Limits(max_steps=settings.max_steps),
        most=most,
        queue_limit=settings.queue_limit,
        approval=operators_approval(settings.approval, tools),
    )


def _directories(settings: Settings) -> tuple[Path, Path]:
    """Where the data lie."""
    return settings.data_dir, sqlite_path(settings.url).parent


def _health(settings: Settings, database: Database, fence: Fence, sandboxes: Sandboxes, providers: Providers) -> Health:
    def conditions() -> Awaitable[list[Condition]]:
        return providers.conditions(default_model(settings))

    return Health(looks(database, fence.check, sandboxes, _directories(settings), conditions))


@asynccontextmanager
async def build(settings: Settings, prompts: Prompts) -> AsyncIterator[Runtime]:
    """A running service: migrated, rid of what an earlier life left behind, its interrupted runs going on. Leaving the
    context parks the runs and closes everything. Raises `StorageError` where the database cannot be used."""
    async with AsyncExitStack() as stack:
        await asyncio.to_thread(prepare_data_dir, settings)
        await asyncio.to_thread(upgrade, settings.url)
        database = await asyncio.to_thread(open_database, settings.url)
        stack.push_async_callback(database.aclose)
        instance_id = await database.writer.write(sessions.instance_id)
        sandboxes, left_out = await build_sandboxes(settings, instance_id)
        stack.push_async_callback(sandboxes.aclose)
        providers = await asyncio.to_thread(build_providers, settings)
        stack.push_async_callback(providers.aclose)
        store = FileOutputStore(settings.data_dir / "outputs")
        stack.push_async_callback(store.aclose)
        windows = LearnedWindows(database, providers.place, providers.info)
        await windows.load()
        agents = _agents(settings, prompts, providers, windows)
        metrics = Metrics(agents.registry.names())
        observers = [metrics.observe]
        bus = Bus(lambda items: _tell(observers, items), settings.max_readers)
        collector = _collector(settings, store)
        fence = Fence(database)
        setup = RuntimeSetup(database, bus, sandboxes, agents, collector, store.path, metrics.repaired, fence.check)
        if settings.otlp_endpoint and (exporter := await asyncio.to_thread(otlp_exporter, settings.otlp_endpoint)):
            traces = tracing(exporter, model_of=lambda id: registry.model_of(id), tools=agents.registry.names())
            observers.append((await stack.enter_async_context(traces)).observe)
        registry = Registry(setup, RunBounds(settings.max_runs, settings.max_waiting_runs))
        stack.push_async_callback(registry.aclose, settings.shutdown_grace_s)
        stack.callback(bus.close)
        health = _health(settings, database, fence, sandboxes, providers)
        stack.push_async_callback(health.aclose)
        services = build_services(
            setup,
            registry,
            _rules(settings, agents.registry.names()),
            health,
            models=providers.models,
            output_path=store.path,
            outputs=store,
        )
        await fence.take()
        await _take_up(setup, registry, store, parks=settings.recover == "park")
        await stack.enter_async_context(fence.watched(partial(_let_go, registry, bus, sandboxes)))
        add_readings(
            metrics,
            registry=registry,
            bus=bus,
            database=database,
            sandboxes=sandboxes,
            places=agents.places,
            directories=_directories(settings),
        )
        await stack.enter_async_context(metrics.measuring_lag())
        await stack.enter_async_context(Retention(setup, store, _retention(settings)).sweeping())

        async def find() -> dict[str, SandboxFactory]:
            return (await open_factories(settings, instance_id))[0]

        await stack.enter_async_context(looking_for_sandboxes(sandboxes, find, database))
        found = sandboxes.describe() if len(left_out) < len(sandbox_kinds(settings)) else None
        yield Runtime(
            services, default_model(settings), found, left_out, bus.close, lambda: bus.readers, metrics.render
        )


def _tell(observers: Sequence[Callable[[Sequence[StreamItem]], None]], items: Sequence[StreamItem]) -> None:
    for observe in observers:
        observe(items)


def _retention(settings: Settings) -> RetentionRules:
    outputs, sessions = settings.retain_outputs_days, settings.retain_sessions_days
    return RetentionRules(
        outputs=timedelta(days=outputs) if outputs is not None else None,
        sessions=timedelta(days=sessions) if sessions is not None else None,
    )


async def _let_go(registry: Registry, bus: Bus, sandboxes: Sandboxes) -> None:
    """Ends what belongs to another server now; what is stored can still be read here."""
    await registry.supersede()
    bus.close()
    sandboxes.disown()


def _collector(
    settings: Settings, store: FileOutputStore
) -> Callable[[str, str, Callable[[Stream, str, int], None], OutputLimit], Collector]:
    def collect(
        session_id: str, call_id: str, live: Callable[[Stream, str, int], None], limit: OutputLimit
    ) -> Collector:
        return OutputCollector(
            f"{session_id}/{call_id}",
            limit=replace(limit, chars=min(limit.chars, settings.tool_output_chars)),
            max_bytes=settings.tool_output_max_bytes,
            store=store,
            on_live=live,
            left_out=left_out_hint(call_id),
        )

    return collect


async def _take_up(setup: RuntimeSetup, registry: Registry, store: FileOutputStore, *, parks: bool) -> None:
    """Clears away what is left of sessions that are gone, then goes on with the runs that were going on, or `parks`
    them."""
    database, sandboxes = setup.database, setup.sandboxes

    def query(connection: Connection) -> tuple[set[str], list[str]]:
        busy = (Status.RUNNING, Status.AWAITING_APPROVAL)
        return set(sessions.ids(connection)), [id for status in busy for id in sessions.ids(connection, status=status)]

    known, running = await database.read(query)
    await store.remove_orphans(known)
    try:
        removed = await sandboxes.remove_orphans(known)
        left = await sandboxes.running()
        sandboxes.adopt(await database.read(lambda c: sessions.sandboxes(c, left)))
    except SandboxUnavailableError as error:
        log.warning("orphans_not_removed", reason=error.detail)
    else:
        if removed:
            log.info("orphans_removed", names=removed)
    await database.writer.write(compactions.abandon_all)
    setup.to_park.update(running if parks else ())
    for session_id in running:
        registry.wake(session_id)
