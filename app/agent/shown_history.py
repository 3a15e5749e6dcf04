"""A session's history in memory, and what its model sees of it, generation by generation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

from app.agent.changes import GenerationOpened
from app.agent.config import AgentConfig
from app.agent.gauge import Gauge
from app.agent.generations import Generations
from app.agent.record import Outline, Past, Record
from app.context.checkpoints import Checkpoint, InForce
from app.context.generation import Generation, GenerationReason
from app.context.projection import Transcript
from app.context.prompts import with_plan
from app.context.tokens import PER_MESSAGE, Calibration
from app.context.validator import Repair
from app.errors import Reshape
from app.events import PlanItem
from app.llm.base import ToolSchema
from app.messages import Message, Usage


@dataclass(frozen=True, slots=True)
class Shown:
    """What a generation begins with: the rows that its context can be made of, and what its model sees of them."""

    rows: list[Message]
    transcript: Transcript


class ShownHistory:
    """Grows with the history without reading it again.

    The methods that do read all of it (`shown_by`, `mended`) change nothing visible, so they may run in a thread while
    the owner waits (see `updates`); their results are then taken over.
    """

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
        outline: Outline | None = None,
    ) -> None:
        """`generation` is the stored one, if any, and `last_usage` what its last step reported: the size of everything
        up to the message with seq `reported_until`, inclusive. `checkpoints` and `pruned` (call ids) are those in force
        now; the generation may be older, and `shown_pruned` is what it clears, if that differs. `task_id` is the
        message with the session's task, and `model` the model of `calibration`, if it is not the generation's.
        `repairs` were made before, in this generation or an earlier one. With an `outline`, `history` is only what a
        context can be made of now, plus the newest messages."""
        self._record = Record(history, checkpoints, outline)
        self._in_force = InForce(tuple(checkpoints), frozenset(pruned))
        self._generations = Generations(generation, self._in_force.pruned if shown_pruned is None else shown_pruned)
        self.plan = tuple(plan)
        self.task_id = task_id
        self._per_message = PER_MESSAGE
        self._transcript = None if generation is None else self.shown_by(generation, self._in_force).transcript
        self._wire_cache: dict[str, Any] = {}
        self._repaired = {repair.key for repair in repairs}
        later = sum(message.tokens for message in history if message.seq > reported_until)
        self._gauge = Gauge(model or (generation.model if generation else None), calibration, last_usage, later)

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

    def refresh(self, config: AgentConfig) -> GenerationOpened | None:
        """Starts a generation if model, tools or system text have changed or a round was reverted; else returns None. A
        changed plan is no reason: it is in the results of `update_plan`, and from the next generation on in the system
        text."""
        opened = self.due_generation(config)
        if opened is not None:
            self.begin(opened, self.shown_by(opened.generation, self._in_force), config)
        return opened

    def due_generation(self, config: AgentConfig) -> GenerationOpened | None:
        """The draft of the generation that must begin before the next step, or None. From here on messages are counted
        by the current policy."""
        self._per_message = config.settings.per_message
        if self._transcript is not None:
            self._transcript.count_messages_at(self._per_message)
        echo = config.echoes_reasoning
        reason = self._generations.change(config.model, config.tools, config.system, self._in_force, echo=echo)
        if reason is None:
            return None
        system = with_plan(config.system, self.plan)
        drop_block = config.binds_thinking and self._is_unproven(config.model)
        return self._draft(reason, config.model, config.tools, system, self._in_force, echo=echo, drop_block=drop_block)

    def _is_unproven(self, model: str) -> bool:
        """Whether the history has answers that `model` did not give in a request of this session: those of another
        model, and all that came with an import or a fork."""
        writers = self._record.writers
        return bool(writers) if self._generations.current is None else bool(writers - {model})

    def reshaped(self, config: AgentConfig, reshape: Reshape) -> GenerationOpened:
        """The draft of the generation that treats reasoning as its provider asks; it drops all earlier thinking."""
        old = self.generation
        system = with_plan(config.system, self.plan)
        echo, drop_block = reshape == "echo_reasoning", reshape == "drop_block"
        return self._draft("reasoning", old.model, old.tools, system, self._in_force, echo=echo, drop_block=drop_block)

    def begin(self, opened: GenerationOpened, shown: Shown, config: AgentConfig) -> None:
        """Begins the generation of `due_generation`, with the result of `shown_by` for it."""
        self._gauge.take_model(config.model, config.calibration)
        self._take(opened, shown)

    def revert(self, in_force: InForce, found: Sequence[Message] = ()) -> None:
        """Takes what is in force after a round was reverted; the next `refresh` starts a generation. `found` are the
        messages, as stored, that the context has then, if only a part of the history was read."""
        self._record.restore(found)
        self._in_force = in_force

    def draft(self, config: AgentConfig, reason: GenerationReason, in_force: InForce) -> GenerationOpened:
        """The generation for other checkpoints or marks; it begins when it is adopted. Model and tools stay those it
        was measured with: only `refresh` changes them, before the next step."""
        old = self.generation
        return self._draft(reason, old.model, old.tools, with_plan(config.system, self.plan), in_force)

    def _draft(
        self,
        reason: GenerationReason,
        model: str,
        tools: tuple[ToolSchema, ...],
        system: str,
        in_force: InForce,
        **reasoning: bool,
    ) -> GenerationOpened:
        return self._generations.draft(reason, model, tools, system, in_force, self._record.next_seq, **reasoning)

    def adopt(
        self,
        opened: GenerationOpened,
        in_force: InForce,
        summary: Message | None = None,
        *,
        shown: Shown | None = None,
    ) -> None:
        """Begins a drafted generation, once it is stored; `summary` is the message of a new checkpoint, as in the
        history, and `shown` the result of `shown_by`, if that was called before."""
        shown = shown or self.shown_by(opened.generation, in_force, summary)
        if summary is not None:
            self._record.append(summary)
        self._in_force = in_force
        self._take(opened, shown)

    def settle(self) -> GenerationOpened | None:
        """Repairs the conversation if it could not be sent; a generation then begins. Something repaired before and
        only shown again, after a restart or in a new generation, is repaired in the same way without beginning one."""
        return None if self.transcript.is_sound() else self.take_mended(*self.mended())

    def mended(self) -> tuple[Shown, GenerationOpened | None]:
        """What the model sees, repaired, and the generation that begins if anything is repaired for the first time."""
        repaired, repairs = self.transcript.mended()
        if all(repair.key in self._repaired for repair in repairs):
            return Shown(self._record.rows(self._in_force.checkpoints), repaired), None
        old = self.generation
        opened = self._draft("repair", old.model, old.tools, old.system, self._in_force)
        shown = self.shown_by(opened.generation, self._in_force)
        # Without the earlier thinking, other repairs may be necessary.
        made = {repair.key: repair for repair in [*repairs, *shown.transcript.settle()]}
        first = tuple(repair for key, repair in made.items() if key not in self._repaired)
        return shown, replace(opened, repairs=first)

    def take_mended(self, shown: Shown, opened: GenerationOpened | None) -> GenerationOpened | None:
        """Takes over the result of `mended`."""
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
