"""The conversation of a running session as its model sees it: its requests and their size."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from app.agent.config import AgentConfig
from app.agent.shown_history import ShownHistory
from app.context.budget import Budget
from app.context.checkpoints import InForce
from app.context.facts import Facts
from app.context.generation import Generation
from app.context.projection import Transcript
from app.context.prompts import with_plan
from app.context.tokens import Calibration
from app.context.turns import is_request
from app.context.validator import repair
from app.llm.base import ModelRequest
from app.messages import Message, Usage
from app.sessions import ContextState

__all__ = ["AgentConfig", "Conversation"]


class Conversation(ShownHistory):
    """Builds each step's request incrementally, and knows its size."""

    def facts(self) -> Facts:
        """The computed facts about the history."""
        return self._record.facts(self.plan, len(self._in_force.checkpoints), self.task_id)

    def spilled(self) -> list[Message]:
        """The user's messages that the context, or the last line of a summary, may show with only head and tail."""
        clipped = {part_id for checkpoint in self.in_force.checkpoints for part_id, _ in checkpoint.clips}
        if not clipped:
            return []
        return [m for m in self.rows if is_request(m) and not clipped.isdisjoint(part.id for part in m.parts)]

    def measure(self, in_force: InForce, summary: Message | None = None, *, config: AgentConfig | None = None) -> int:
        """Calibrated tokens that a request would have with other checkpoints and marks, a `summary` that is not in the
        history yet, and the system text of a generation drafted with this `config`. Whatever differs from the current
        generation begins another one, measured without the thinking that it drops."""
        generation = self.generation
        if config is not None or in_force != self._in_force:
            generation = self._following(generation.system if config is None else with_plan(config.system, self.plan))
        rows = self.rows if summary is None else [*self.rows, summary]
        transcript = Transcript(generation, rows, in_force.checkpoints, in_force.pruned, per_message=self._per_message)
        transcript.settle()
        return self.calibration.apply(transcript.request_tokens)

    def fixed(self, config: AgentConfig) -> int:
        """Calibrated tokens of system text and tools in a generation drafted with this `config`."""
        return self.calibration.apply(self._following(with_plan(config.system, self.plan)).fixed_tokens)

    def _following(self, system: str) -> Generation:
        return self._generations.following(self.generation, system, self._record.next_seq)

    @property
    def calibration(self) -> Calibration:
        """The correction factor between raw token estimates and this model's counts."""
        return self._gauge.calibration

    def take_calibrations(self) -> Mapping[str, Calibration]:
        """The calibrations of all models counted since the last call."""
        return self._gauge.take_calibrations()

    @property
    def size(self) -> int:
        """Calibrated tokens of the next request once it is repaired, by Palimpsest's own estimate."""
        return self.measure(self._in_force)

    @property
    def estimate(self) -> int:
        """Calibrated tokens of the next request, by Palimpsest's own estimate."""
        return self.calibration.apply(self.transcript.request_tokens)

    def request(self, config: AgentConfig) -> ModelRequest:
        """The request of the next step; `messages` is one list for the whole generation."""
        return ModelRequest(
            model=self.generation.model,
            system=self.generation.system,
            messages=self.transcript.messages,
            tools=self.generation.tools,
            max_output_tokens=config.budget.output_reserve,
            temperature=config.temperature,
            reasoning_effort=config.reasoning_effort,
            drop_block=self.generation.drop_block,
            cache_key=self._cache_key(),
            wire_cache=self._wire_cache,
        )

    def drafted_request(
        self, config: AgentConfig, generation: Generation, in_force: InForce, summary: Message
    ) -> ModelRequest:
        """The next request in a drafted generation, with a summary that is not in the history yet."""
        transcript = self.shown_by(generation, in_force, summary).transcript
        messages, _ = repair(transcript.messages, generation.reasoning)
        request = replace(self.request(config), model=generation.model, system=generation.system)
        return replace(
            request, tools=generation.tools, messages=messages, drop_block=generation.drop_block, wire_cache={}
        )

    def _cache_key(self) -> str | None:
        """One key for the session's whole life, since new generations mostly begin with the same instructions and
        tools. Hashed, so that internal ids do not leave the server."""
        first_id = self._record.first_id
        return hashlib.sha256(first_id.encode()).hexdigest()[:32] if first_id else None

    def sound_request(self, config: AgentConfig) -> ModelRequest:
        """Like `request`, but valid to send at any time, and with a message list that later steps do not change."""
        request = self.request(config)
        if self.transcript.is_sound():
            return replace(request, messages=list(request.messages))
        messages, repairs = repair(request.messages, self.generation.reasoning)
        return replace(request, messages=messages, wire_cache={} if repairs else request.wire_cache)

    def was_truncated(self, usage: Usage, *, known_window: bool = False) -> bool:
        """Whether a reported prompt is so small that the server must have dropped part of it."""
        return self._gauge.was_truncated(usage, self.transcript, known_window=known_window)

    def known_to_fit(self, usage: Usage) -> int:
        """Tokens of the window that are certain to exist after part of the prompt was dropped."""
        return self._gauge.known_to_fit(usage)

    def observe(self, usage: Usage) -> None:
        """Record what a step reported, before its answer is appended."""
        self._gauge.observe(usage, self.transcript)

    def recounted(self, prompt_tokens: int) -> None:
        """Record the provider's own count of the next request."""
        self._gauge.recounted(prompt_tokens)

    def answered(self) -> None:
        """The answer was appended; its tokens are part of the reported usage and must not count twice."""
        self._gauge.answered()

    def state(self, budget: Budget) -> ContextState:
        """The context's size: the reported usage plus what came after it, or an estimate of everything."""
        return self._gauge.state(budget, self.transcript)
