"""How the agent calls models: by name, with bounded retries and every token billed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from app.llm.base import Provider
from app.messages import Usage


class Windows(Protocol):
    """Learns the windows of models from answers and refusals."""

    def accepted(self, model: str, prompt_tokens: int) -> None:
        """A prompt of this size was answered."""
        ...

    async def cut(self, model: str, answered: int, estimate: int) -> None:
        """A request of about `estimate` tokens was silently truncated; `answered` tokens are known to fit."""
        ...

    async def refused(self, model: str, named: int | None, estimate: int) -> None:
        """A request of about `estimate` tokens did not fit; `named` is the window that the provider named, if any."""
        ...


@dataclass(frozen=True, slots=True)
class ModelCalls:
    """How models are called: `resolve` gives a model's provider and its name there, `cost_usd` prices a usage."""

    resolve: Callable[[str], tuple[Provider, str]]
    cost_usd: Callable[[str, Usage], float | None]
    max_attempts: int
    rng: random.Random = field(default_factory=random.Random)
    windows: Windows | None = None

    def bill(
        self, model: str, reported: Usage | None, prompt_tokens: int, written_tokens: int, *, finished: bool
    ) -> Usage | None:
        """A call's usage with its price; None for a call that produced nothing. If the provider reported no usage
        although the model wrote something, estimates are used: uncounted tokens would escape every limit."""
        usage = reported
        if usage is None and (written_tokens or finished):
            usage = Usage(input_tokens=prompt_tokens, output_tokens=written_tokens, cost_usd=None)
        if usage is not None and usage.cost_usd is None:
            usage = usage.model_copy(update={"cost_usd": self.cost_usd(model, usage)})
        return usage
