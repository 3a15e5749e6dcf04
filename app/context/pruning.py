"""Which old tool outputs to clear: selected here, marked by the caller, shown as placeholders by the projection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from app.context.budget import Budget, prune_bounds, tail_bounds
from app.context.policies import CompactionSettings
from app.context.projection import placeholder_tokens
from app.context.tokens import estimate_part
from app.context.turns import after_last_summary, recent_start
from app.messages import Message, ToolResultPart, ToolStatus


@dataclass(frozen=True, slots=True)
class OldOutput:
    """The output of a call, and the tokens that clearing it frees after its placeholder is counted."""

    call_id: str
    tool: str
    tokens: int


@dataclass(frozen=True, slots=True)
class PruneBatch:
    """Outputs that are cleared together, newest first. `tokens_before` counts all tool outputs in the context."""

    outputs: tuple[OldOutput, ...]
    tokens_before: int

    @property
    def call_ids(self) -> tuple[str, ...]:
        return tuple(output.call_id for output in self.outputs)

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools, without duplicates."""
        return tuple(dict.fromkeys(output.tool for output in self.outputs))

    @property
    def tokens_saved(self) -> int:
        """Tokens that clearing them frees."""
        return sum(output.tokens for output in self.outputs)

    def beside(self, covered: Iterable[Message]) -> PruneBatch | None:
        """What is left to clear next to messages that a summary covers; None if nothing."""
        gone = {part.call_id for message in covered for part in message.tool_results}
        left = tuple(output for output in self.outputs if output.call_id not in gone)
        return PruneBatch(left, self.tokens_before) if left else None


def select_prunable(
    messages: Sequence[Message], settings: CompactionSettings, budget: Budget, pruned: AbstractSet[str]
) -> PruneBatch | None:
    """The old outputs of `messages`, a context as it is shown, that are worth clearing now; None if they are not.

    Walks back from the newest message to the last summary. The newest `min_turns_to_keep` turns are protected, or the
    protected tail if these turns are too large; before them, so are the newest `prune_protect` tokens of output.
    Results that did not complete, outputs of exempt tools and cleared ones neither count nor are cleared. `pruned` are
    the call ids that are cleared already. All or nothing: every clearing costs the prompt cache.
    """
    bounds = prune_bounds(budget, settings)
    beyond = _beyond(_clearable(messages, settings, budget, pruned), bounds.protect)
    old = (OldOutput(part.call_id, part.name, _saved(part)) for part in beyond)
    batch = PruneBatch(
        tuple(output for output in old if output.tokens > 0),
        tokens_before=sum(_tokens(part) for message in messages for part in message.tool_results),
    )
    return batch if batch.outputs and batch.tokens_saved >= bounds.minimum else None


def may_do(
    messages: Sequence[Message],
    settings: CompactionSettings,
    budget: Budget,
    pruned: AbstractSet[str],
    growth: int,
) -> bool:
    """Whether there may be outputs worth clearing once the context has grown by `growth` tokens: there are if all of
    these are outputs."""
    bounds = prune_bounds(budget, settings)
    protect, beyond = max(0, bounds.protect - growth), max(0, growth - bounds.protect)
    old = _beyond(_clearable(messages, settings, budget, pruned), protect)
    return beyond + sum(max(0, _saved(part)) for part in old) >= bounds.minimum


def _clearable(
    messages: Sequence[Message], settings: CompactionSettings, budget: Budget, pruned: AbstractSet[str]
) -> Iterator[ToolResultPart]:
    """Outputs between the last summary and the protected tail that may be cleared, newest first."""
    recent = messages[after_last_summary(messages) :]
    old = recent[: recent_start(recent, settings.min_turns_to_keep, tail_bounds(budget, settings))]
    for message in reversed(old):
        for part in reversed(message.tool_results):
            exempt = part.name in settings.prune_exempt_tools or part.call_id in pruned
            if part.status is ToolStatus.COMPLETED and not exempt:
                yield part


def _beyond(parts: Iterator[ToolResultPart], protect: int) -> Iterator[ToolResultPart]:
    """The parts from the one that exceeds `protect` tokens on; a result is never cleared in half."""
    total = 0
    for part in parts:
        total += _tokens(part)
        if total > protect:
            yield part


def _tokens(part: ToolResultPart) -> int:
    return part.tokens or estimate_part(part)


def _saved(part: ToolResultPart) -> int:
    return _tokens(part) - placeholder_tokens(part)
