"""A context generation: the part of a request that stays the same until the context is made anew."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from app.context.content import Reader
from app.context.tokens import estimate_text, estimate_tools
from app.llm.base import ToolSchema

GenerationReason = Literal[
    "created", "model", "tools", "system_prompt", "repair", "checkpoint", "prune", "revert", "reasoning"
]
"""What began a generation. A changed plan begins none: the system text holds the plan as it was at the beginning."""


@dataclass(frozen=True)
class Generation:
    """System text and tools of all requests since event `first_seq` of the session.

    Stored whole, so that any step's request can be built again byte for byte. Within one generation each request only
    adds to the one before, which keeps the provider's prompt cache warm. Usage reported under an older generation says
    nothing about the present context. `rounds` are the rounds of compaction in force.
    `echo_reasoning` has plain reasoning sent back to the model that wrote it, and `drop_block` asks a provider that
    verifies replayed thinking to drop what it cannot verify.
    """

    id: str
    number: int
    model: str
    system: str
    tools: tuple[ToolSchema, ...]
    first_seq: int
    reason: GenerationReason = "created"
    rounds: tuple[int, ...] = ()
    echo_reasoning: bool = False
    drop_block: bool = False

    @cached_property
    def reader(self) -> Reader:
        """Whom its requests are for. A generation begins where something before it has changed, so no thinking from
        before its beginning is sent."""
        return Reader(self.model, self.first_seq, self.echo_reasoning)

    @cached_property
    def system_tokens(self) -> int:
        """Estimated tokens of the system text."""
        return estimate_text(self.system)

    @cached_property
    def tools_tokens(self) -> int:
        """Estimated tokens of the tool schemas."""
        return estimate_tools(self.tools)

    @property
    def fixed_tokens(self) -> int:
        """What every request of this generation costs before its first message."""
        return self.system_tokens + self.tools_tokens
