"""The conversation of a running session as its model sees it: history in memory, its generation and its size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from app.agent.gauge import Gauge
from app.agent.ports import GenerationOpened
from app.agent.record import Record
from app.context.budget import Budget
from app.context.checkpoints import Checkpoint, InForce
from app.context.facts import Facts
from app.context.generation import Generation, GenerationReason
from app.context.policies import DEFAULT, CompactionSettings
from app.context.projection import Transcript
from app.context.prompts import differs_by_plan_alone, with_plan
from app.context.tokens import PER_MESSAGE, Calibration
from app.context.truncation import Sent, least_added, least_tokens, may_shrink
from app.context.validator import Repair, repair
from app.events import PlanItem
from app.llm.base import ModelRequest, ToolSchema
from app.messages import Message, Usage, new_id
from app.sessions import Approval, ContextState


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """What a session may change between steps. `system` is the system text without the plan; `calibration` is what is
    known of the model's tokenizer; `summary_template` are the operator's sections of a summary, None for the built-in
    ones. `approval` says which calls wait for a person."""

    model: str
    tools: tuple[ToolSchema, ...]
    system: str
    budget: Budget
    calibration: Calibration = field(default_factory=Calibration)
    settings: CompactionSettings = DEFAULT
    temperature: float | None = None
    summary_template: str | None = None
    approval: Approval = field(default_factory=Approval)


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
        task_id: str | None = None,
        model: str | None = None,
        repairs: Iterable[Repair] = (),
    ) -> None:
        """`generation` is the stored one, if any, and `last_usage` what its last step reported: the size of all up to
        and with the message of seq `reported_until`. `checkpoints` and `pruned` (call ids) are those in force now; the
        generation may be older than they are, and `shown_pruned` is what it clears, where that differs. `task_id` is
        the message that carries the session's task, and `model` the one that the `calibration` is of, if that is not
        the generation's. `repairs` were made before, in this generation or an earlier one."""
        self._record = Record(history, checkpoints)
        self._in_force = InForce(tuple(checkpoints), frozenset(pruned))
        self._shown_pruned = self._in_force.pruned if shown_pruned is None else frozenset(shown_pruned)
        self.plan = tuple(plan)
        self.task_id = task_id
        self._generation = generation
        self._per_message = PER_MESSAGE
        self._transcript = self._project(generation) if generation is not None else None
        self._measured: Generation | None = None
        self._wire_cache: dict[str, Any] = {}
        self._mended = {repair.key for repair in repairs}
        self._model = model or (generation.model if generation is not None else None)
        self._left: dict[str, Calibration] = {}
        later = sum(message.tokens for message in history if message.seq > reported_until)
        self._gauge = Gauge(calibration, last_usage, later)

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
        return self._record.messages

    @property
    def rows(self) -> Sequence[Message]:
        """The messages that a context can be made of while nothing in force is reverted, and all of the user's."""
        return self._record.rows

    def facts(self) -> Facts:
        """What is known for certain of the history."""
        return self._record.facts(self.plan, len(self._in_force.checkpoints), self.task_id)

    @property
    def in_force(self) -> InForce:
        """The rounds of compaction and the marks that shape the context."""
        return self._in_force

    @property
    def round(self) -> int:
        """The round in force that was made last, 0 without one."""
        return self._in_force.latest

    @property
    def last(self) -> Message | None:
        """The last message that the model would see."""
        messages = self._transcript.messages if self._transcript is not None else self._record.messages
        return messages[-1] if messages else None

    def append(self, message: Message) -> None:
        """Adds the history's next message."""
        self._record.append(message)
        if self._transcript is not None:
            if may_shrink(self._transcript.messages, message):
                self._gauge.forget_counts()
            before = self._transcript.tokens
            self._transcript.append(message)
            self._gauge.add(self._transcript.tokens - before)

    def refresh(self, config: AgentConfig) -> GenerationOpened | None:
        """Starts a generation if model, tools or system text have changed, or a round was reverted; None where nothing
        has. A plan that has changed is no reason: it stands in the results of `update_plan`, and in the system text
        from the next generation on."""
        self._count_messages_at(config.settings.per_message)
        reason = self._changed(config)
        if reason is None:
            return None
        if reason in ("created", "model", "revert"):
            self._wire_cache = {}
        self._take_model(config)
        return self._open(reason, config.model, with_plan(config.system, self.plan), config.tools)

    def _count_messages_at(self, tokens: int) -> None:
        """Counts a message besides its parts as its policy does."""
        self._per_message = tokens
        if self._transcript is not None:
            self._transcript.count_messages_at(tokens)

    def _take_model(self, config: AgentConfig) -> None:
        """From here on counts are those of this model; what was learnt of the one before is kept."""
        if self._model is not None and self._model != config.model:
            self._left[self._model] = self.calibration
            self._gauge.calibration = self._left.pop(config.model, config.calibration)
        self._model = config.model

    def revert(self, in_force: InForce) -> None:
        """Takes what is in force after a round was reverted; the next `refresh` starts a generation."""
        self._in_force = in_force
        self._record.rebase(in_force.checkpoints)

    def measure(self, in_force: InForce, summary: Message | None = None, *, config: AgentConfig | None = None) -> int:
        """Calibrated tokens that a request would have with other checkpoints and marks, a summary that is not in the
        history yet, and the system text of a generation drafted with this `config`."""
        generation = self.generation if config is None else self._with_system(config)
        rows = self.rows if summary is None else [*self.rows, summary]
        transcript = Transcript(generation, rows, in_force.checkpoints, in_force.pruned, per_message=self._per_message)
        transcript.settle()
        return self.calibration.apply(transcript.request_tokens)

    def fixed(self, config: AgentConfig) -> int:
        """Calibrated tokens of system text and tools in a generation drafted with this `config`."""
        return self.calibration.apply(self._with_system(config).fixed_tokens)

    def _with_system(self, config: AgentConfig) -> Generation:
        """The generation with the system text of now; one object for all candidates of a round, so that the text is
        counted once."""
        system = with_plan(config.system, self.plan)
        if self._measured is None or self._measured.id != self.generation.id or self._measured.system != system:
            self._measured = replace(self.generation, system=system)
        return self._measured

    @property
    def calibration(self) -> Calibration:
        """How far our counts are off for this model."""
        return self._gauge.calibration

    def take_calibrations(self) -> Mapping[str, Calibration]:
        """The same for each model that it was counted for since the last call."""
        left, self._left = self._left, {}
        return left if self._model is None else {**left, self._model: self.calibration}

    @property
    def size(self) -> int:
        """Calibrated tokens of the next request once it is fit to be sent, by our own count alone."""
        return self.measure(self._in_force)

    @property
    def estimate(self) -> int:
        """Calibrated tokens of the next request, by our own count alone."""
        return self.calibration.apply(self.transcript.request_tokens)

    def draft(self, config: AgentConfig, reason: GenerationReason, in_force: InForce) -> GenerationOpened:
        """The generation that other checkpoints or marks make; it begins when it is adopted. Model and tools stay, for
        which it was measured: only `refresh` changes them, before the next step."""
        old = self.generation
        return self._draft(reason, old.model, with_plan(config.system, self.plan), old.tools, in_force)

    def adopt(
        self,
        opened: GenerationOpened,
        in_force: InForce,
        summary: Message | None = None,
        *,
        shown: Transcript | None = None,
    ) -> None:
        """Begins a generation that was drafted, once it is stored; `summary` is the message of a new checkpoint, as the
        history has it, and `shown` what `shown_by` has given for it, where that was done before."""
        if summary is not None:
            self._record.append(summary)
            self._record.rebase(in_force.checkpoints)
        self._in_force = in_force
        self._wire_cache = {}
        self._begin(opened, shown)

    def settle(self) -> GenerationOpened | None:
        """Mends the conversation if it could not be sent; a generation then begins. What was mended before and is only
        shown anew, after a restart or in a new generation, is mended in the same way and begins none."""
        repairs = self.transcript.settle()
        if not repairs:
            return None
        self._wire_cache = {}
        first = tuple(repair for repair in repairs if repair.key not in self._mended)
        if not first:
            return None
        self._mended.update(repair.key for repair in first)
        mended, old = self.transcript, self.generation
        opened = self._open("repair", old.model, old.system, old.tools)
        self._transcript = mended
        mended.generation = self.generation
        return replace(opened, repairs=first)

    def _changed(self, config: AgentConfig) -> GenerationReason | None:
        old = self._generation
        if old is None:
            return "created"
        if old.model != config.model:
            return "model"
        if old.tools != config.tools:
            return "tools"
        if old.rounds != self._in_force.rounds:
            return "revert"
        return None if differs_by_plan_alone(old.system, config.system) else "system_prompt"

    def _open(
        self, reason: GenerationReason, model: str, system: str, tools: tuple[ToolSchema, ...]
    ) -> GenerationOpened:
        opened = self._draft(reason, model, system, tools, self._in_force)
        self._begin(opened)
        return opened

    def _draft(
        self, reason: GenerationReason, model: str, system: str, tools: tuple[ToolSchema, ...], in_force: InForce
    ) -> GenerationOpened:
        number = self._generation.number + 1 if self._generation is not None else 1
        first_seq = self.history[-1].seq + 1 if self.history else 1
        generation = Generation(new_id(), number, model, system, tools, first_seq, reason, in_force.rounds)
        pruned, shown = in_force.pruned, self._shown_pruned
        return GenerationOpened(generation, tuple(sorted(pruned - shown)), tuple(sorted(shown - pruned)))

    def _begin(self, opened: GenerationOpened, shown: Transcript | None = None) -> None:
        self._generation, self._shown_pruned = opened.generation, self._in_force.pruned
        self._transcript = shown or self._project(opened.generation)
        self._gauge.forget()

    def _project(self, generation: Generation) -> Transcript:
        return self.shown_by(generation, self._in_force)

    def shown_by(self, generation: Generation, in_force: InForce) -> Transcript:
        """What the model sees of the history in a generation, with these checkpoints and marks."""
        return Transcript(generation, self.rows, in_force.checkpoints, in_force.pruned, per_message=self._per_message)

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
        if self.transcript.is_sound():
            return replace(request, messages=list(request.messages))
        messages, repairs = repair(request.messages, model=request.model)
        return replace(request, messages=messages, wire_cache={} if repairs else request.wire_cache)

    def was_truncated(self, usage: Usage, *, known_window: bool = False) -> bool:
        """Whether a reported prompt is so small that the server must have dropped a part of it."""
        return self._gauge.was_truncated(usage, self._sent, self._least_since, known_window=known_window)

    @property
    def _sent(self) -> Sent:
        return Sent(self.transcript.request_tokens, len(self.transcript.messages))

    def _least_since(self, number: int) -> int:
        """The least tokens of the messages from a number on, of the whole request for 0."""
        messages = self.transcript.messages
        return least_added(messages[number:]) if number else least_tokens(self.generation, messages)

    def known_to_fit(self, usage: Usage) -> int:
        """Tokens of the window that are there for certain, when a part of the prompt was dropped."""
        return self._gauge.known_to_fit(usage)

    def observe(self, usage: Usage) -> None:
        """Takes what a step reported, before its answer is appended."""
        self._gauge.observe(usage, self._sent)

    def recounted(self, prompt_tokens: int) -> None:
        """Takes the provider's own count of the next request, made for its sake."""
        self._gauge.recounted(prompt_tokens)

    def answered(self) -> None:
        """The answer has been appended; its tokens are in the reported usage and must not count twice."""
        self._gauge.answered()

    def state(self, budget: Budget) -> ContextState:
        """The context's size: what was reported and what came after it, or the estimate of all."""
        return self._gauge.state(budget, self.transcript.request_tokens)
