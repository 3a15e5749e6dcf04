"""Where a conversation may be cut, and what a compaction covers and what stays word for word, by policy."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import takewhile

from app.context.budget import Budget, TailBounds, tail_bounds
from app.context.checkpoints import Checkpoint, clips_in_force, rounds_in_force
from app.context.content import ReasoningRule, sendable
from app.context.policies import CompactionSettings
from app.context.projection import project
from app.context.prompts import Generation
from app.context.tokens import counted_tokens
from app.messages import ImagePart, Message, Role, TextPart, ToolCallPart, ToolResultPart


def is_request(message: Message) -> bool:
    """Whether the message is the user's own and so begins a turn; a summary in the user's role does not, nor do
    imported results."""
    own = message.role is Role.USER and not message.is_summary
    return own and any(isinstance(part, TextPart | ImagePart) for part in message.parts)


def task_of(requests: Sequence[Message], task_id: str | None) -> Message | None:
    """The task among a history's requests: the message with the session's task, else the first one; None without
    requests."""
    return next((m for m in requests if m.id == task_id), requests[0] if requests else None)


def cuts(messages: Sequence[Message]) -> list[int]:
    """The indices at which the conversation may be cut in two, in order; the first is 0 and the last its length.

    Calls and results always stay together, wherever in the history a result is, and so do the parts of a message.
    """
    answered_at = _answered_at(messages)
    found, reach = [], -1
    for index, message in enumerate(messages):
        if reach < index and message.role is not Role.TOOL:
            found.append(index)
        reach = max(reach, answered_at.get(index, index))
    return [0, *(index for index in found if index), len(messages)] if messages else [0]


def after_last_summary(messages: Sequence[Message]) -> int:
    """The index after the newest summary, 0 without one."""
    return next((i + 1 for i in range(len(messages) - 1, -1, -1) if messages[i].is_summary), 0)


def recent_start(messages: Sequence[Message], turns: int, bounds: TailBounds) -> int:
    """The index from which the newest `turns` turns begin; `messages` begin after the last summary.

    Turns larger than the maximum tail are cut between steps, down to its minimum size. What the model has not seen yet
    is always included, however large.
    """
    places = cuts(messages)
    unseen = _cut_at_or_before(first_unseen(messages), places)
    start = _cut_at_or_before(min(unseen, _start_of_turns(messages, turns)), places)
    if sum(map(counted_tokens, messages[start:])) <= bounds.most:
        return start
    return _grown(unseen, messages, places, bounds)


def tail_start(messages: Sequence[Message], turns: int, bounds: TailBounds) -> int:
    """The index from which the newest messages stay unchanged: like `recent_start`, but moved back over older steps to
    the tail's minimum size."""
    return _grown(recent_start(messages, turns, bounds), messages, cuts(messages), bounds)


