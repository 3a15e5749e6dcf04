"""Makes the agent of a session from its row (prompt, model, tools, limits), and reads of its stored history what a run
needs."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row

from app.agent.compaction.rounds import BackgroundSlots
from app.agent.conversation import Conversation
from app.agent.limits import RunRules
from app.agent.model_calls import ModelCalls
from app.agent.protocols import AgentConfig
from app.agent.record import Outline, Past, StoredConversation
from app.context.budget import BelievedSource, Budget, believed_window, make_budget
from app.context.checkpoints import Checkpoint, InForce, gaps, not_superseded
from app.context.content import ReasoningRule, sendable
from app.context.policies import CompactionSettings
from app.context.prompts import Generation, Notes, PromptEnvironment, render_notes, render_system, template_for
from app.context.selection import is_request
from app.context.skills import render_skills
from app.context.tokens import Calibration
from app.context.validator import Repair
from app.db.engine import Database
from app.db.repositories import compactions, messages, parts, queue, steps
from app.llm.base import ModelInfo, ToolSchema
from app.llm.known_models import offered_effort
from app.messages import ImagePart, Message, Role, ToolResultPart, Usage, clearing_key
from app.runtime.learned_models import LearnedCalibrations, LearnedQuirks, LearnedWindows
from app.runtime.mcp.offer import NOTHING, Offer
from app.runtime.skills import OperatorSkills
from app.runtime.transactions import compactions as rounds
from app.sessions import Approval, PlanItem, SandboxSpec
from app.tools import client
from app.tools.background import NAMES as BACKGROUND_TOOLS
from app.tools.delegate import NAME as DELEGATE
from app.tools.registry import LEAN_SETS, ToolRegistry, tools_for
from app.tools.submit import OutputFormat

RECENT = 50
"""Messages at the end of a history that are read even if a summary covers them: the loop guard looks at the steps since
the user's last message, 18 with its defaults, however they are shown."""
PAGE = 500
"""Messages read at a time when all are read, to bound memory."""


@dataclass(frozen=True, slots=True)
class AgentSetup:
    """Shared by all agents of this server. Times are in seconds, `output_chars` in characters. `template` are the
    instructions of the system prompt, `summary_template` an operator's sections of a summary, `skills` an operator's.
    `ask_window` asks a model's server for its window if it is not known otherwise; `model_info` then has it."""

    models: ModelCalls
    model_info: Callable[[str], ModelInfo]
    ask_window: Callable[[str], Awaitable[None]]
    registry: ToolRegistry
    template: str
    command_timeout_s: float
    max_command_timeout_s: float
    output_chars: int
    windows: LearnedWindows
    quirks: LearnedQuirks | None = None
    calibrations: LearnedCalibrations = field(default_factory=LearnedCalibrations)
    summary_template: str | None = None
    background_slots: BackgroundSlots = field(default_factory=BackgroundSlots)
    """Slots for summaries that are prepared in the background."""
    run_rules: RunRules = field(default_factory=RunRules)
    skills: OperatorSkills = field(default_factory=OperatorSkills)

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

    def config(
        self, row: Row[Any], notes: Notes | None = None, offer: Callable[[int], Offer] = lambda _: NOTHING
    ) -> AgentConfig:
        """The agent's configuration from a session's row; `notes` replace the stored ones. `offer` returns the tools of
        MCP servers for a window of so many tokens."""
        settings = CompactionSettings(**row.compaction)
        budget = self.budget(row.model, settings)
        info = self.model_info(row.model)
        output = OutputFormat.of_session(row)
        # Explicitly named tools are offered even if fewer would suit the window better.
        hidden = () if row.tools is not None else (DELEGATE, *(() if row.has_commands else BACKGROUND_TOOLS))
        tools = self.registry.schemas(tools_for(budget.limit) if row.tools is None else row.tools, hidden=hidden)
        clients = [spec.schema for spec in client.load(row.client_tools)]
        reach = offer(budget.limit)
        offered = (*tools, *clients, *reach.schemas, *([output.tool()] if output is not None else []))
        if info.refused_tools:
            offered = tuple(tool for tool in offered if tool.key not in info.refused_tools)
        return AgentConfig(
            model=row.model,
            tools=offered,
            system=self.system(row, budget, notes),
            budget=budget,
            calibration=self.calibration(row.model),
            settings=settings,
            reasoning_effort=offered_effort(row.reasoning_effort, info.reasoning_efforts),
            summary_template=self.summary_template,
            approval=reach.approval(Approval(**row.approval)),
            binds_thinking=info.binds_thinking,
            echoes_reasoning=info.echoes_reasoning,
            sees_images=info.sees_images is not False,
            has_seen_images=info.sees_images is True,
            has_output=output is not None,
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
        notes = notes or Notes.load(row.notes)
        # With the smallest windows, there is no tool that would copy the operator's.
        ours = () if LEAN_SETS[0][0] >= budget.limit else self.skills.skills
        skills = render_skills((*notes.skills, *ours), budget.usable)
        shown = [section for section in (skills, render_notes(notes, budget.usable)) if section]
        template = template_for(self.template, lean=budget.lean)
        return render_system(template, environment, row.system_prompt, "\n\n".join(shown))

    def calibration(self, model: str) -> Calibration:
        """How far estimates are off for a model, as learned by this server."""
        return self.calibrations.get(model) or Calibration.starting(model.partition("/")[0])

    async def exchange(self, database: Database) -> None:
        """Exchanges with other nodes of a cluster what was learned about models. Raises `StorageError`."""
        try:
            await self.calibrations.store()
        finally:  # a database that cannot be written can still be read
            # One read for all: each node does this every other second.
            windows, quirks, factors = await database.read(
                lambda c: (LearnedWindows.rows(c), LearnedQuirks.rows(c), LearnedCalibrations.rows(c))
            )
            self.windows.adopt(windows)
            if self.quirks is not None:
                self.quirks.adopt(quirks)
            self.calibrations.adopt(factors)

    def learn(self, conversation: Conversation) -> None:
        """Remembers what was learned in a conversation about its models' tokenizers."""
        if conversation.has_generation:
            self.calibrations.update(conversation.take_calibrations())

    def conversation(self, stored: StoredConversation, row: Row[Any]) -> Conversation:
        """A session's stored conversation, with token counts for the model it last used."""
        model = stored.generation.model if stored.generation is not None else row.model
        plan = [PlanItem(**item) for item in row.plan]
        task_id = stored.first_queued if row.task is not None else None
        return Conversation(stored, plan, self.calibration(model), task_id=task_id, model=model)


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
    read = {clearing_key(part) for message in history for part in message.parts}
    shown = compactions.pruned_in(connection, session_id, row.number) & read
    repairs = tuple(Repair(**repair) for repair in steps.repairs(connection, session_id))
    unused = compactions.unused_round_tokens(connection, session_id)
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
        end = next((m.seq for m in history if m.id == waiting), sys.maxsize)
        # A step's count at its end includes its results; only later messages are added to it.
        until = max((m.seq for m in history if m.role in (Role.ASSISTANT, Role.TOOL) and m.seq < end), default=0)
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
        sees_images=row.sees_images is not False,
    )


