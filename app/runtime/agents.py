"""Builds the agent of a session from its row: its prompt, model, tools and limits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row

from app.agent.conversation import AgentConfig, Conversation
from app.agent.loop_guard import NO_GUARD, GuardRules
from app.agent.model_calls import ModelCalls
from app.agent.places import Places
from app.agent.record import Outline
from app.context.budget import BelievedSource, Budget, believed_window, make_budget
from app.context.generation import Generation
from app.context.policies import CompactionSettings
from app.context.projection import Checkpoint
from app.context.prompts import Notes, PromptEnvironment, render_notes, render_system, template_for
from app.context.tokens import Calibration
from app.context.validator import Repair
from app.db.repositories import compactions, queue, steps
from app.events import PlanItem
from app.llm.base import ModelInfo, ToolSchema
from app.llm.effort import offered_effort
from app.messages import Message, Role, Usage
from app.runtime import compactions as rounds
from app.runtime.reading import in_force_of, read_outline, read_shown
from app.runtime.windows import LearnedWindows
from app.sessions import Approval, SandboxSpec
from app.tools.lean import tools_for
from app.tools.registry import ToolRegistry


@dataclass(frozen=True, slots=True)
class AgentSetup:
    """Shared by all agents of this server. Times are in seconds, `output_chars` in characters. `template` are the
    instructions of the system prompt, `summary_template` an operator's sections of a summary. `ask_window` asks a
    model's server for its window if it is not known otherwise; `model_info` then has it."""

    models: ModelCalls
    model_info: Callable[[str], ModelInfo]
    ask_window: Callable[[str], Awaitable[None]]
    registry: ToolRegistry
    template: str
    command_timeout_s: float
    max_command_timeout_s: float
    output_chars: int
    windows: LearnedWindows
    calibrations: dict[str, Calibration] = field(default_factory=dict)
    """By model; learned while the server runs."""
    summary_template: str | None = None
    places: Places = field(default_factory=Places)
    """Slots for summaries that are prepared in the background."""
    last_step_s: float = 0.0
    guard: GuardRules = NO_GUARD

    async def ask_windows(self, *models: str | None) -> None:
        """Asks the servers of a session's models for their windows, if they are not known otherwise."""
        for model in dict.fromkeys(models):
            if model is not None:
                await self.ask_window(model)

    def window(self, model: str) -> tuple[int, BelievedSource]:
        """The window in tokens used for a model's budgets, and its source. Raises `UnknownModelError`."""
        return believed_window(self.model_info(model), self.windows.get(model))

    def budget(self, model: str, settings: CompactionSettings) -> Budget:
        """How a model's window is divided by these settings. Raises `UnknownModelError`."""
        return make_budget(self.model_info(model), settings, self.windows.get(model))

    def config(self, row: Row[Any], notes: Notes | None = None) -> AgentConfig:
        """The agent's configuration from a session's row; `notes` replace the stored ones."""
        settings = CompactionSettings(**row.compaction)
        budget = self.budget(row.model, settings)
        info = self.model_info(row.model)
        return AgentConfig(
            model=row.model,
            # Explicitly named tools are offered even if fewer would suit the window better.
            tools=tuple(self.registry.schemas(tools_for(budget.limit) if row.tools is None else row.tools)),
            system=self.system(row, budget, notes),
            budget=budget,
            calibration=self.calibration(row.model),
            settings=settings,
            reasoning_effort=offered_effort(row.reasoning_effort, info.reasoning_efforts),
            summary_template=self.summary_template,
            approval=Approval(**row.approval),
            binds_thinking=info.binds_thinking,
            echoes_reasoning=info.echoes_reasoning,
        )

    def system(self, row: Row[Any], budget: Budget, notes: Notes | None = None) -> str:
        """The system text of a session without the plan, with as much of the notes as this budget has room for."""
        environment = PromptEnvironment(
            sandbox=row.sandbox["kind"],
            network=SandboxSpec(**row.sandbox).network or False,
            command_timeout_s=self.command_timeout_s,
            max_command_timeout_s=self.max_command_timeout_s,
            output_chars=self.output_chars,
            lean=budget.lean,
        )
        shown = render_notes(notes or Notes.load(row.notes), budget.usable)
        template = template_for(self.template, lean=budget.lean)
        return render_system(template, environment, row.system_prompt, shown)

    def calibration(self, model: str) -> Calibration:
        """How far estimates are off for a model, as learned by this server."""
        return self.calibrations.get(model) or Calibration.starting(model.partition("/")[0])

    def learn(self, conversation: Conversation) -> None:
        """Remembers what was learned in a conversation about its models' tokenizers."""
        if conversation.has_generation:
            self.calibrations.update(conversation.take_calibrations())

    def conversation(self, stored: StoredConversation, row: Row[Any]) -> Conversation:
        """A session's stored conversation, with token counts for the model it last used."""
        model = stored.generation.model if stored.generation is not None else row.model
        return Conversation(
            stored.history,
            [PlanItem(**item) for item in row.plan],
            stored.generation,
            stored.last_usage,
            self.calibration(model),
            reported_until=stored.reported_until,
            checkpoints=stored.checkpoints,
            pruned=stored.pruned,
            shown_pruned=stored.shown_pruned,
            task_id=stored.first_queued if row.task is not None else None,
            model=model,
            repairs=stored.repairs,
            outline=stored.outline,
        )


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A conversation in the database; with an `outline`, `history` has only the messages of its context; see `reading`.
    `last_usage` is the size of the context after the last step of this generation, if its provider reported it; it
    covers the history up to and including the seq `reported_until`. `checkpoints` and `pruned` are those in force,
    `shown_pruned` the outputs cleared in the generation, and `first_queued` is the first message posted, which is the
    task of a session created with one. `repairs` were made in its requests. `unused` is the size of the context in
    tokens when the last background summary was discarded, 0 if none was."""

    history: list[Message]
    generation: Generation | None
    last_usage: Usage | None
    reported_until: int
    checkpoints: list[Checkpoint]
    pruned: frozenset[str]
    shown_pruned: frozenset[str]
    first_queued: str | None
    repairs: tuple[Repair, ...] = ()
    unused: int = 0
    outline: Outline | None = None


def load_conversation(connection: Connection, session_id: str, *, whole: bool = False) -> StoredConversation:
    """Reads the messages of a conversation's context, or the `whole` history; at the start of a run, never per step."""
    row = steps.generation(connection, session_id)
    checkpoints = rounds.checkpoints(connection, session_id)
    outline = read_outline(connection, session_id) if checkpoints and not whole else None
    first = queue.first_id(connection, session_id)
    history = read_shown(connection, session_id, checkpoints if outline is not None else (), first)
    pruned = in_force_of(history, checkpoints).pruned
    if row is None:
        return StoredConversation(history, None, None, 0, checkpoints, pruned, pruned, first, outline=outline)
    read = {result.call_id for message in history for result in message.tool_results}
    shown = compactions.pruned_in(connection, session_id, row.number) & read
    repairs = tuple(Repair(**repair) for repair in steps.repairs(connection, session_id))
    unused = compactions.prepared_in_vain(connection, session_id)
    reported, until = _reported(connection, session_id, row, history, checkpoints)
    return StoredConversation(
        history, generation_of(row), reported, until, checkpoints, pruned, shown, first, repairs, unused, outline
    )


