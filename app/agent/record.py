"""A conversation's history in memory, and what is looked up in it again and again."""

from __future__ import annotations

from collections.abc import Sequence

from app.context.checkpoints import Checkpoint, reachable
from app.context.facts import Facts, Ledger
from app.events import PlanItem
from app.messages import Message


class Record:
    """All messages, with two shorter ways through them, so that no step and no round reads what it has no use for.

    `rows` are those that a context can be made of while the given checkpoints are in force: as many as the context has,
    and the user's messages and summaries of all time. The facts are kept up as the history grows.
    """

    def __init__(self, history: Sequence[Message], checkpoints: Sequence[Checkpoint]) -> None:
        self.messages = list(history)
        self.rows = reachable(self.messages, checkpoints)
        self._ledger = Ledger()

    def append(self, message: Message) -> None:
        """Adds the history's next message."""
        self.messages.append(message)
        self.rows.append(message)

    def rebase(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Takes other checkpoints as those in force."""
        self.rows = reachable(self.messages, checkpoints)

    def facts(self, plan: Sequence[PlanItem], rounds: int, task_id: str | None) -> Facts:
        """What is known for certain of the whole history; see `compute_facts`."""
        self._ledger.advance(self.messages)
        return self._ledger.facts(plan, rounds, task_id)
