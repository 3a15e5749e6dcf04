"""A conversation's history in memory, the lookups in it, and its generation: why another has to begin, and the drafts
of those that may."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from app.agent.changes import GenerationOpened
from app.context.checkpoints import Checkpoint, InForce, reachable
from app.context.facts import Facts, Ledger
from app.context.prompts import Generation, GenerationReason, differs_by_plan_alone
from app.context.validator import Repair
from app.llm.base import ToolSchema
from app.messages import Message, ReasoningPart, Role, Usage, new_id
from app.sessions import PlanItem


@dataclass(frozen=True, slots=True)
class Outline:
    """What is known about a history that is only partly read: the id of its first message, and the models of all its
    answers, None for an unknown one."""

    first_id: str | None
    writers: frozenset[str | None]


class Past:
    """What only compaction needs to know about a history: taken in from the beginning, in batches of any size."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.has_reasoning = False

    def take(self, messages: Sequence[Message]) -> None:
        """Takes in the history's next messages."""
        self.ledger.take(messages)
        self.has_reasoning = self.has_reasoning or any(map(_reasons, messages))


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A conversation as it is stored; with an `outline`, `history` has only the messages of its context, that is what a
    context can be made of now, plus the newest messages. `generation` is the newest one, if any. `last_usage` is the
    size of the context after the last step of this generation, if its provider reported it; it covers the history up to
    and including the seq `reported_until`. `checkpoints` and `pruned` (call ids) are those in force, `shown_pruned` the
    outputs cleared in the generation, if they differ, and `first_queued` is the first message posted, which is the task
    of a session created with one. `repairs` were made in its requests. `unused` is the size of the context in tokens
    when the last background summary was discarded, 0 if none was."""

    history: Sequence[Message]
    generation: Generation | None = None
    last_usage: Usage | None = None
    reported_until: int = 0
    checkpoints: Sequence[Checkpoint] = ()
    pruned: AbstractSet[str] = frozenset()
    shown_pruned: AbstractSet[str] | None = None
    first_queued: str | None = None
    repairs: Sequence[Repair] = ()
    unused: int = 0
    outline: Outline | None = None


class Record:
    """The messages read, plus all that came since, with two shorter views, so that no step and no round reads more than
    it needs.

    The facts are updated as the history grows, and so are the rows that a context can be made of. If only a part of the
    history was read, there are no facts until `know` supplies those of the rest.
    """

    def __init__(
        self, history: Sequence[Message], checkpoints: Sequence[Checkpoint], outline: Outline | None = None
    ) -> None:
        """`history` is complete, unless there is an `outline`."""
        self.messages = list(history)
        self.has_reasoning = any(map(_reasons, self.messages))
        """Whether a model has reasoned in any of the messages."""
        self.writers = {message.model for message in self.messages if message.role is Role.ASSISTANT}
        """The models of the answers, None for an unknown one."""
        self._first_id = outline.first_id if outline is not None else None
        self._checkpoints = tuple(checkpoints)
        self._rows = reachable(self.messages, self._checkpoints)
        self._restored: Sequence[Message] | None = None
        self._ledger = Ledger() if outline is None else None
        self._counted = 0
        if outline is not None:
            self.writers |= outline.writers
            self._counted = len(self.messages)

    @property
    def first_id(self) -> str | None:
        """The id of the history's first message."""
        return self._first_id or (self.messages[0].id if self.messages else None)

    @property
    def known(self) -> Sequence[Message]:
        """All messages in memory, including those of `restore`; may contain duplicates."""
        return [*self._restored, *self.messages] if self._restored else self.messages

    @property
    def next_seq(self) -> int:
        """A seq behind all messages."""
        return self.messages[-1].seq + 1 if self.messages else 1

    @property
    def lacks_past(self) -> bool:
        """Whether `know` must be called before the next round."""
        return self._ledger is None

    @property
    def read_until(self) -> int:
        """Seq of the newest message that was read at first, valid until `know` is called."""
        return self.messages[self._counted - 1].seq if self._counted else 0

    def know(self, past: Past) -> None:
        """Takes what is known about all messages up to the end of those read at first."""
        self._ledger = past.ledger
        self.has_reasoning = self.has_reasoning or past.has_reasoning

    def append(self, message: Message) -> None:
        """Adds the history's next message."""
        self.messages.append(message)
        self._rows.append(message)
        self.has_reasoning = self.has_reasoning or _reasons(message)
        if message.role is Role.ASSISTANT:
            self.writers.add(message.model)

    def rows(self, checkpoints: Sequence[Checkpoint], summary: Message | None = None) -> list[Message]:
        """The messages that a context can be made of while these checkpoints are in force: those in the context, and
        the user's messages and summaries that were read. `summary` is one that is not in the history yet. `checkpoints`
        are those of `rebase` and maybe later ones; only after `restore` may they be fewer."""
        if self._restored is None and summary is None and tuple(checkpoints) == self._checkpoints:
            return self._rows
        rows = self._rows if self._restored is None else self._merged(self._restored)
        return reachable(rows if summary is None else [*rows, summary], checkpoints)

    def rebase(self, checkpoints: Sequence[Checkpoint], rows: list[Message]) -> None:
        """Takes other checkpoints as those in force, with the rows that `rows` returned for them."""
        self._checkpoints, self._rows, self._restored = tuple(checkpoints), rows, None

    def restore(self, found: Sequence[Message]) -> None:
        """Prepares for fewer checkpoints than those in force. `found` are the messages, as stored, that the context has
        then, if only a part of the history was read."""
        self._restored = found

    def _merged(self, found: Sequence[Message]) -> list[Message]:
        known = {message.id: message for message in (*found, *self.messages)}
        return sorted(known.values(), key=lambda message: message.seq)

    def facts(self, plan: Sequence[PlanItem], rounds: int, task_id: str | None) -> Facts:
        """The computed facts about the whole history; see `Ledger`."""
        assert self._ledger is not None, "the past is known before a round"
        self._ledger.take(self.messages[self._counted :])
        self._counted = len(self.messages)
        return self._ledger.facts(plan, rounds, task_id)


