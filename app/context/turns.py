"""Where a conversation may be cut: between turns, and between the steps of a turn; never inside a batch of calls."""

from __future__ import annotations

from collections.abc import Sequence

from app.context.budget import TailBounds
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