def first_unseen(messages: Sequence[Message]) -> int:
    """The index from which the model has seen nothing yet: its last calls, for their results, or what came after its
    last answer."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role is Role.ASSISTANT:
            return index if messages[index].tool_calls or index == len(messages) - 1 else index + 1
    return 0


def _cut_at_or_before(index: int, places: Sequence[int]) -> int:
    return max(place for place in places if place <= index)


def _grown(start: int, messages: Sequence[Message], places: Sequence[int], bounds: TailBounds) -> int:
    """`start` moved back over whole steps until the tail has its minimum size, unless a step would make it too
    large."""
    total = sum(map(counted_tokens, messages[start:]))
    for place in reversed([place for place in places if place < start]):
        step = sum(map(counted_tokens, messages[place:start]))
        if total >= bounds.least or total + step > bounds.most:
            break
        start, total = place, total + step
    return start


def _start_of_turns(messages: Sequence[Message], turns: int) -> int:
    if turns == 0:
        return len(messages)
    starts = [index for index, message in enumerate(messages) if is_request(message)]
    return starts[-turns] if len(starts) >= turns else 0


def _answered_at(messages: Sequence[Message]) -> dict[int, int]:
    """For each message with calls, the index of the last message with a result of them. A result belongs to the nearest
    earlier message that waits for one with its id, since providers reuse ids."""
    waiting: dict[str, list[int]] = {}
    found: dict[int, int] = {}
    for index, message in enumerate(messages):
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                waiting.setdefault(part.call_id, []).append(index)
        for part in message.parts:
            if isinstance(part, ToolResultPart) and (callers := waiting.get(part.call_id)):
                found[callers.pop()] = index
    return found


@dataclass(frozen=True, slots=True)
class Selection:
    """A possible compaction: the range of seqs that a summary replaces, and what is around it.

    `kept` are ids of the user's messages in the range that stay verbatim. `covered` is what the summary must describe:
    the range as a model sees it now, without the kept messages and the summary in force, which is `previous` and is
    merged. `tail` is what stays after the range, as it is shown now, and `clips` are the clips in it that stay.
    `latest_request` is the user's last message and `task` the session's, wherever they are, and `unseen` are the
    requests that the model has not answered yet. The range may contain nothing to summarize: such a round is made only
    for its clips.
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
    unseen: tuple[Message, ...] = ()

    @property
    def requests(self) -> tuple[Message, ...]:
        """The requests that always stay: the task, the latest one and those that the model has not seen yet. They stay
        verbatim unless they do not fit even alone; then they are clipped."""
        known = (self.task, self.latest_request, *self.unseen)
        return tuple({message.id: message for message in known if message is not None}.values())

    def is_clipped(self, message: Message) -> bool:
        """Whether only head and tail of a part of the message are shown."""
        clipped = {part_id for part_id, _ in self.clips}
        return not clipped.isdisjoint(part.id for part in message.parts)

    def stands(self, message: Message) -> bool:
        """Whether a request stays in the context as its own message, so that the facts need not repeat it."""
        if message.seq <= self.last_seq:
            return message.id in self.kept
        return not self.is_clipped(message) or any(message.id == request.id for request in self.requests)

    def quoted(self, history: Sequence[Message]) -> Message | None:
        """The latest request if only the summary can contain it: it is covered, and none has come since, as may happen
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
    spill: bool = False,
    task_id: str | None = None,
) -> Selection | None:
    """What the policy would cover of `history` now; None if nothing new is old enough.

    The boundary never separates calls from their results, nor the parts of one model message. Sizes are those of what
    `model` sees, with outputs of `pruned` as placeholders. `task_id` is the message with the session's task, if the
    history has it. `urgent` is for a context that is too large although nothing is old enough: everything that the
    model has seen is covered; if that is only requests, everything before the newest requests; and simply everything if
    there is nothing else. `spill` is for a context of requests that do not fit: everything that the model has seen is
    covered, and there is a selection even if that is nothing, since its clips make the context smaller.
    """
    shown = _shown(history, checkpoints, model, pruned)
    fresh = after_last_summary(shown)
    start = _start(shown, fresh, settings, budget, urgent=urgent, spill=spill)
    rule = ReasoningRule(model)
    requests = [message for message in history if is_request(message) and sendable(message, rule) is not None]
    task, latest = task_of(requests, task_id), requests[-1] if requests else None
    tail = shown[start:]
    unseen = list(filter(is_request, shown[first_unseen(shown) :]))
    stays = _beside_handoff(latest, unseen) if settings.policy == "handoff" else [task, latest, *unseen]
    kept = kept_ids(stays, tail)
    told = _outside(shown[fresh:start], kept)
    if all(latest is not None and message.id == latest.id for message in told):
        if not spill or latest is None:
            return None
        told = []
    rounds = rounds_in_force(history, checkpoints)
    first_seq = min([history[0].seq, *(r.checkpoint.first_seq for r in rounds)])
    if tail:
        covered_before = max([first_seq - 1, *(r.checkpoint.last_seq for r in rounds)])
        last_seq = shown[start - 1].seq if start > fresh else covered_before
    else:
        last_seq = history[-1].seq
    return Selection(
        first_seq=first_seq,
        last_seq=last_seq,
        kept=kept,
        covered=tuple(_outside(shown[: max(0, fresh - 1)], kept) + told),
        previous=shown[fresh - 1] if fresh else None,
        tail=tuple(tail),
        latest_request=latest,
        task=task,
        clips=carried(clips_in_force(rounds).items(), [*tail, *filter(None, (task, latest, *unseen))]),
        unseen=tuple(unseen),
    )


def _beside_handoff(latest: Message | None, unseen: Iterable[Message]) -> list[Message]:
    """What stays next to the summary that ends with the latest request: other requests that the model has not seen, and
    the latest itself if it has images, which no text can replace."""
    in_text = latest is not None and not any(isinstance(part, ImagePart) for part in latest.parts)
    stays = [message for message in unseen if latest is None or message.id != latest.id]
    return stays if latest is None or in_text else [*stays, latest]


def kept_ids(requests: Iterable[Message | None], tail: Iterable[Message]) -> tuple[str, ...]:
    """The ids of the requests that are not in the tail, in order of the history, without duplicates."""
    in_tail = {message.id for message in tail}
    outside = {m.id: m.seq for m in requests if m is not None and m.id not in in_tail}
    return tuple(sorted(outside, key=outside.__getitem__))


def carried(clips: Iterable[tuple[str, int]], shown: Iterable[Message]) -> tuple[tuple[str, int], ...]:
    """The clips of parts in `shown`."""
    ids = {part.id for message in shown for part in message.parts}
    return tuple(clip for clip in clips if clip[0] in ids)


def _shown(
    history: Sequence[Message], checkpoints: Sequence[Checkpoint], model: str, pruned: AbstractSet[str]
) -> list[Message]:
    """The stored messages of a context, as they are shown, without messages added by the projection."""
    stored = {message.id for message in history}
    # Thinking is dropped with the generation that ends: the tail is measured as the next one shows it.
    begins = max((message.seq for message in history), default=0) + 1
    view = Generation(id="", number=0, model=model, system="", tools=(), first_seq=begins)
    items = project(history, view, checkpoints, pruned).items
    return [item.message for item in items if item.message_id in stored]


def _start(
    shown: Sequence[Message], fresh: int, settings: CompactionSettings, budget: Budget, *, urgent: bool, spill: bool
) -> int:
    """The index in `shown` where the tail begins; `handoff` never has one."""
    if settings.policy != "handoff":
        if spill:
            return _seen(shown, fresh)
        if urgent:
            return _urgent_boundary(shown, fresh)
    return _boundary(shown, fresh, settings, budget)


def _seen(shown: Sequence[Message], fresh: int) -> int:
    """The index up to which the model has seen everything, at a valid cut."""
    return fresh + max(place for place in cuts(shown[fresh:]) if place <= first_unseen(shown[fresh:]))


def _boundary(shown: Sequence[Message], fresh: int, settings: CompactionSettings, budget: Budget) -> int:
    """The index in `shown` where the tail begins; at most `fresh` if there is nothing to do."""
    match settings.policy:
        case "threshold":
            return _last_messages(shown, settings.recent_messages_to_keep)
        case "handoff":
            return len(shown)
    return fresh + tail_start(shown[fresh:], settings.min_turns_to_keep, tail_bounds(budget, settings))


def _urgent_boundary(shown: Sequence[Message], fresh: int) -> int:
    start = _seen(shown, fresh)
    if not all(map(is_request, shown[fresh:start])):
        return start
    # The model has seen only requests, so unseen messages are covered as well; the requests at the end stay after the
    # summary, for the model to answer.
    asked = sum(1 for _ in takewhile(is_request, reversed(shown[fresh:])))
    return len(shown) - asked if fresh + asked < len(shown) else len(shown)


def _last_messages(shown: Sequence[Message], count: int) -> int:
    """The index of the last `count` messages, moved back over results to their calls."""
    if len(shown) < count + 2:
        return 0
    return max(place for place in cuts(shown) if place <= min(len(shown) - count, first_unseen(shown)))


def _outside(messages: Iterable[Message], ids: Container[str]) -> list[Message]:
    return [message for message in messages if message.id not in ids]
