"""Makes the agent of a session from its row: what it is told, which model and tools it has, what it may spend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row

from app.agent.conversation import AgentConfig, Conversation
from app.agent.model_calls import ModelCalls
from app.context.budget import make_budget
from app.context.generation import Generation
from app.context.policies import CompactionSettings
from app.context.projection import Checkpoint
from app.context.prompts import Notes, PromptEnvironment, render_notes, render_system
from app.context.tokens import Calibration
from app.db.repositories import compactions, messages, steps
from app.events import PlanItem
from app.llm.base import ModelInfo, ToolSchema
from app.messages import Message, Role, Usage
from app.runtime import compactions as rounds
from app.runtime.windows import LearnedWindows
from app.tools.registry import ToolRegistry


@dataclass(frozen=True, slots=True)
class AgentSetup:
    """What all agents of this server share. Times are in seconds, `output_chars` in characters."""

    models: ModelCalls
    model_info: Callable[[str], ModelInfo]
    registry: ToolRegistry
    template: str
    command_timeout_s: float
    max_command_timeout_s: float
    output_chars: int
    windows: LearnedWindows
    calibrations: dict[str, Calibration] = field(default_factory=dict)
    """By model; learnt while the server runs."""

    def config(self, row: Row[Any]) -> AgentConfig:
        """What a session's row says of its agent."""
        settings = CompactionSettings(**row.compaction)
        environment = PromptEnvironment(
            sandbox=row.sandbox["kind"],
            network=bool(row.sandbox["network"]),
            command_timeout_s=self.command_timeout_s,
            max_command_timeout_s=self.max_command_timeout_s,
            output_chars=self.output_chars,
        )

        budget = make_budget(self.model_info(row.model), settings, self.windows.get(row.model))
        notes = render_notes(Notes.load(row.notes), budget.usable)

        def render(plan: Sequence[PlanItem]) -> str:
            return render_system(self.template, environment, plan, row.system_prompt, notes)

        return AgentConfig(
            model=row.model,
            tools=tuple(self.registry.schemas(row.tools)),
            render=render,
            budget=budget,
            calibration=self.calibration(row.model),
            settings=settings,
        )

    def calibration(self, model: str) -> Calibration:
        """How far estimates are off for a model, as far as this server has learnt."""
        return self.calibrations.get(model) or Calibration.starting(model.partition("/")[0])

    def learn(self, conversation: Conversation) -> None:
        """Remembers what a conversation has shown of its model's tokenizer."""
        if conversation.has_generation:
            self.calibrations[conversation.generation.model] = conversation.calibration

    def conversation(self, stored: StoredConversation, row: Row[Any]) -> Conversation:
        """A session's conversation, as it was left."""
        return Conversation(
            stored.history,
            [PlanItem(**item) for item in row.plan],
            stored.generation,
            stored.last_usage,
            self.calibration(row.model),
            reported_until=stored.reported_until,
            checkpoints=stored.checkpoints,
            pruned=stored.pruned,
            shown_pruned=stored.shown_pruned,
        )


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """What the database holds of a conversation. `last_usage` is the size of the context after the last step of this
    generation, if its provider reported it; it covers the history up to and with the seq `reported_until`.
    `checkpoints` and `pruned` are those in force, `shown_pruned` the outputs that the generation clears."""

    history: list[Message]
    generation: Generation | None
    last_usage: Usage | None
    reported_until: int
    checkpoints: list[Checkpoint]
    pruned: frozenset[str]
    shown_pruned: frozenset[str]


def load_conversation(connection: Connection, session_id: str) -> StoredConversation:
    """Reads a conversation whole; for the start of a run, never for a step."""
    row = steps.generation(connection, session_id)
    history = messages.history(connection, session_id)
    checkpoints = rounds.checkpoints(connection, session_id)
    pruned = compactions.pruned_calls(connection, session_id)
    if row is None:
        return StoredConversation(history, None, None, 0, checkpoints, pruned, pruned)
    shown = compactions.pruned_in(connection, session_id, row.number)
    last = steps.last_closed(connection, session_id)
    if last is None or last.generation != row.number or last.context["source"] != "reported":
        return StoredConversation(history, generation_of(row), None, 0, checkpoints, pruned, shown)
    # What a step leaves in the context was counted at its end, its results included; only what was said to the model
    # since then comes on top.
    until = max((m.seq for m in history if m.role in (Role.ASSISTANT, Role.TOOL)), default=0)
    reported = Usage(input_tokens=last.context["tokens"])
    return StoredConversation(history, generation_of(row), reported, until, checkpoints, pruned, shown)


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
    )
