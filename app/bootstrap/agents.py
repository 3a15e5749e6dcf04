"""What the agents of all sessions share: prompts, models, tools and the bounds of their outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from app.agent.collecting import Collector
from app.agent.loop_guard import GuardRules
from app.agent.model_calls import ModelCalls
from app.agent.places import Places
from app.context.prompts import SYSTEM_TEMPLATE
from app.db.engine import Database
from app.llm.registry import Providers
from app.runtime.agents import AgentSetup
from app.runtime.windows import LearnedWindows
from app.sandbox.base import Stream
from app.settings import Settings
from app.tools import FileOutputStore, OutputCollector, OutputLimit, ToolRegistry, default_tools
from app.tools.recall import left_out_hint


@dataclass(frozen=True, slots=True)
class Prompts:
    """The texts that an operator may replace: the system prompt's instructions, and the sections of a summary (None
    uses those of its policy and profile)."""

    system: str = SYSTEM_TEMPLATE
    summary: str | None = None


async def build_agents(settings: Settings, prompts: Prompts, database: Database, providers: Providers) -> AgentSetup:
    """The models, tools and limits shared by all agents; each session chooses among them."""
    windows = LearnedWindows(database, providers.place, providers.info)
    await windows.load()
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
