"""A conversation's history in memory, and what is looked up in it again and again."""

from __future__ import annotations

from collections.abc import Sequence

from app.context.checkpoints import Checkpoint, reachable
from app.context.facts import Facts, Ledger
from app.events import PlanItem
from app.messages import Message, ReasoningPart, Role


class Record:
    """All messages, with two shorter ways through them, so that no step and no round reads what it has no use for.

    The facts are kept up as the history grows, and so are the rows that a context can be made of.
    """

    def __init__(self, history: Sequence[Message], checkpoints: Sequence[Checkpoint]) -> None:
        self.messages = list(history)
        self.has_reasoning = any(map(_reasons, self.messages))
        """Whether a model has reasoned in any of the messages."""
        self.writers = {message.model for message in self.messages if message.role is Role.ASSISTANT}
        """The models of the answers, None for one that is not known."""
        self._checkpoints = tuple(checkpoints)
        self._rows = reachable(self.messages, self._checkpoints)
        self._ledger = Ledger()

    @property
    def next_seq(self) -> int:
        """A seq behind all that is there."""
        return self.messages[-1].seq + 1 if self.messages else 1

    def append(self, message: Message) -> None:
        """Adds the history's next message."""
        self.messages.append(message)
        self._rows.append(message)
        self.has_reasoning = self.has_reasoning or _reasons(message)
        if message.role is Role.ASSISTANT:
            self.writers.add(message.model)

    def rows(self, checkpoints: Sequence[Checkpoint], summary: Message | None = None) -> list[Message]:
        """The messages that a context can be made of while these checkpoints are in force: as many as the context has,
        and the user's messages and summaries of all time. `summary` is one that is not in the history yet. Only for
        other checkpoints than those of `rebase` is the history looked through."""
        if summary is None and tuple(checkpoints) == self._checkpoints:
            return self._rows
        return reachable(self.messages if summary is None else [*self.messages, summary], checkpoints)

    def rebase(self, checkpoints: Sequence[Checkpoint], rows: list[Message]) -> None:
        """Takes other checkpoints as those in force, and the rows that `rows` has given for them."""
        self._checkpoints, self._rows = tuple(checkpoints), rows

    def facts(self, plan: Sequence[PlanItem], rounds: int, task_id: str | None) -> Facts:
        """What is known for certain of the whole history; see `compute_facts`."""
        self._ledger.advance(self.messages)
        return self._ledger.facts(plan, rounds, task_id)


def _reasons(message: Message) -> bool:
    return any(isinstance(part, ReasoningPart) for part in message.parts)
