"""Which old tool outputs are cleared: chosen here, marked by the caller, shown as placeholders by the projection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from app.context.budget import Budget, prune_bounds, tail_bounds
from app.context.policies import CompactionSettings
from app.context.projection import placeholder
from app.context.tokens import estimate_part
from app.context.turns import after_last_summary, recent_start
from app.messages import Message, ToolResultPart, ToolStatus


@dataclass(frozen=True, slots=True)
class PruneBatch:
    """Outputs that are cleared together, newest first. `tokens_before` are those of all tool outputs in the context,
    `tokens_saved` what clearing frees once the placeholders are paid for; `tools` are the names, each once."""

    call_ids: tuple[str, ...]
    tokens_before: int
    tokens_saved: int
    tools: tuple[str, ...]


def select_prunable(
    messages: Sequence[Message], settings: CompactionSettings, budget: Budget, pruned: AbstractSet[str]
) -> PruneBatch | None:
    """The old outputs of `messages`, a context as it is shown, worth clearing now; None where they are not.

    Walks back from the newest message to the last summary. The newest `min_turns_to_keep` turns are left alone, or the
    protected tail where these turns alone are too large; behind them the newest `prune_protect` tokens of output are.
    Errors and what else did not complete, outputs of exempt tools and cleared ones neither count nor are cleared.
    `pruned` are the call ids that are cleared already. All or nothing: every clearing costs the prompt cache.
    """
    bounds = prune_bounds(budget, settings)
    found = [
        part for part in _beyond(_clearable(messages, settings, budget, pruned), bounds.protect) if _saved(part) > 0
    ]
    saved = sum(map(_saved, found))
    if not found or saved < bounds.minimum:
        return None
    return PruneBatch(
        call_ids=tuple(part.call_id for part in found),
        tokens_before=sum(_tokens(part) for message in messages for part in message.tool_results),
        tokens_saved=saved,
        tools=tuple(dict.fromkeys(part.name for part in found)),
    )


def _clearable(
    messages: Sequence[Message], settings: CompactionSettings, budget: Budget, pruned: AbstractSet[str]
) -> Iterator[ToolResultPart]:
    """Outputs between the last summary and the protected tail that may be cleared at all, newest first."""
    recent = messages[after_last_summary(messages) :]
    old = recent[: recent_start(recent, settings.min_turns_to_keep, tail_bounds(budget, settings))]
    for message in reversed(old):
        for part in reversed(message.tool_results):
            exempt = part.name in settings.prune_exempt_tools or part.call_id in pruned
            if part.status is ToolStatus.COMPLETED and not exempt:
                yield part


def _beyond(parts: Iterator[ToolResultPart], protect: int) -> Iterator[ToolResultPart]:
    """The parts from the one on with which `protect` tokens are exceeded; a result is never cleared in half."""
    total = 0
    for part in parts:
        total += _tokens(part)
        if total > protect:
            yield part


def _tokens(part: ToolResultPart) -> int:
    return part.tokens or estimate_part(part)


def _saved(part: ToolResultPart) -> int:
    return _tokens(part) - estimate_part(placeholder(part))