def _reasons(message: Message) -> bool:
    return any(isinstance(part, ReasoningPart) for part in message.parts)


class Generations:
    """Tracks one conversation. `current` is the generation of its requests, None before the first step."""

    def __init__(self, current: Generation | None, cleared: AbstractSet[str]) -> None:
        """`cleared` are the calls whose outputs the current generation clears."""
        self.current = current
        self._cleared = frozenset(cleared)
        self._measured: Generation | None = None

    def change(
        self,
        model: str,
        tools: tuple[ToolSchema, ...],
        system: str,
        in_force: InForce,
        *,
        echo: bool = False,
        sees_images: bool = True,
    ) -> GenerationReason | None:
        """Why these need a new generation, None if the current one fits. `system` is without the plan; `echo` says that
        the model needs its own reasoning sent back, `sees_images` that it may have images."""
        current = self.current
        if current is None:
            return "created"
        if current.model != model:
            return "model"
        if current.tools != tools:
            return "tools"
        if current.rounds != in_force.rounds:
            return "revert"
        if not differs_by_plan_alone(current.system, system):
            return "system_prompt"
        if current.sees_images and not sees_images:
            return "images"
        return "reasoning" if echo and not current.echo_reasoning else None

    def draft(
        self,
        reason: GenerationReason,
        model: str,
        tools: tuple[ToolSchema, ...],
        system: str,
        in_force: InForce,
        first_seq: int,
        *,
        echo: bool = False,
        drop_block: bool = False,
        sees_images: bool = True,
        anew: bool = False,
    ) -> GenerationOpened:
        """The next generation, which begins when it is taken; its context is made from what is `in_force`. How the
        model needs its reasoning (`echo`, `drop_block`), and that it sees no images, is kept until the model changes,
        unless they are set `anew`.
        """
        current = self.current
        number = current.number + 1 if current is not None else 1
        if current is not None and current.model == model and not anew:
            echo, drop_block = echo or current.echo_reasoning, drop_block or current.drop_block
            sees_images = sees_images and current.sees_images
        generation = Generation(
            new_id(), number, model, system, tools, first_seq, reason, in_force.rounds, echo, drop_block, sees_images
        )
        pruned, cleared = in_force.pruned, self._cleared
        return GenerationOpened(generation, tuple(sorted(pruned - cleared)), tuple(sorted(cleared - pruned)))

    def take(self, opened: GenerationOpened, in_force: InForce) -> None:
        """Begins a drafted generation."""
        self.current, self._cleared = opened.generation, in_force.pruned

    def following(self, current: Generation, system: str, first_seq: int) -> Generation:
        """What the generation after the current one would be with this system text; the same object until one of these
        changes, so that the text is counted once for all candidates of a round."""
        measured = self._measured
        if measured is None or (measured.id, measured.system, measured.first_seq) != (current.id, system, first_seq):
            measured = self._measured = replace(current, system=system, first_seq=first_seq)
        return measured
