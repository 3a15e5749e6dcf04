"""What a round of compaction covers and what stays word for word, by policy."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import takewhile

from app.context.budget import Budget, tail_bounds
from app.context.checkpoints import Checkpoint, clips_in_force, rounds_in_force
from app.context.content import Reader, sendable
from app.context.generation import Generation
from app.context.policies import CompactionSettings
from app.context.projection import project
from app.context.turns import after_last_summary, cuts, first_unseen, is_request, tail_start, task_of
from app.messages import ImagePart, Message


@dataclass(frozen=True, slots=True)
class Selection:
    """A compaction that is possible: the range of seqs that a summary takes the place of, and what is around it.

    `kept` are ids of the user's messages in the range that stay word for word. `covered` is what the summary must tell
    of: the range as a model sees it now, without the kept messages and the summary in force, which is `previous` and is
    merged. `tail` is what stays behind the range, as it is shown now, and `clips` are the clips in it that stay.
    `latest_request` is the user's last message and `task` the one that everything is about, wherever they are.
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

    def stands(self, message: Message) -> bool:
        """Whether a request stays in the context as a message of its own, word for word."""
        if message.seq <= self.last_seq:
            return message.id in self.kept
        clipped = {part_id for part_id, _ in self.clips}
        return clipped.isdisjoint(part.id for part in message.parts)

    def quoted(self, history: Sequence[Message]) -> Message | None:
        """The latest request where the summary alone can tell it: it is covered, and none has come since, as may be
        while a summary is prepared."""
        latest = self.latest_request
        if latest is None or latest.seq > self.last_seq or latest.id in self.kept:
            return None
        later = takewhile(lambda message: message.seq > self.last_seq, reversed(history))
        return None if any(map(is_request, later)) else latest


def select(
    history: Sequence[Message],
    checkpoints: Sequence[Checkpoint],
    settings: CompactionSettings,
    budget: Budget,
    model: str,
    *,
    pruned: AbstractSet[str] = frozenset(),
    urgent: bool = False,
    task_id: str | None = None,
) -> Selection | None:
    """What the policy would cover of `history` now; None where nothing new is old enough.

    The boundary never parts calls from their results, nor the parts of one model message. Sizes are those of what
    `model` sees, cleared outputs of `pruned` as their placeholders. `task_id` is the message that carries the session's
    task, if the history has it. `urgent` is for a context that is too large although nothing is old enough: all that
    the model has seen is covered; where these are requests alone, all that comes before the newest requests; and simply
    all if there is nothing else.
    """
    shown = _shown(history, checkpoints, model, pruned)
    fresh = after_last_summary(shown)
    hurried = urgent and settings.policy != "handoff"
    start = _urgent_boundary(shown, fresh) if hurried else _boundary(shown, fresh, settings, budget)
    requests = [message for message in history if is_request(message) and sendable(message, Reader(model)) is not None]
    task, latest = task_of(requests, task_id), requests[-1] if requests else None
    tail = shown[start:]
    unseen = list(filter(is_request, shown[first_unseen(shown) :]))
    stays = _beside_handoff(latest, unseen) if settings.policy == "handoff" else [task, latest, *unseen]
    kept = kept_ids(stays, tail)
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


def _beside_handoff(latest: Message | None, unseen: Iterable[Message]) -> list[Message]:
    """What stays beside the summary that ends with the latest request: requests that the model has not seen either, and
    the latest itself where it has images, which no text can tell."""
    in_text = latest is not None and not any(isinstance(part, ImagePart) for part in latest.parts)
    stays = [message for message in unseen if latest is None or message.id != latest.id]
    return stays if latest is None or in_text else [*stays, latest]


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
    if not all(map(is_request, shown[fresh:start])):
        return start
    # Nothing but requests was seen, so that what was not seen is covered as well; the requests at the end stay behind
    # the summary, as what the model is to answer.
    asked = sum(1 for _ in takewhile(is_request, reversed(shown[fresh:])))
    return len(shown) - asked if fresh + asked < len(shown) else len(shown)


def _last_messages(shown: Sequence[Message], count: int) -> int:
    """The index of the last `count` messages, moved back over results to their calls."""
    if len(shown) < count + 2:
        return 0
    return max(place for place in cuts(shown) if place <= min(len(shown) - count, first_unseen(shown)))


def _outside(messages: Iterable[Message], ids: Container[str]) -> list[Message]:
    return [message for message in messages if message.id not in ids]
