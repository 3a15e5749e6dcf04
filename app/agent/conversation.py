"""The conversation of a running session as its model sees it: history in memory, its generation and its size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from app.agent.ports import GenerationOpened
from app.context.budget import Budget, context_state, context_tokens
from app.context.generation import Generation, GenerationReason
from app.context.policies import DEFAULT, CompactionSettings
from app.context.projection import Checkpoint, Transcript
from app.context.tokens import Calibration
from app.context.validator import repair
from app.events import PlanItem
from app.llm.base import ModelRequest, ToolSchema
from app.messages import Message, Usage, new_id
from app.sessions import ContextState

TRUNCATION_MINIMUM = 3_000
"""Estimated tokens of a request below which a low count says nothing: the smallest windows in use have 2,048."""

TRUNCATION_SHARE = 0.45
"""A prompt counted below this share of its estimate was cut off; the estimate is never off by so much for text."""


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """What a session may change between steps. `render` makes the system text from the plan; `calibration` is what is
    known of the model's tokenizer."""

    model: str
    tools: tuple[ToolSchema, ...]
    render: Callable[[Sequence[PlanItem]], str]
    budget: Budget
    calibration: Calibration = field(default_factory=Calibration)
    settings: CompactionSettings = DEFAULT
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
        checkpoints: Sequence[Checkpoint] = (),
        pruned: AbstractSet[str] = frozenset(),
        shown_pruned: AbstractSet[str] | None = None,
    ) -> None:
        """`generation` is the stored one, if any, and `last_usage` what its last step reported: the size of all up to
        and with the message of seq `reported_until`. `checkpoints` and `pruned` (call ids) are those in force now; the
        generation may be older than they are, and `shown_pruned` is what it clears, where that differs."""
        self._history = list(history)
        self._checkpoints = tuple(checkpoints)
        self._pruned = frozenset(pruned)
        self._shown_pruned = self._pruned if shown_pruned is None else frozenset(shown_pruned)
        self.plan = tuple(plan)
        self.calibration = calibration
        self._generation = generation
        self._transcript = self._project(generation) if generation is not None else None
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
    def history(self) -> Sequence[Message]:
        """All messages, those that the model does not see included."""
        return self._history

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """The rounds of compaction that shape the context, superseded ones included."""
        return self._checkpoints

    @property
    def pruned(self) -> frozenset[str]:
        """The calls whose outputs are cleared."""
        return self._pruned

    @property
    def round(self) -> int:
        """The newest round in force, 0 without one."""
        return max((checkpoint.round for checkpoint in self._checkpoints), default=0)

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
        """Starts a generation if model, tools, system text or plan have changed, or a round was reverted; None where
        nothing has."""
        system = config.render(self.plan)
        reason = self._changed(config, system)
        if reason is None:
            return None
        if reason in ("created", "model", "revert"):
            self._wire_cache = {}
        if reason == "model":
            self.calibration = config.calibration
        return self._open(reason, config.model, system, config.tools)

    def revert(self, checkpoints: Sequence[Checkpoint], pruned: AbstractSet[str]) -> None:
        """Takes what is in force after a round was reverted; the next `refresh` starts a generation."""
        self._checkpoints, self._pruned = tuple(checkpoints), frozenset(pruned)

    def measure(self, summary: Message | None, checkpoints: Sequence[Checkpoint], pruned: AbstractSet[str]) -> int:
        """Calibrated tokens that a request would have with other checkpoints and marks, and a summary that is not in
        the history yet."""
        history = self._history if summary is None else [*self._history, summary]
        transcript = Transcript(self.generation, history, checkpoints, pruned)
        transcript.settle()
        return self.calibration.apply(transcript.request_tokens)

    @property
    def size(self) -> int:
        """Calibrated tokens of the next request once it is fit to be sent, by our own count alone."""
        return self.measure(None, self._checkpoints, self._pruned)

    @property
    def estimate(self) -> int:
        """Calibrated tokens of the next request, by our own count alone."""
        return self.calibration.apply(self.transcript.request_tokens)

    def adopt(
        self, config: AgentConfig, reason: GenerationReason, checkpoints: Sequence[Checkpoint], pruned: AbstractSet[str]
    ) -> GenerationOpened:
        """Starts a generation with other checkpoints or marks; a new summary has been appended before."""
        self._checkpoints, self._pruned = tuple(checkpoints), frozenset(pruned)
        self._wire_cache = {}
        return self._open(reason, config.model, config.render(self.plan), config.tools)

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
        if old.rounds != self._rounds:
            return "revert"
        return None if old.system == system else "system_prompt"

    def _open(
        self, reason: GenerationReason, model: str, system: str, tools: tuple[ToolSchema, ...]
    ) -> GenerationOpened:
        old = self._generation
        number = old.number + 1 if old is not None else 1
        first_seq = self._history[-1].seq + 1 if self._history else 1
        self._generation = Generation(new_id(), number, model, system, tools, first_seq, reason, self._rounds)
        self._transcript = self._project(self._generation)
        self._reported, self._later_tokens = None, None
        shown, self._shown_pruned = self._shown_pruned, self._pruned
        return GenerationOpened(
            self._generation, tuple(sorted(self._pruned - shown)), tuple(sorted(shown - self._pruned))
        )

    @property
    def _rounds(self) -> tuple[int, ...]:
        return tuple(sorted(checkpoint.round for checkpoint in self._checkpoints))

    def _project(self, generation: Generation) -> Transcript:
        return Transcript(generation, self._history, self._checkpoints, self._pruned)

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

    def sound_request(self, config: AgentConfig) -> ModelRequest:
        """As `request`, fit to be sent at any time, and with messages that stay as they are when a step adds more."""
        request = self.request(config)
        messages, repairs = repair(request.messages, model=request.model)
        return replace(request, messages=messages, wire_cache={} if repairs else request.wire_cache)

    def was_truncated(self, usage: Usage) -> bool:
        """Whether a reported prompt is so far below the raw estimate that the server must have dropped a part of it."""
        estimated = self.transcript.request_tokens
        return estimated >= TRUNCATION_MINIMUM and 0 < usage.prompt_tokens < TRUNCATION_SHARE * estimated

    def observe(self, usage: Usage) -> None:
        """Takes what a step reported, before its answer is appended."""
        estimated = self.transcript.request_tokens
        self.calibration = self.calibration.observe(estimated, usage.prompt_tokens)
        self._reported, self._later_tokens = usage, 0
        self._observed = True

    def recounted(self, prompt_tokens: int) -> None:
        """Takes the provider's own count of the next request, made for its sake."""
        self._reported, self._later_tokens = Usage(input_tokens=prompt_tokens), 0

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
