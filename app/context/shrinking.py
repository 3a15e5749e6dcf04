"""Ways to make a context smaller without a summary: old tool outputs are cleared, then a tail is clipped and shortened;
and what remains too large by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import NamedTuple

from app.context.budget import Budget, prune_bounds, tail_bounds
from app.context.clipping import clip_message, part_length
from app.context.policies import CompactionSettings
from app.context.projection import placeholder_tokens
from app.context.prompts import Generation
from app.context.selection import (
    Selection,
    after_last_summary,
    carried,
    cuts,
    first_unseen,
    is_request,
    kept_ids,
    recent_start,
    task_of,
)
from app.context.tokens import counted_tokens, estimate_part
from app.messages import Message, ToolResultPart, ToolStatus

CLIP_STEPS = (8_000, 2_000, 500)
"""Characters to which the tail's largest parts are cut, tried in turn: from a long file down to little more than a note
that something was there."""
SPILL_STEPS = (32_000, 16_000, 8_000, 4_000, 2_000, 1_000, 500)
"""Characters to which each request that always stays is cut, tried in turn, if these do not fit."""
MOST_DROPS = 24
"""Maximum lengths of the tail that are tried after clipping; each is projected and measured in full."""


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

    def without(self, covered: Iterable[Message]) -> PruneBatch | None:
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


class FixedPart(NamedTuple):
    """A part of a request that cannot be made smaller, as named in an error, and its estimated tokens."""

    name: str
    tokens: int


def shrunk(selection: Selection) -> Iterator[Selection]:
    """Ever smaller versions of a selection, at most 27; the caller measures each and takes the first that fits.

    First the largest parts of the tail are clipped, ever shorter, then whole steps are dropped from its front: up to 24
    one by one, larger numbers in steps that get smaller towards the end. The last version has no tail: only the task,
    the latest request and requests that the model has not seen yet stay, as the selection shows them; see `spilled`.
    """
    smaller = selection
    for limit in CLIP_STEPS:
        clips = _clips(selection, limit)
        if clips != smaller.clips:
            smaller = replace(selection, clips=clips)
            yield smaller
    places = cuts(selection.tail)[1:]
    for remaining in _lengths(len(places)):
        yield _shortened(smaller, places[-1 - remaining])


def spilled(selection: Selection) -> Iterator[Selection]:
    """Versions of a selection that show ever less of the requests that always stay, head and tail of each; at most 7.

    For a context that these requests alone make too large: shorter ones stay verbatim longer.
    """
    smaller = selection
    for limit in SPILL_STEPS:
        clips = _with_clips(smaller, smaller.requests, limit)
        if clips != smaller.clips:
            smaller = replace(smaller, clips=clips)
            yield smaller


def largest_fixed(
    generation: Generation, messages: Sequence[Message], history: Sequence[Message] = (), task_id: str | None = None
) -> FixedPart:
    """The largest part that no rung can make smaller: the system prompt, the tool schemas, or a request that always
    stays, with the shortest clip.

    These requests are the task and those in `messages`, the context, that the model has not seen yet, and the latest
    one of `history`, which a summary may quote verbatim. `task_id` is the message with the session's task.
    """
    requests = [message for message in messages if is_request(message)]
    task, latest = task_of(requests, task_id), next(filter(is_request, reversed(history)), None)
    unseen = filter(is_request, messages[first_unseen(messages) :])
    parts = [FixedPart("system prompt", generation.system_tokens), FixedPart("tool schemas", generation.tools_tokens)]
    parts += [
        FixedPart(f"user message {message.id}", counted_tokens(_least_of(message)))
        for message in (task, *requests[-1:], latest, *unseen)
        if message is not None
    ]
    return max(parts, key=lambda part: part.tokens)


def _least_of(message: Message) -> Message:
    """A request with the shortest clip, with texts instead of its images."""
    return clip_message(message, dict.fromkeys((part.id for part in message.parts), SPILL_STEPS[-1]))


def _clips(selection: Selection, limit: int) -> tuple[tuple[str, int], ...]:
    """The selection's clips; parts of its tail with more than `limit` characters are added or made shorter."""
    untouched = {message.id for message in selection.requests}
    return _with_clips(selection, [message for message in selection.tail if message.id not in untouched], limit)


def _with_clips(selection: Selection, messages: Iterable[Message], limit: int) -> tuple[tuple[str, int], ...]:
    clips = dict(selection.clips)
    for message in messages:
        longer = [part.id for part in message.parts if part_length(part) > limit]
        clips |= {id: min(limit, clips.get(id, limit)) for id in longer}
    return tuple(clips.items())


def _shortened(selection: Selection, start: int) -> Selection:
    """The selection with the tail's messages before `start` covered as well."""
    tail = selection.tail[start:]
    dropped = selection.tail[:start]
    requests = selection.requests
    kept = tuple(dict.fromkeys([*selection.kept, *kept_ids(requests, tail)]))
    return replace(
        selection,
        last_seq=dropped[-1].seq,
        kept=kept,
        covered=(*selection.covered, *(message for message in dropped if message.id not in kept)),
        tail=tail,
        clips=carried(selection.clips, [*tail, *requests]),
    )


def _lengths(count: int) -> list[int]:
    """The lengths, in steps, to which a tail of `count` steps is shortened, falling to 0: all of them, or a series of
    `MOST_DROPS`, each about the same fraction of the one before."""
    if count <= MOST_DROPS:
        return list(range(count - 1, -1, -1))
    share = (1 / count) ** (1 / (MOST_DROPS - 1))
    lengths = {min(count - 1, round(count * share**number)) for number in range(1, MOST_DROPS)}
    return sorted(lengths | {0}, reverse=True)
