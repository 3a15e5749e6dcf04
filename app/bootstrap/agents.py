"""What the agents of all sessions share (prompts, models, tools, output limits), and the rules that the settings
make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from app.agent.compaction.rounds import BackgroundSlots
from app.agent.limits import GuardRules, RunRules
from app.agent.model_calls import ModelCalls
from app.agent.protocols import Collector
from app.bootstrap.providers import default_model
from app.context.policies import resolve
from app.context.prompts import SYSTEM_TEMPLATE
from app.db.engine import Database
from app.llm.registry import Providers
from app.runtime.admission import ServiceRules, operators_approval
from app.runtime.agents import AgentSetup
from app.runtime.learned_models import LearnedCalibrations, LearnedQuirks, LearnedWindows
from app.runtime.retention import RetentionRules
from app.runtime.services import LoginRules
from app.runtime.skills import OperatorSkills
from app.sandbox.base import Stream
from app.sessions import Limits
from app.settings import Settings
from app.tools import FileOutputStore, OutputCollector, OutputLimit, ToolRegistry, default_tools
from app.tools.recall import left_out_hint


@dataclass(frozen=True, slots=True)
class Prompts:
    """The texts that an operator may replace: the system prompt's instructions, and the sections of a summary (None
    uses those of its policy and profile); and the skills that an operator adds."""

    system: str = SYSTEM_TEMPLATE
    summary: str | None = None
    skills: OperatorSkills = field(default_factory=OperatorSkills)


async def build_agents(
    settings: Settings, prompts: Prompts, database: Database, providers: Providers, quirks: LearnedQuirks | None = None
) -> AgentSetup:
    """The models, tools and limits shared by all agents; each session chooses among them."""
    windows = LearnedWindows(database, providers.place, providers.info)
    await windows.load()
    return AgentSetup(
        models=ModelCalls(providers.resolve, providers.catalog.cost, settings.provider_max_attempts, windows=windows),
        windows=windows,
        quirks=quirks,
        calibrations=LearnedCalibrations(database, providers.place),
        model_info=providers.info,
        ask_window=providers.ask_window,
        registry=ToolRegistry(default_tools(read_chars=settings.tool_output_chars)),
        template=prompts.system,
        skills=prompts.skills,
        summary_template=prompts.summary,
        command_timeout_s=settings.command_timeout_s,
        max_command_timeout_s=settings.command_timeout_max_s,
        output_chars=settings.tool_output_chars,
        background_slots=BackgroundSlots(settings.max_background_summaries),
        run_rules=RunRules(settings.last_step_s, GuardRules(settings.loop_guard_tell, settings.loop_guard_end)),
    )


def build_collector(
    settings: Settings, store: FileOutputStore
) -> Callable[[str, str, Callable[[Stream, str, int], None], OutputLimit], Collector]:
    """Makes the collector of a call; see `RuntimeSetup.collector`. Full outputs are saved to `store`."""

    def collect(
        session_id: str, call_id: str, live: Callable[[Stream, str, int], None], limit: OutputLimit
    ) -> Collector:
        return OutputCollector(
            f"{session_id}/{call_id}",
            limit=replace(limit, chars=min(limit.chars, settings.tool_output_chars)),
            max_bytes=min(settings.tool_output_max_bytes, settings.session_output_max_bytes),
            store=store,
            on_live=live,
            left_out=left_out_hint(call_id),
        )

    return collect


def service_rules(settings: Settings, tools: Sequence[str]) -> ServiceRules:
    """The defaults and upper bounds of a session. `tools` are the names of all tools."""
    return ServiceRules(
        default_model=default_model(settings),
        compaction=resolve(settings.compaction),
        limits=Limits(max_steps=settings.max_steps),
        most=settings.session_limits,
        queue_limit=settings.queue_limit,
        archive_max_bytes=settings.archive_max_bytes,
        approval=operators_approval(settings.approval, tools),
        max_runs_per_key=settings.max_runs_per_key,
    )


def retention_rules(settings: Settings) -> RetentionRules:
    """How long raw outputs and sessions are kept; forever unless the settings say otherwise."""
    outputs, sessions = settings.retain_outputs_days, settings.retain_sessions_days
    return RetentionRules(
        outputs=timedelta(days=outputs) if outputs is not None else None,
        sessions=timedelta(days=sessions) if sessions is not None else None,
    )


def login_rules(settings: Settings) -> LoginRules:
    """Which keys may log in, and how long a login lasts."""
    keys = tuple(key.get_secret_value().encode() for key in settings.api_keys)
    return LoginRules(keys, timedelta(days=settings.login_days))
