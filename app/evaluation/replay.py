"""One recorded history under one policy: its context, and the round of compaction that makes it smaller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from app.agent.asked import NOTHING, ManualRound
from app.agent.compactor import Compactor
from app.agent.conversation import AgentConfig, Conversation
from app.agent.interrupt import Interrupt
from app.agent.ladder import Ladder
from app.agent.model_calls import ModelCalls
from app.agent.round_setup import RoundSetup
from app.agent.triggers import due
from app.context.budget import make_budget, trigger
from app.context.policies import CompactionSettings, Policy, preset
from app.context.prompts import SYSTEM_TEMPLATE, PromptEnvironment, render_system
from app.context.tokens import Calibration
from app.evaluation.histories import RecordedHistory, plan_of
from app.evaluation.probing import answer_room
from app.evaluation.rounds import RoundNotes, RoundResult
from app.llm.base import ModelInfo, ModelRequest, ToolSchema
from app.messages import Message
from app.tools.registry import ToolRegistry, default_tools

SMALLEST_WINDOW = 4_096
"""Smaller windows leave no room for a system text, a summary and an answer."""

QUESTION_TOKENS = 300
"""Room for a question with the text around it."""

ENVIRONMENT = PromptEnvironment("bubblewrap", False, 60, 3600, 30_000)
"""The environment that the histories were recorded in; its text is part of every request."""


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
        messages: Sequence[Message],
        model: str,
        models: Models,
        *,
        policy: Policy | None = None,
        window: int | None = None,
        summary_template: str | None = None,
    ) -> None:
        """`messages` are those of `history.conversation()`, passed in so that all replays of a history send the same
        bytes and share the provider's cache. Without a `policy` the context stays whole. `window` replaces the model's
        own; without it, a `policy` gets a window that the history has just filled, or the model's own if that is
        smaller. Raises `PalimpsestError` for an unknown model."""
        self.history = history
        self._models = models
        self._settings = preset(policy or "reactive")
        info = models.info(model)
        self.real_window = info.context_window
        config = AgentConfig(
            model,
            _tools(),
            render_system(SYSTEM_TEMPLATE, ENVIRONMENT, history.system_prompt),
            make_budget(info, self._settings),
            settings=self._settings,
            summary_template=summary_template,
        )
        self._conversation = Conversation(messages, plan_of(messages), None, None, Calibration())
        self._conversation.refresh(config)
        self._conversation.settle()
        if policy is not None:
            filled = filled_window(self._conversation.estimate, info, self._settings)
            limit = window or min(filled, info.context_window)
            # Like an operator's own setting: the answer's share of the window follows from it.
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
        compactor = Compactor(RoundSetup(notes, self._conversation, ladder, Interrupt(), _unchanged))
        if due(self._conversation, self.config) is None:
            await compactor.manual(self.config, ManualRound(1, self._settings))
        else:
            await compactor.make_room(self.config, 1, _nothing)
        self._conversation.settle()
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


async def _unchanged(config: AgentConfig) -> AgentConfig:
    """There is no workspace to read notes from."""
    return config


async def _nothing() -> None:
    """There is no step to prepare."""


def _problem(compactor: Compactor) -> str:
    """Why the context was not made smaller, if it was not."""
    problem = compactor.problem or NOTHING._asdict()
    return f"{problem['detail']} ({problem['code']})"


def _tools() -> tuple[ToolSchema, ...]:
    return tuple(ToolRegistry(default_tools()).schemas())
