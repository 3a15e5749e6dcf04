"""A conversation's generation, why another one has to begin, and the drafts of those that may."""

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
    """Follows one conversation. `current` is the generation of its requests, None before its first step."""

    def __init__(self, current: Generation | None, cleared: AbstractSet[str]) -> None:
        """`cleared` are the calls whose outputs the current generation clears."""
        self.current = current
        self._cleared = frozenset(cleared)
        self._measured: Generation | None = None

    def change(
        self, model: str, tools: tuple[ToolSchema, ...], system: str, in_force: InForce, *, echoes: bool = False
    ) -> GenerationReason | None:
        """Why another generation has to begin for these, None where the current one does. `system` is without the
        plan. `echoes` says that the model wants its own reasoning back."""
        current = self.current
        if current is None:
            return "created"
        if current.model != model:
            return "model"
        if echoes and not current.echo_reasoning:
            return "reasoning"
        if current.tools != tools:
            return "tools"
        if current.rounds != in_force.rounds:
            return "revert"
        return None if differs_by_plan_alone(current.system, system) else "system_prompt"

    def draft(
        self,
        reason: GenerationReason,
        model: str,
        tools: tuple[ToolSchema, ...],
        system: str,
        in_force: InForce,
        first_seq: int,
        *,
        echoes: bool = False,
        unproved: bool = False,
    ) -> GenerationOpened:
        """The next generation, which begins when it is taken; its context is made by what is `in_force`. `unproved`
        says that nobody can tell whether the provider takes the history's thinking for its own; that holds for all
        later generations of a session too."""
        current = self.current
        generation = Generation(
            new_id(),
            current.number + 1 if current is not None else 1,
            model,
            system,
            tools,
            first_seq,
            reason,
            in_force.rounds,
            echo_reasoning=echoes or (current is not None and current.model == model and current.echo_reasoning),
            drop_block=unproved or reason == "model" or (current is not None and current.drop_block),
        )
        pruned, cleared = in_force.pruned, self._cleared
        return GenerationOpened(generation, tuple(sorted(pruned - cleared)), tuple(sorted(cleared - pruned)))

    def take(self, opened: GenerationOpened, in_force: InForce) -> None:
        """Begins a generation that was drafted."""
        self.current, self._cleared = opened.generation, in_force.pruned

    def with_system(self, current: Generation, system: str) -> Generation:
        """The current generation with another system text; one object as long as neither changes, so that the text is
        counted once for all candidates of a round."""
        if self._measured is None or self._measured.id != current.id or self._measured.system != system:
            self._measured = replace(current, system=system)
        return self._measured
