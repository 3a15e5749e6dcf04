"""What a round of compaction covers and what stays word for word, by policy."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from app.context.budget import Budget, tail_bounds
from app.context.checkpoints import Checkpoint, clips_in_force, rounds_in_force
from app.context.content import sendable
from app.context.generation import Generation
from app.context.policies import CompactionSettings
from app.context.projection import project
from app.context.turns import after_last_summary, cuts, first_unseen, is_request, tail_start
from app.messages import Message


@dataclass(frozen=True, slots=True)
class Selection:
    """A compaction that is possible: the range of seqs that a summary takes the place of, and what is around it.

    `kept` are ids of the user's messages in the range that stay word for word. `covered` is what the summary must tell
    of: the range as a model sees it now, without the kept messages and the summary in force, which is `previous` and is
    merged. `tail` is what stays behind the range, as it is shown now, and `clips` are the clips in it that stay.
    `latest_request` and `task` are the user's last and first message, wherever they are.
    """

    first_seq: int
    last_seq: int
    kept: tuple[str, ...]
    covered: tuple[Message, ...]
    previous: Message | None
    tail: tuple[Message, ...]
    latest_request: Message | None
    task: Message | None
    clips: tuple[tuple[str, int], ...] = ()


def select(
    history: Sequence[Message],
    checkpoints: Sequence[Checkpoint],
    settings: CompactionSettings,
    budget: Budget,
    model: str,
    *,
    pruned: AbstractSet[str] = frozenset(),
    urgent: bool = False,
) -> Selection | None:
    """What the policy would cover of `history` now; None where nothing new is old enough.

    The boundary never parts calls from their results, nor the parts of one model message. Sizes are those of what
    `model` sees, cleared outputs of `pruned` as their placeholders. `urgent` is for a context that is too large
    although nothing is old enough: all that the model has seen is covered, or simply all if these are requests alone.
    """
    shown = _shown(history, checkpoints, model, pruned)
    fresh = after_last_summary(shown)
    hurried = urgent and settings.policy != "handoff"
    start = _urgent_boundary(shown, fresh) if hurried else _boundary(shown, fresh, settings, budget)
    requests = [message for message in history if is_request(message) and sendable(message, model) is not None]
    task, latest = (requests[0], requests[-1]) if requests else (None, None)
    tail = shown[start:]
    unseen = filter(is_request, shown[first_unseen(shown) :])
    kept = () if settings.policy == "handoff" else kept_ids((task, latest, *unseen), tail)
    told = _outside(shown[fresh:start], kept)
    if all(latest is not None and message.id == latest.id for message in told):
        return None
    rounds = rounds_in_force(history, checkpoints)
    return Selection(
        first_seq=min([history[0].seq, *(r.checkpoint.first_seq for r in rounds)]),
        last_seq=shown[start - 1].seq if tail else history[-1].seq,
        kept=kept,
        covered=tuple(_outside(shown[: max(0, fresh - 1)], kept) + told),
        previous=shown[fresh - 1] if fresh else None,
        tail=tuple(tail),
        latest_request=latest,
        task=task,
        clips=carried(clips_in_force(rounds).items(), tail),
    )


def kept_ids(requests: Iterable[Message | None], tail: Iterable[Message]) -> tuple[str, ...]:
    """The ids of the requests that are not in the tail, in order of the history, each once."""
    in_tail = {message.id for message in tail}
    outside = {m.id: m.seq for m in requests if m is not None and m.id not in in_tail}
    return tuple(sorted(outside, key=outside.__getitem__))


def carried(clips: Iterable[tuple[str, int]], tail: Iterable[Message]) -> tuple[tuple[str, int], ...]:
    """Those of the clips that are of parts in `tail`."""
    ids = {part.id for message in tail for part in message.parts}
    return tuple(clip for clip in clips if clip[0] in ids)


def _shown(
    history: Sequence[Message], checkpoints: Sequence[Checkpoint], model: str, pruned: AbstractSet[str]
) -> list[Message]:
    """The stored messages of a context, as they are shown; lines that the projection adds are none of them."""
    stored = {message.id for message in history}
    view = Generation(id="", number=0, model=model, system="", tools=(), first_seq=0)
    items = project(history, view, checkpoints, pruned).items
    return [item.message for item in items if item.message_id in stored]


def _boundary(shown: Sequence[Message], fresh: int, settings: CompactionSettings, budget: Budget) -> int:
    """The index in `shown` from which the tail stays; at most `fresh` where there is nothing to do."""
    match settings.policy:
        case "threshold":
            return _last_messages(shown, settings.recent_messages_to_keep)
        case "handoff":
            return len(shown)
    return fresh + tail_start(shown[fresh:], settings.min_turns_to_keep, tail_bounds(budget, settings))


def _urgent_boundary(shown: Sequence[Message], fresh: int) -> int:
    start = fresh + max(place for place in cuts(shown[fresh:]) if place <= first_unseen(shown[fresh:]))
    return len(shown) if all(map(is_request, shown[fresh:start])) else start


def _last_messages(shown: Sequence[Message], count: int) -> int:
    """The index of the last `count` messages, moved back over results to their calls."""
    if len(shown) < count + 2:
        return 0
    return max(place for place in cuts(shown) if place <= min(len(shown) - count, first_unseen(shown)))


def _outside(messages: Iterable[Message], ids: Container[str]) -> list[Message]:
    return [message for message in messages if message.id not in ids]
