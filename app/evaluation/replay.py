"""One recorded history under one policy: its context, and the round of compaction that makes it smaller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from app.agent.compactor import Compactor, ManualRound
from app.agent.conversation import AgentConfig, Conversation
from app.agent.interrupt import Interrupt
from app.agent.ladder import Ladder
from app.agent.model_calls import ModelCalls
from app.agent.ports import Change, LivePart, RoundCompleted, RoundEnded, RoundOpening, RungFailed
from app.context.budget import make_budget, trigger
from app.context.policies import CompactionSettings, Policy, preset
from app.context.prompts import PromptEnvironment, load_template, render_system
from app.context.tokens import Calibration
from app.evaluation.histories import RecordedHistory, plan_of
from app.evaluation.probing import answer_room
from app.events import PlanItem
from app.llm.base import ModelInfo, ModelRequest, ToolSchema
from app.messages import Message, Usage
from app.sandbox.base import Stream
from app.tools.registry import ToolRegistry, default_tools

SMALLEST_WINDOW = 4_096
"""Windows below this leave no room for a system text, a summary and an answer."""

QUESTION_TOKENS = 300
"""Room for a question with what stands around it."""

ENVIRONMENT = PromptEnvironment("bubblewrap", False, 60, 3600, 30_000)
"""What the histories were recorded in; the environment's text is a part of every request."""


@dataclass(frozen=True, slots=True)
class Models:
    """How models are reached, and what is known of them."""

    calls: ModelCalls
    info: Callable[[str], ModelInfo]


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What a round came to. `made` is None where nothing was made smaller; `usage` is what its model calls cost, and
    `failures` are the rungs that did not do."""

    made: RoundCompleted | None
    usage: Usage
    failures: tuple[RungFailed, ...] = ()


@dataclass(slots=True)
class _Notes:
    """A sink that stores nothing: it keeps what a round says of itself."""

    made: RoundCompleted | None = None
    ended: RoundEnded | None = None
    failures: list[RungFailed] = field(default_factory=list)

    def record(self, *changes: Change) -> Awaitable[int]:
        for change in changes:
            match change:
                case RoundCompleted():
                    self.made = change
                case RoundEnded():
                    self.ended = change
                case RungFailed():
                    self.failures.append(change)
        return _done(0)

    def open_round(self, opening: RoundOpening) -> Awaitable[int]:
        return _done(1)

    def live(self, part: LivePart, text: str, *, stream: Stream = "stdout") -> None:
        """Nobody watches."""


def _done(value: int) -> Awaitable[int]:
    """What is ready, and may as well not be awaited."""
    future = asyncio.get_running_loop().create_future()
    future.set_result(value)
    return future


class Replay:
    """A history as its session's next step would send it, under one policy and model."""

    def __init__(
        self,
        history: RecordedHistory,
        messages: Sequence[Message],
        model: str,
        models: Models,
        *,
        policy: Policy | None = None,
        window: int | None = None,
    ) -> None:
        """`messages` are those of `history.conversation()`, given so that all replays of a history send the same bytes
        and share the provider's cache. Without a `policy` the context stays whole. `window` takes the place of the
        model's own; left out, with a policy it is one that the history has just filled, or the model's own where that
        is smaller. Raises `PalimpsestError` for a model that is not known."""
        self.history = history
        self._models = models
        self._settings = preset(policy or "reactive")
        info = models.info(model)
        self.real_window = info.context_window
        plan = plan_of(messages)

        def render(items: Sequence[PlanItem]) -> str:
            return render_system(load_template(None), ENVIRONMENT, items, history.system_prompt)

        config = AgentConfig(model, _tools(), render, make_budget(info, self._settings), settings=self._settings)
        calibration = Calibration()
        self._conversation = Conversation(messages, plan, None, None, calibration)
        self._conversation.refresh(config)
        self._conversation.settle()
        if policy is not None:
            filled = filled_window(self._conversation.estimate, info, self._settings)
            limit = window or min(filled, info.context_window)
            # As an operator's own word: the share of a window that an answer may have follows from it.
            config = replace(
                config,
                budget=make_budget(
                    replace(info, context_window=limit, window_source="setting"),
                    self._settings,
                ),
            )
        self.config = config

    @property
    def tokens(self) -> int:
        """Estimated tokens of the next request."""
        return self._conversation.estimate

    @property
    def window(self) -> int:
        return self.config.budget.limit

    @property
    def fits(self) -> bool:
        """Whether the context as it is now fits the model's real window, with room for an answer."""
        return self.tokens + QUESTION_TOKENS + answer_room(self.request()) <= self.real_window

    def request(self) -> ModelRequest:
        """What the next step would send."""
        return self._conversation.request(self.config)

    async def compact(self) -> RoundResult:
        """Makes one round through the ladder, as somebody who asks for it gets."""
        notes = _Notes()
        ladder = Ladder(notes, self._conversation, self._models.calls, self._window_of)

        async def refreshed() -> AgentConfig:
            return self.config

        compactor = Compactor(notes, self._conversation, ladder, Interrupt(), refreshed=refreshed)
        await compactor.manual(self.config, ManualRound(1, self._settings))
        if notes.made is not None:
            self._conversation.settle()
            return RoundResult(notes.made, notes.made.usage, tuple(notes.failures))
        usage = notes.ended.usage if notes.ended is not None else Usage()
        return RoundResult(None, usage, tuple(notes.failures))

    def _window_of(self, model: str) -> int:
        return self.window if model == self.config.model else self._models.info(model).context_window


def filled_window(tokens: int, info: ModelInfo, settings: CompactionSettings) -> int:
    """The largest window in which a context of so many tokens has just reached the policy's trigger: there the round
    would come, and the window is as large beside the context as it would be then."""
    low, high = SMALLEST_WINDOW, max(SMALLEST_WINDOW + 1, tokens * 4)
    while high - low > 1:
        middle = (low + high) // 2
        budget = make_budget(replace(info, context_window=middle, window_source="setting"), settings)
        low, high = (middle, high) if trigger(budget, settings) < tokens else (low, middle)
    return low


def _tools() -> tuple[ToolSchema, ...]:
    return tuple(ToolRegistry(default_tools()).schemas())
