"""A conversation's history in memory, and values that are looked up in it repeatedly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.context.checkpoints import Checkpoint, reachable
from app.context.facts import Facts, Ledger
from app.events import PlanItem
from app.messages import Message, ReasoningPart, Role


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
        """The computed facts about the whole history; see `compute_facts`."""
        assert self._ledger is not None, "the past is known before a round"
        self._ledger.take(self.messages[self._counted :])
        self._counted = len(self.messages)
        return self._ledger.facts(plan, rounds, task_id)


def _reasons(message: Message) -> bool:
    return any(isinstance(part, ReasoningPart) for part in message.parts)
