"""A context generation: the part of a request that stays the same until the context is rebuilt."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from app.context.content import ReasoningRule
from app.context.tokens import estimate_text, estimate_tools
from app.llm.base import ToolSchema

GenerationReason = Literal[
    "created", "model", "tools", "system_prompt", "repair", "checkpoint", "prune", "revert", "reasoning"
]
"""What began a generation; `reasoning` means that the provider needs the reasoning in the history treated differently.
A changed plan begins none: the system text has the plan as of the generation's beginning."""


@dataclass(frozen=True)
class Generation:
    """System text and tools of all requests since event `first_seq` of the session.

    Stored in full, so that any step's request can be rebuilt byte for byte. Within one generation each request only
    appends to the one before, which keeps the provider's prompt cache warm. Usage reported under an older generation
    does not apply to the current context. `rounds` are the compaction rounds in force. Thinking blocks from before
    `first_seq` are not sent: what their provider verifies them against has changed since. `echo_reasoning` sends plain
    reasoning back to the model that wrote it, and `drop_block` asks a provider that verifies replayed thinking to drop
    what it cannot verify.
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
    def system_tokens(self) -> int:
        """Estimated tokens of the system text."""
        return estimate_text(self.system)

    @cached_property
    def tools_tokens(self) -> int:
        """Estimated tokens of the tool schemas."""
        return estimate_tools(self.tools)

    @property
    def reasoning(self) -> ReasoningRule:
        """Which reasoning of the history its requests contain."""
        return ReasoningRule(self.model, self.first_seq, self.echo_reasoning)

    @property
    def fixed_tokens(self) -> int:
        """Tokens of every request of this generation before its first message."""
        return self.system_tokens + self.tools_tokens
