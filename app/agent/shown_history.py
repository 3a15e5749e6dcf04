"""A session's history in memory, and what its model sees of it: generation by generation, with what is in force."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

from app.agent.changes import GenerationOpened
from app.agent.config import AgentConfig
from app.agent.gauge import Gauge
from app.agent.generations import Generations
from app.agent.record import Record
from app.context.checkpoints import Checkpoint, InForce
from app.context.generation import Generation, GenerationReason
from app.context.projection import Transcript
from app.context.prompts import with_plan
from app.context.tokens import PER_MESSAGE, Calibration
from app.context.validator import Repair
from app.errors import Reshape
from app.events import PlanItem
from app.llm.base import ToolSchema
from app.messages import Message, Role, Usage


@dataclass(frozen=True, slots=True)
class Shown:
    """What a generation begins with: the rows that its context can be made of, and what its model sees of them."""

    rows: list[Message]
    transcript: Transcript


class ShownHistory:
    """Grows with the history without looking at what was there before.

    What does look at all of it (`shown_by`, `mended`) changes nothing that others see, so that it may be done in a
    thread while the owner waits; see `updates`. What it gives is then taken over.
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
    ) -> None:
        """`generation` is the stored one, if any, and `last_usage` what its last step reported: the size of all up to
        and with the message of seq `reported_until`. `checkpoints` and `pruned` (call ids) are those in force now; the
        generation may be older than they are, and `shown_pruned` is what it clears, where that differs. `task_id` is
        the message that carries the session's task, and `model` the one that the `calibration` is of, if that is not
        the generation's. `repairs` were made before, in this generation or an earlier one."""
        self._record = Record(history, checkpoints)
        self._in_force = InForce(tuple(checkpoints), frozenset(pruned))
        self._generations = Generations(generation, self._in_force.pruned if shown_pruned is None else shown_pruned)
        self.plan = tuple(plan)
        self.task_id = task_id
        self._per_message = PER_MESSAGE
        self._transcript = None if generation is None else self.shown_by(generation, self._in_force).transcript
        self._wire_cache: dict[str, Any] = {}
        self._mended = {repair.key for repair in repairs}
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
        """All messages, those that the model does not see included."""
        return self._record.messages

    @property
    def rows(self) -> Sequence[Message]:
        """The messages that a context can be made of while nothing in force is reverted, and all of the user's."""
        return self._record.rows(self._in_force.checkpoints)

    @property
    def has_reasoning(self) -> bool:
        """Whether a model has reasoned in this conversation."""
        return self._record.has_reasoning

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
            self._gauge.append(message, self._transcript)

    def refresh(self, config: AgentConfig) -> GenerationOpened | None:
        """Starts a generation if model, tools or system text have changed, or a round was reverted; None where nothing
        has. A plan that has changed is no reason: it stands in the results of `update_plan`, and in the system text
        from the next generation on."""
        opened = self.due_generation(config)
        if opened is not None:
            self.begin(opened, self.shown_by(opened.generation, self._in_force), config)
        return opened

    def due_generation(self, config: AgentConfig) -> GenerationOpened | None:
        """The draft of the generation that has to begin before the next step; None where none has to. From here on
        messages are counted as the policy does."""
        self._per_message = config.settings.per_message
        if self._transcript is not None:
            self._transcript.count_messages_at(self._per_message)
        reason = self._generations.change(
            config.model, config.tools, config.system, self._in_force, echoes=config.echo_reasoning
        )
        if reason is None:
            return None
        system = with_plan(config.system, self.plan)
        unproved = reason == "created" and any(message.role is Role.ASSISTANT for message in self.history)
        return self._draft(
            reason, config.model, config.tools, system, self._in_force, echoes=config.echo_reasoning, unproved=unproved
        )

    def reshaped(self, reshape: Reshape) -> GenerationOpened:
        """The draft of a generation whose reasoning is as its provider insists."""
        old = self.generation
        return self._draft(
            "reasoning",
            old.model,
            old.tools,
            old.system,
            self._in_force,
            echoes=reshape == "echo_reasoning",
            unproved=reshape == "drop_block",
        )

    def begin(self, opened: GenerationOpened, shown: Shown, config: AgentConfig) -> None:
        """Begins the generation of `due_generation`, with what `shown_by` has given for it."""
        self._wire_cache = {}
        self._gauge.take_model(config.model, config.calibration)
        self._take(opened, shown)

    def revert(self, in_force: InForce) -> None:
        """Takes what is in force after a round was reverted; the next `refresh` starts a generation."""
        self._in_force = in_force

    def draft(self, config: AgentConfig, reason: GenerationReason, in_force: InForce) -> GenerationOpened:
        """The generation that other checkpoints or marks make; it begins when it is adopted. Model and tools stay, for
        which it was measured: only `refresh` changes them, before the next step."""
        old = self.generation
        return self._draft(reason, old.model, old.tools, with_plan(config.system, self.plan), in_force)

    def _draft(
        self,
        reason: GenerationReason,
        model: str,
        tools: tuple[ToolSchema, ...],
        system: str,
        in_force: InForce,
        *,
        echoes: bool = False,
        unproved: bool = False,
    ) -> GenerationOpened:
        first_seq = self._record.next_seq
        return self._generations.draft(
            reason, model, tools, system, in_force, first_seq, echoes=echoes, unproved=unproved
        )

    def adopt(
        self,
        opened: GenerationOpened,
        in_force: InForce,
        summary: Message | None = None,
        *,
        shown: Shown | None = None,
    ) -> None:
        """Begins a generation that was drafted, once it is stored; `summary` is the message of a new checkpoint, as the
        history has it, and `shown` what `shown_by` has given for all this, where that was done before."""
        shown = shown or self.shown_by(opened.generation, in_force, summary)
        if summary is not None:
            self._record.append(summary)
        self._in_force = in_force
        self._wire_cache = {}
        self._take(opened, shown)

    def settle(self) -> GenerationOpened | None:
        """Repairs the conversation if it could not be sent; a generation then begins. What was repaired before and is
        only shown anew, after a restart or in a new generation, is repaired in the same way and begins none."""
        return None if self.transcript.is_sound() else self.take_repaired(*self.repaired())

    def repaired(self) -> tuple[Transcript, GenerationOpened | None]:
        """What the model sees, made fit to be sent, and the generation that begins with it if anything is repaired for
        the first time: such a generation shows no thinking from before its beginning."""
        transcript, repairs = self.transcript.mended()
        first = tuple(repair for repair in repairs if repair.key not in self._mended)
        if not first:
            return transcript, None
        old = self.generation
        opened = self._draft("repair", old.model, old.tools, old.system, self._in_force)
        transcript = self.shown_by(opened.generation, self._in_force).transcript
        transcript.settle()
        return transcript, replace(opened, repairs=first)

    def take_repaired(self, transcript: Transcript, opened: GenerationOpened | None) -> GenerationOpened | None:
        """Takes over what `repaired` has given; the generation that begins, if one does."""
        self._wire_cache = {}
        self._transcript = transcript
        if opened is not None:
            self._mended.update(repair.key for repair in opened.repairs)
            self._take(opened, Shown(self._record.rows(self._in_force.checkpoints), transcript))
        return opened

    def _take(self, opened: GenerationOpened, shown: Shown) -> None:
        self._generations.take(opened, self._in_force)
        self._record.rebase(self._in_force.checkpoints, shown.rows)
        self._transcript = shown.transcript
        self._gauge.forget()

    def shown_by(self, generation: Generation, in_force: InForce, summary: Message | None = None) -> Shown:
        """What the model sees of the history in a generation, with these checkpoints and marks and a summary that is
        not in the history yet."""
        rows = self._record.rows(in_force.checkpoints, summary)
        transcript = Transcript(generation, rows, in_force.checkpoints, in_force.pruned, per_message=self._per_message)
        # All that is there is checked here, so that each step checks only what is new.
        transcript.is_sound()
        return Shown(rows, transcript)
