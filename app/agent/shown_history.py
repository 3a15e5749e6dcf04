"""A session's history in memory, and what its model sees of it: generation by generation, with what is in force and how
large it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.agent.changes import GenerationOpened
from app.agent.protocols import AgentConfig
from app.agent.record import Generations, Past, Record, StoredConversation
from app.context.budget import Budget, context_state, context_tokens
from app.context.checkpoints import InForce
from app.context.projection import Transcript
from app.context.prompts import Generation, GenerationReason, with_plan
from app.context.tokens import PER_MESSAGE, Calibration
from app.context.truncation import LeastTokens, PromptCounts, Sent, may_shrink
from app.errors import Reshape
from app.llm.base import Remedy, ToolSchema
from app.messages import Message, Usage
from app.sessions import ContextState, PlanItem


@dataclass(frozen=True, slots=True)
class Shown:
    """What a generation begins with: the rows that its context can be made of, and what its model sees of them."""

    rows: list[Message]
    transcript: Transcript


class ShownHistory:
    """Grows with the history without reading it again.

    The methods that do read all of it (`shown_by`, `repaired`) change nothing visible, so they may run in a thread
    while the owner waits (see `run_off_loop`); their results are then taken over."""

    def __init__(
        self,
        stored: StoredConversation,
        plan: Sequence[PlanItem],
        calibration: Calibration,
        *,
        task_id: str | None = None,
        model: str | None = None,
    ) -> None:
        """`task_id` is the message with the session's task, and `model` the model of `calibration`, if it is not the
        generation's."""
        generation, checkpoints, shown = stored.generation, stored.checkpoints, stored.shown_pruned
        self._record = Record(stored.history, checkpoints, stored.outline)
        self._in_force = InForce(tuple(checkpoints), frozenset(stored.pruned))
        self._generations = Generations(generation, self._in_force.pruned if shown is None else shown)
        self.plan = tuple(plan)
        self.task_id = task_id
        self._per_message = PER_MESSAGE
        self._transcript = None if generation is None else self.shown_by(generation, self._in_force).transcript
        self._wire_cache: dict[str, Any] = {}
        self._repaired = {repair.key for repair in stored.repairs}
        later = sum(message.tokens for message in stored.history if message.seq > stored.reported_until)
        self._gauge = Gauge(model or (generation.model if generation else None), calibration, stored.last_usage, later)

    @property
    def has_generation(self) -> bool:
        """Whether a step was ever prepared."""
        return self._generations.current is not None

    @property
    def generation(self) -> Generation:
        assert self._generations.current is not None, "refresh comes before the first step"
        return self._generations.current

    @property
    def transcript(self) -> Transcript:
        assert self._transcript is not None, "refresh comes before the first step"
        return self._transcript

    @property
    def history(self) -> Sequence[Message]:
        """The messages read and all that came since, including those that the model does not see."""
        return self._record.messages

    @property
    def known(self) -> Sequence[Message]:
        """Like `history`, with the messages that a revert brought back."""
        return self._record.known

    @property
    def rows(self) -> Sequence[Message]:
        """The messages that a context can be made of while nothing in force is reverted, with the task and the user's
        latest message."""
        return self._record.rows(self._in_force.checkpoints)

    @property
    def has_reasoning(self) -> bool:
        """Whether a model has reasoned in this conversation."""
        return self._record.has_reasoning

    @property
    def lacks_past(self) -> bool:
        """Whether `know` must be called before the next compaction: only a part of the history was read."""
        return self._record.lacks_past

    @property
    def read_until(self) -> int:
        """Up to and including which seq `know` must supply the past."""
        return self._record.read_until

    def know(self, past: Past) -> None:
        """Takes what rounds need to know about the whole history, as of when a part of it was read."""
        self._record.know(past)

    @property
    def in_force(self) -> InForce:
        """The rounds of compaction and the marks that shape the context."""
        return self._in_force

    @property
    def round(self) -> int:
        """The latest round in force, 0 without one."""
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
            self._gauge.append(message, self._transcript)

    def due_generation(self, config: AgentConfig) -> GenerationOpened | None:
        """The draft of the generation that must begin before the next step, or None. From here on messages are counted
        by the current policy."""
        self._per_message = config.settings.per_message
        if self._transcript is not None:
            self._transcript.count_messages_at(self._per_message)
        echo = config.echoes_reasoning
        sees = config.sees_images
        reason = self._generations.change(
            config.model, config.tools, config.system, self._in_force, echo=echo, sees_images=sees
        )
        if reason is None:
            return None
        system = with_plan(config.system, self.plan)
        drop_block = config.binds_thinking and self._is_unproven(config.model)
        return self._draft(
            reason,
            config.model,
            config.tools,
            system,
            self._in_force,
            echo=echo,
            drop_block=drop_block,
            sees_images=sees,
        )

    def _is_unproven(self, model: str) -> bool:
        """Whether the history has answers that `model` did not give in a request of this session: those of another
        model, and all that came with an import or a fork."""
        writers = self._record.writers
        return bool(writers) if self._generations.current is None else bool(writers - {model})

    def reshaped(self, config: AgentConfig, reshape: Reshape) -> GenerationOpened:
        """The draft of the generation that treats reasoning or images as its provider asks; it drops all earlier
        thinking."""
        old = self.generation
        system = with_plan(config.system, self.plan)
        if reshape == "drop_images":
            return self._draft("images", old.model, old.tools, system, self._in_force, sees_images=False)
        echo, drop_block = reshape == "echo_reasoning", reshape == "drop_block"
        return self._draft("reasoning", old.model, old.tools, system, self._in_force, echo=echo, drop_block=drop_block)

    def remedied(self, config: AgentConfig, remedies: Sequence[Remedy]) -> GenerationOpened:
        """The draft of the generation that tries these remedies, and no others."""
        old = self.generation
        kinds = {remedy.kind for remedy in remedies}
        refused = {name for remedy in remedies if remedy.kind == "drop_tools" for name in remedy.names}
        return self._draft(
            "images" if kinds & {"drop_images", "clear_images"} else "tools" if refused else "reasoning",
            old.model,
            tuple(tool for tool in config.tools if tool.key not in refused),
            with_plan(config.system, self.plan),
            self._in_force,
            echo=(config.echoes_reasoning or "echo_reasoning" in kinds) and "drop_reasoning" not in kinds,
            drop_block=old.drop_block,
            sees_images=config.sees_images and not kinds & {"drop_images", "clear_images"},
            anew=True,
        )

    def begin(self, opened: GenerationOpened, shown: Shown, config: AgentConfig) -> None:
        """Begins the generation of `due_generation`, with the result of `shown_by` for it."""
        self._gauge.take_model(config.model, config.calibration)
        self._take(opened, shown)

    def revert(self, in_force: InForce, found: Sequence[Message] = ()) -> None:
        """Takes what is in force after a round was reverted; the next `refresh` starts a generation. `found` are the
        messages, as stored, that the context has then, if only a part of the history was read."""
        self._record.restore(found)
        self._in_force = in_force

    def draft(self, config: AgentConfig, reason: GenerationReason, in_force: InForce, **form: bool) -> GenerationOpened:
        """The generation for other checkpoints or marks; it begins when it is adopted. Model and tools stay those it
        was measured with: only `refresh` changes them, before the next step."""
        old = self.generation
        return self._draft(reason, old.model, old.tools, with_plan(config.system, self.plan), in_force, **form)

    def _draft(
        self,
        reason: GenerationReason,
        model: str,
        tools: tuple[ToolSchema, ...],
        system: str,
        in_force: InForce,
        **form: bool,
    ) -> GenerationOpened:
        return self._generations.draft(reason, model, tools, system, in_force, self._record.next_seq, **form)

    def adopt(self, opened: GenerationOpened, shown: Shown, in_force: InForce, summary: Message | None = None) -> None:
        """Begins a drafted generation, once it is stored; `shown` is the result of `shown_by` for it, and `summary` the
        message of a new checkpoint, as in the history."""
        if summary is not None:
            self._record.append(summary)
        self._in_force = in_force
        self._take(opened, shown)

    def repaired(self) -> tuple[Shown, GenerationOpened | None]:
        """What the model sees, repaired, and the generation that begins if anything is repaired for the first time."""
        repaired, repairs = self.transcript.repaired()
        if all(repair.key in self._repaired for repair in repairs):
            return Shown(self._record.rows(self._in_force.checkpoints), repaired), None
        old = self.generation
        opened = self._draft("repair", old.model, old.tools, old.system, self._in_force)
        shown = self.shown_by(opened.generation, self._in_force)
        # Without the earlier thinking, other repairs may be necessary.
        made = {repair.key: repair for repair in [*repairs, *shown.transcript.settle()]}
        first = tuple(repair for key, repair in made.items() if key not in self._repaired)
        return shown, replace(opened, repairs=first)

    def take_repaired(self, shown: Shown, opened: GenerationOpened | None) -> GenerationOpened | None:
        """Takes over the result of `repaired`."""
        if opened is None:
            self._wire_cache = {}
            self._transcript = shown.transcript
            return None
        self._repaired.update(repair.key for repair in opened.repairs)
        self._take(opened, shown)
        return opened

    def _take(self, opened: GenerationOpened, shown: Shown) -> None:
        self._wire_cache = {}
        self._generations.take(opened, self._in_force)
        self._record.rebase(self._in_force.checkpoints, shown.rows)
        self._transcript = shown.transcript
        self._gauge.forget()

    def shown_by(self, generation: Generation, in_force: InForce, summary: Message | None = None) -> Shown:
        """What the model sees of the history in a generation, with these checkpoints and marks and a summary that is
        not in the history yet."""
        rows = self._record.rows(in_force.checkpoints, summary)
        transcript = Transcript(generation, rows, in_force.checkpoints, in_force.pruned, per_message=self._per_message)
        # Everything so far is checked here, so that each step checks only what is new.
        transcript.is_sound()
        return Shown(rows, transcript)