def read_shown(
    connection: Connection,
    session_id: str,
    checkpoints: Sequence[Checkpoint],
    task_id: str | None,
    *,
    recent: int = RECENT,
) -> list[Message]:
    """The messages that contexts with these and later checkpoints can contain, and the newest, in order; what a summary
    replaces is not read. `checkpoints` are in the order of creation, and `task_id` is the message with the session's
    task.

    They are: messages outside the ranges in force; kept or partly shown ones inside them; the summaries; and the user's
    first and last messages, one of which a later round may keep.
    """
    if not checkpoints:
        return messages.history(connection, session_id)
    applied = not_superseded(checkpoints)
    end = messages.newest_seq(connection, session_id, recent)
    ranges = [(c.first_seq, min(c.last_seq, end - 1)) for c in applied if c.first_seq < end]
    found = {
        message.id: message
        for after, before in gaps(ranges)
        for message in messages.history(connection, session_id, after=after, before=before)
    }
    wanted = {c.summary_message_id for c in applied}.union(*(c.kept for c in applied))
    clipped = {part_id for c in applied for part_id, _ in c.clips}
    if clipped:
        wanted |= parts.messages_with(connection, session_id, clipped)
    if task_id is not None:
        wanted.add(task_id)
    named = messages.named(connection, session_id, wanted - found.keys())
    found |= {message.id: message for message in (*named, *_ends_of_requests(connection, session_id))}
    return sorted(found.values(), key=lambda message: message.seq)


def _ends_of_requests(connection: Connection, session_id: str) -> list[Message]:
    """The user's first message and the last."""
    both = (messages.requests(connection, session_id, newest_first=newest_first) for newest_first in (False, True))
    return [message for found in both if (message := next(filter(_may_stay, found), None)) is not None]


def _may_stay(message: Message) -> bool:
    return is_request(message) and sendable(message, ReasoningRule("")) is not None


def in_force_of(history: Sequence[Message], checkpoints: Sequence[Checkpoint]) -> InForce:
    """What is in force according to these checkpoints and the marks on the messages read."""
    clearable = (part for message in history for part in message.parts if isinstance(part, ToolResultPart | ImagePart))
    cleared = (clearing_key(part) for part in clearable if part.compacted_at is not None)
    return InForce(tuple(checkpoints), frozenset(key for key in cleared if key is not None))


def read_again(connection: Connection, session_id: str) -> tuple[InForce, list[Message]]:
    """What is in force now, and the messages of that context; called after a revert."""
    checkpoints = rounds.checkpoints(connection, session_id)
    found = read_shown(connection, session_id, checkpoints, queue.first_id(connection, session_id))
    return in_force_of(found, checkpoints), found


def read_outline(connection: Connection, session_id: str) -> Outline:
    """What is known of a history without reading its messages."""
    return Outline(messages.first_id(connection, session_id), messages.writers(connection, session_id))


def read_past(connection: Connection, session_id: str, last_seq: int) -> Past:
    """What only rounds need to know of the messages up to and including a seq; reads them all."""
    past = Past()
    after = 0
    while page := messages.history(connection, session_id, after=after, before=last_seq + 1, limit=PAGE):
        past.take(page)
        after = page[-1].seq
    return past
