"""One recorded history under one policy: its context, the compaction that makes it smaller, and the result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from app.agent.changes import Change, ModelUsed, OutputsPruned, RoundCompleted, RoundOpening, RungFailed
from app.agent.compaction.compactor import Compactor
from app.agent.compaction.ladder import Ladder, RoundSetup
from app.agent.compaction.triggers import NOTHING, ManualRound, due
from app.agent.conversation import Conversation
from app.agent.interrupt import Interrupt
from app.agent.model_calls import ModelCalls
from app.agent.protocols import AgentConfig, LivePart
from app.agent.record import StoredConversation
from app.context.budget import make_budget, trigger
from app.context.checkpoints import InForce
from app.context.policies import CompactionSettings, Policy, preset
from app.context.prompts import SYSTEM_TEMPLATE, PromptEnvironment, render_system
from app.context.tokens import Calibration
from app.llm.base import ModelInfo, ModelRequest, ToolSchema
from app.messages import Message, Usage
from app.sandbox.base import Stream
from app.sessions import Rung
from app.tools.delegate import NAME as DELEGATE
from app.tools.registry import ToolRegistry, default_tools
from evals.histories import RecordedHistory, plan_of
from evals.probing import answer_room

SMALLEST_WINDOW = 4_096
"""Smaller windows leave no room for a system text, a summary and an answer."""
QUESTION_TOKENS = 300
"""Room for a question with the text around it."""
ENVIRONMENT = PromptEnvironment("bubblewrap", False, 60, 3600, 30_000)
"""The environment that the histories were recorded in; its text is part of every request."""


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The result of a round. `rung` is what made the context smaller, None if nothing did, and then `problem` says why;
    `usage` is the cost of its model calls, including failed ones, and `failures` are the rungs that failed."""

    rung: Rung | None
    usage: Usage
    failures: tuple[RungFailed, ...] = ()
    messages_compacted: int = 0
    outputs_pruned: int = 0
    summary: str | None = None
    problem: str | None = None


class RoundNotes:
    """A sink that keeps what one round records."""

    def __init__(self) -> None:
        self._made: RoundCompleted | None = None
        self._pruned: OutputsPruned | None = None
        self._usage = Usage()
        self._failures: list[RungFailed] = []

    def record(self, *changes: Change) -> Awaitable[int]:
        for change in changes:
            match change:
                case RoundCompleted():
                    self._made = change
                case OutputsPruned():
                    self._pruned = change
                case RungFailed():
                    self._failures.append(change)
                case ModelUsed(usage=usage):
                    self._usage = self._usage + usage
        return ready(0)

    def open_round(self, opening: RoundOpening) -> Awaitable[int]:
        return ready(1)

    def complete_round(self, completed: RoundCompleted, *changes: Change) -> Awaitable[int | InForce]:
        self.record(completed, *changes)
        return ready(completed.summary.seq)

    def live(self, part: LivePart, text: str, *, stream: Stream = "stdout") -> None:
        """Do nothing: nobody watches."""

    def result(self, problem: str) -> RoundResult:
        """The result of the round; `problem` is used if it failed, unless its last rung reported why."""
        failures, made, pruned = tuple(self._failures), self._made, self._pruned
        if made is not None:
            return RoundResult(made.rung, self._usage, failures, made.messages_compacted, len(made.pruned), made.prose)
        if pruned is not None:
            return RoundResult("prune", self._usage, failures, outputs_pruned=len(pruned.call_ids))
        if failures:
            problem = f"{failures[-1].detail} ({failures[-1].code})"
        return RoundResult(None, self._usage, failures, problem=problem)


def ready(value: int) -> Awaitable[int]:
    """A result that is ready and need not be awaited."""
    future = asyncio.get_running_loop().create_future()
    future.set_result(value)
    return future


@dataclass(frozen=True, slots=True)
class Models:
    """How models are reached, and what is known about them."""

    calls: ModelCalls
    info: Callable[[str], ModelInfo]