class Gauge:
    """Tracks one conversation; the transcript passed to each method makes its next request. `calibration` corrects raw
    estimates for its model."""

    def __init__(self, model: str | None, calibration: Calibration, reported: Usage | None, later_tokens: int) -> None:
        """`calibration` belongs to `model`. `reported` is what the provider reported for the last step, and
        `later_tokens` the estimate of what came after it."""
        self.calibration = calibration
        self._model = model
        self._left: dict[str, Calibration] = {}
        self._reported = reported
        self._later_tokens = later_tokens
        self._counts = PromptCounts()
        self._observed = False
        self._least: LeastTokens | None = None
        self._least_of: Transcript | None = None

    def take_model(self, model: str, calibration: Calibration) -> None:
        """Switches to this model's counts. What was learned about the previous model is kept; if this one was used
        before, its learned calibration is used instead of `calibration`."""
        if self._model is not None and self._model != model:
            self._left[self._model] = self.calibration
            self.calibration = self._left.pop(model, calibration)
        self._model = model

    def recalibrate(self, known: Callable[[str], Calibration]) -> None:
        """Takes what is known about its model by now."""
        if self._model is not None:
            self.calibration = known(self._model)

    def take_calibrations(self) -> Mapping[str, Calibration]:
        """The calibrations of all models counted since the last call."""
        left, self._left = self._left, {}
        return left if self._model is None else {**left, self._model: self.calibration}

    def forget(self) -> None:
        """The context was rebuilt: earlier reports do not apply to it."""
        self._reported = None
        self._counts = PromptCounts()

    def append(self, message: Message, transcript: Transcript) -> None:
        """Adds the history's next message to the transcript."""
        if may_shrink(transcript.messages, message):
            # The next request may count fewer tokens than the last one.
            self._counts = PromptCounts()
        before = transcript.tokens
        transcript.append(message)
        self._later_tokens += transcript.tokens - before

    def was_truncated(self, usage: Usage, transcript: Transcript, *, known_window: bool) -> bool:
        """Whether a reported prompt is so small that the server must have dropped part of it; see `PromptCounts`."""

        def least_since(number: int) -> int:
            if self._least is None or self._least_of is not transcript:
                self._least, self._least_of = LeastTokens(transcript.generation), transcript
            return self._least.since(number, transcript.messages)

        return self._counts.show_cut(usage, _sent(transcript), least_since, known_window=known_window)

    def known_to_fit(self, usage: Usage) -> int:
        """Tokens of the window that are certain to exist after part of the prompt was dropped."""
        return self._counts.known_to_fit(usage)

    def observe(self, usage: Usage, transcript: Transcript) -> None:
        """Record what a step reported, before its answer is added. A prompt of 0 tokens was not counted (some servers
        fill in a 0); the earlier report stays valid then."""
        if not usage.prompt_tokens:
            return
        sent = _sent(transcript)
        self.calibration = self.calibration.observe(sent.estimated, usage.prompt_tokens)
        self._counts = self._counts.with_report(usage, sent)
        self._reported, self._later_tokens = usage, 0
        self._observed = True

    def recounted(self, prompt_tokens: int) -> None:
        """Record the provider's own count of the next request; 0 means that it has none."""
        if not prompt_tokens:
            return
        self._reported, self._later_tokens = Usage(input_tokens=prompt_tokens), 0

    def answered(self) -> None:
        """The answer was added; its tokens are part of the reported usage and must not count twice."""
        if self._observed:
            self._later_tokens = 0
        self._observed = False

    def state(self, budget: Budget, transcript: Transcript) -> ContextState:
        """The context's size: the reported usage plus what came after it, or an estimate of everything."""
        if self._reported is not None:
            later = self.calibration.apply(self._later_tokens)
            return context_state(budget, context_tokens(self._reported, later), reported=True)
        return context_state(budget, self.calibration.apply(transcript.request_tokens), reported=False)


def _sent(transcript: Transcript) -> Sent:
    return Sent(transcript.request_tokens, len(transcript.messages))