def _reported(
    connection: Connection,
    session_id: str,
    generation: Row[Any],
    history: Sequence[Message],
    checkpoints: Sequence[Checkpoint],
) -> tuple[Usage | None, int]:
    """The provider's count of a generation's context, and the seq up to which it goes: from its last step, or before
    the first one from the round that started the generation."""
    newest = steps.newest(connection, session_id)
    is_waiting = newest is not None and newest.finish_reason is None
    last = steps.last_closed(connection, session_id) if is_waiting else newest
    if last is not None and last.generation == generation.number:
        if not _was_reported(last):
            return None, 0
        waiting = newest.message_id if newest is not None and is_waiting else None
        # A step's count at its end includes its results; only later messages are added to it.
        until = max((m.seq for m in history if m.role in (Role.ASSISTANT, Role.TOOL) and m.id != waiting), default=0)
        return Usage(input_tokens=last.context["tokens"]), until
    if generation.reason == "checkpoint" and checkpoints:
        counted = compactions.counted(connection, session_id, checkpoints[-1].round)
        if counted is not None:
            return Usage(input_tokens=counted.tokens), counted.summary_seq
    return None, 0


def _was_reported(step: Row[Any]) -> bool:
    """Whether the provider has counted a step's context; if the window is assumed, its usage shows that."""
    source = step.context["source"]
    return source == "reported" or (source == "assumed" and Usage(**step.usage).prompt_tokens > 0)


def generation_of(row: Row[Any]) -> Generation:
    """A stored generation as a value."""
    return Generation(
        id=row.id,
        number=row.number,
        model=row.model,
        system=row.system,
        tools=tuple(ToolSchema(**tool) for tool in row.tools),
        first_seq=row.first_seq,
        reason=row.reason,
        rounds=tuple(row.rounds or ()),
        echo_reasoning=bool(row.echo_reasoning),
        drop_block=bool(row.drop_block),
    )
