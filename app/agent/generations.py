"""A conversation's generation, why a new one has to begin, and drafts of new ones."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from app.agent.changes import GenerationOpened
from app.context.checkpoints import InForce
from app.context.generation import Generation, GenerationReason
from app.context.prompts import differs_by_plan_alone
from app.llm.base import ToolSchema
from app.messages import new_id


class Generations:
    """Tracks one conversation. `current` is the generation of its requests, None before the first step."""

    def __init__(self, current: Generation | None, cleared: AbstractSet[str]) -> None:
        """`cleared` are the calls whose outputs the current generation clears."""
        self.current = current
        self._cleared = frozenset(cleared)
        self._measured: Generation | None = None

    def change(
        self, model: str, tools: tuple[ToolSchema, ...], system: str, in_force: InForce, *, echo: bool = False
    ) -> GenerationReason | None:
        """Why these need a new generation, None if the current one fits. `system` is without the plan; `echo` says that
        the model needs its own reasoning sent back."""
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
    ) -> GenerationOpened:
        """The next generation, which begins when it is taken; its context is made from what is `in_force`. How the
        model needs its reasoning (`echo`, `drop_block`) is kept until the model changes."""
        current = self.current
        number = current.number + 1 if current is not None else 1
        if current is not None and current.model == model:
            echo, drop_block = echo or current.echo_reasoning, drop_block or current.drop_block
        generation = Generation(
            new_id(), number, model, system, tools, first_seq, reason, in_force.rounds, echo, drop_block
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