class Replay:
    """A history as its session's next step would send it, under one policy and model."""

    def __init__(
        self,
        history: RecordedHistory,
        models: Models,
        conversation: Conversation,
        config: AgentConfig,
        real_window: int,
    ) -> None:
        """`real_window` is the model's own; the configuration's may be another one."""
        self.history = history
        self._models = models
        self._conversation = conversation
        self.config = config
        self.real_window = real_window

    @classmethod
    async def of(
        cls,
        history: RecordedHistory,
        messages: Sequence[Message],
        model: str,
        models: Models,
        *,
        policy: Policy | None = None,
        window: int | None = None,
        summary_template: str | None = None,
    ) -> Replay:
        """`messages` are those of `history.conversation()`, passed in so that all replays of a history send the same
        bytes and share the provider's cache. Without a `policy` the context stays whole. `window` replaces the model's
        own; without it, a `policy` gets a window that the history has just filled, or the model's own if that is
        smaller. Raises `PalimpsestError` for an unknown model."""
        settings = preset(policy or "reactive")
        info = models.info(model)
        config = AgentConfig(
            model,
            tools(),
            render_system(SYSTEM_TEMPLATE, ENVIRONMENT, history.system_prompt),
            make_budget(info, settings),
            settings=settings,
            summary_template=summary_template,
        )
        conversation = Conversation(StoredConversation(messages), plan_of(messages), Calibration())
        await conversation.refresh(config)
        await conversation.settle()
        if policy is not None:
            filled = filled_window(conversation.estimate, info, settings)
            limit = window or min(filled, info.context_window)
            # Like an operator's own setting: the answer's share of the window follows from it.
            config = replace(
                config,
                budget=make_budget(
                    replace(info, context_window=limit, window_source="setting"),
                    settings,
                ),
            )
        return cls(history, models, conversation, config, info.context_window)

    @property
    def tokens(self) -> int:
        """Estimated tokens of the next request."""
        return self._conversation.estimate

    @property
    def window(self) -> int:
        return self.config.budget.limit

    @property
    def fits(self) -> bool:
        """Whether the current context fits the model's real window, with room for an answer."""
        return self.tokens + QUESTION_TOKENS + answer_room(self.request()) <= self.real_window

    def request(self) -> ModelRequest:
        """What the next step would send."""
        return self._conversation.request(self.config)

    async def compact(self) -> RoundResult:
        """Makes the round that the policy makes at its trigger, which under `reactive` may only clear old outputs;
        below the trigger, a manual round."""
        notes = RoundNotes()
        ladder = Ladder(notes, self._conversation, self._models.calls, self._window_of)
        compactor = Compactor(RoundSetup(notes, self._conversation, ladder, Interrupt(), unchanged))
        if due(self._conversation, self.config) is None:
            await compactor.manual(self.config, ManualRound(1, self.config.settings))
        else:
            await compactor.make_room(self.config, 1, nothing)
        await self._conversation.settle()
        return notes.result(_problem(compactor))

    def _window_of(self, model: str) -> int:
        return self.window if model == self.config.model else self._models.info(model).context_window


def filled_window(tokens: int, info: ModelInfo, settings: CompactionSettings) -> int:
    """The largest window in which a context of `tokens` tokens has just reached the policy's trigger: there a round
    would be made, with a window as large relative to the context as it would be then."""
    low, high = SMALLEST_WINDOW, max(SMALLEST_WINDOW + 1, tokens * 4)
    while high - low > 1:
        middle = (low + high) // 2
        budget = make_budget(replace(info, context_window=middle, window_source="setting"), settings)
        low, high = (middle, high) if trigger(budget, settings) < tokens else (low, middle)
    return low


async def unchanged(config: AgentConfig) -> AgentConfig:
    """There is no workspace to read notes from."""
    return config


async def nothing() -> None:
    """There is no step to prepare."""


def _problem(compactor: Compactor) -> str:
    """Why the context was not made smaller, if it was not."""
    problem = compactor.problem or NOTHING._asdict()
    return f"{problem['detail']} ({problem['code']})"


def tools() -> tuple[ToolSchema, ...]:
    return tuple(ToolRegistry(default_tools()).schemas(hidden=(DELEGATE,)))
