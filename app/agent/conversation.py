"""The conversation of a running session as its model sees it: history in memory, its generation and its size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.agent.ports import GenerationOpened
from app.context.budget import Budget, context_state, context_tokens
from app.context.generation import Generation, GenerationReason
from app.context.projection import Transcript
from app.context.tokens import Calibration
from app.events import PlanItem
from app.llm.base import ModelRequest, ToolSchema
from app.messages import Message, Usage, new_id
from app.sessions import ContextState


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """What a session may change between steps. `render` makes the system text from the plan; `calibration` is what is
    known of the model's tokenizer."""

    model: str
    tools: tuple[ToolSchema, ...]
    render: Callable[[Sequence[PlanItem]], str]
    budget: Budget
    calibration: Calibration = field(default_factory=Calibration)
    temperature: float | None = None


class Conversation:
    """Grows with the history; makes each step's request without looking at what was there before."""

    def __init__(
        self,
        history: Sequence[Message],
        plan: Sequence[PlanItem],
        generation: Generation | None,
        last_usage: Usage | None,
        calibration: Calibration,
        *,
        reported_until: int = 0,
    ) -> None:
        """`generation` is the stored one, if any, and `last_usage` what its last step reported: the size of all up to
        and with the message of seq `reported_until`."""
        self._history = list(history)
        self.plan = tuple(plan)
        self.calibration = calibration
        self._generation = generation
        self._transcript = Transcript(generation, self._history) if generation is not None else None
        self._wire_cache: dict[str, Any] = {}
        self._reported = last_usage
        self._observed = False
        later = [message for message in self._history if message.seq > reported_until]
        self._later_tokens = sum(message.tokens for message in later) if last_usage is not None else None

    @property
    def has_generation(self) -> bool:
        """Whether a step was ever prepared."""
        return self._generation is not None

    @property
    def generation(self) -> Generation:
        assert self._generation is not None, "refresh comes before the first step"
        return self._generation

    @property
    def transcript(self) -> Transcript:
        assert self._transcript is not None, "refresh comes before the first step"
        return self._transcript

    @property
    def last(self) -> Message | None:
        """The last message that the model would see."""
        messages = self._transcript.messages if self._transcript is not None else self._history
        return messages[-1] if messages else None

    def append(self, message: Message) -> None:
        """Adds the history's next message."""
        self._history.append(message)
        if self._transcript is not None:
            before = self._transcript.tokens
            self._transcript.append(message)
            if self._later_tokens is not None:
                self._later_tokens += self._transcript.tokens - before

    def refresh(self, config: AgentConfig) -> GenerationOpened | None:
        """Starts a generation if model, tools, system text or plan have changed; None where nothing has."""
        system = config.render(self.plan)
        reason = self._changed(config, system)
        if reason is None:
            return None
        if reason in ("created", "model"):
            self._wire_cache = {}
        if reason == "model":
            self.calibration = config.calibration
        return self._open(reason, config.model, system, config.tools)

    def settle(self) -> GenerationOpened | None:
        """Mends the conversation if it could not be sent; a generation then begins."""
        if not self.transcript.settle():
            return None
        self._wire_cache = {}
        mended, old = self.transcript, self.generation
        opened = self._open("repair", old.model, old.system, old.tools)
        self._transcript = mended
        mended.generation = self.generation
        return opened

    def _changed(self, config: AgentConfig, system: str) -> GenerationReason | None:
        old = self._generation
        if old is None:
            return "created"
        if old.model != config.model:
            return "model"
        if old.tools != config.tools:
            return "tools"
        return None if old.system == system else "system_prompt"

    def _open(
        self, reason: GenerationReason, model: str, system: str, tools: tuple[ToolSchema, ...]
    ) -> GenerationOpened:
        number = self._generation.number + 1 if self._generation is not None else 1
        first_seq = self._history[-1].seq + 1 if self._history else 1
        self._generation = Generation(new_id(), number, model, system, tools, first_seq, reason)
        self._transcript = Transcript(self._generation, self._history)
        self._reported, self._later_tokens = None, None
        return GenerationOpened(self._generation)

    def request(self, config: AgentConfig) -> ModelRequest:
        """The request of the next step; `messages` is one list for the whole generation."""
        return ModelRequest(
            model=self.generation.model,
            system=self.generation.system,
            messages=self.transcript.messages,
            tools=self.generation.tools,
            max_output_tokens=config.budget.output_reserve,
            temperature=config.temperature,
            wire_cache=self._wire_cache,
        )

    def observe(self, usage: Usage) -> None:
        """Takes what a step reported, before its answer is appended."""
        estimated = self.transcript.request_tokens
        self.calibration = self.calibration.observe(estimated, usage.prompt_tokens)
        self._reported, self._later_tokens = usage, 0
        self._observed = True

    def answered(self) -> None:
        """The answer has been appended; its tokens are in the reported usage and must not count twice."""
        if self._observed:
            self._later_tokens = 0
        self._observed = False

    def state(self, budget: Budget) -> ContextState:
        """The context's size: what was reported and what came after it, or the estimate of all."""
        if self._reported is not None and self._later_tokens is not None:
            later = self.calibration.apply(self._later_tokens)
            return context_state(budget, context_tokens(self._reported, later), reported=True)
        estimate = self.calibration.apply(self.transcript.request_tokens)
        return context_state(budget, estimate, reported=False)
