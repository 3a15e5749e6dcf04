"""What a model sees of a history: as a pure function of stored values, and incrementally, message by message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from dataclasses import dataclass, replace
from typing import Literal

from app.context.checkpoints import AppliedRound, Checkpoint, clips_in_force, rounds_in_force, uncovered
from app.context.clipping import clip_message
from app.context.content import control_message, counted_for, sendable, text_part, with_parts
from app.context.images import unseen, without
from app.context.prompts import Generation
from app.context.tokens import PER_MESSAGE, counted_tokens, estimate_result
from app.context.validator import BEGINNING, Repair, SoundnessCheck, repair
from app.messages import ImagePart, Message, Part, Role, ToolResultPart

ItemReason = Literal["placeholder", "clip", "summary", "repair", "control"]

PLACEHOLDER = '[Old tool result cleared; recall("{call_id}") returns it]'
"""Replaces a pruned result; constant for each call, so that the provider's cache still matches."""

SUMMARISED = "[The conversation up to here was summarized. Continue with the task.]"
"""Follows a summary in the assistant's role, unless a user message does."""


@dataclass(frozen=True, slots=True)
class ContextItem:
    """A message as it is sent. `message_id` is the stored message that it comes from, or the derived id of one added by
    a repair; `reason` says why the two differ."""

    message: Message
    message_id: str
    tokens: int
    reason: ItemReason | None = None


@dataclass(frozen=True, slots=True)
class Projection:
    """What a history looks like to the model, before validation; `tokens` are those of the messages alone."""

    items: tuple[ContextItem, ...]
    tokens: int

    @property
    def messages(self) -> list[Message]:
        return [item.message for item in self.items]


def project(
    history: Iterable[Message],
    generation: Generation,
    checkpoints: Sequence[Checkpoint] = (),
    pruned: AbstractSet[str] = frozenset(),
    *,
    per_message: int = PER_MESSAGE,
) -> Projection:
    """The messages that the generation's model sees of `history`, in order.

    Left out are system rows, voided attempts, messages that say nothing (an error alone says nothing), summaries
    without a checkpoint, and reasoning that the generation's rule excludes: what another model wrote, what was
    interrupted, and thinking bound to an earlier generation. Results of the call ids in `pruned` become placeholders,
    and parts that a checkpoint clips are shown with head and tail.
    """
    transcript = Transcript(generation, history, checkpoints, pruned, per_message=per_message)
    return Projection(tuple(transcript.items), transcript.tokens)


class Transcript:
    """A projection that grows with its history: the work of a step depends only on what is new.

    `messages` is the same list object for the whole life of the transcript, ready to be sent after `settle`; `images`
    are those in it. Appending gives the same result as projecting the whole history. A new checkpoint or mark needs a
    new generation and so a new transcript; a checkpoint applies from its summary on, which comes after all that it
    covers.
    """

    def __init__(
        self,
        generation: Generation,
        history: Iterable[Message] = (),
        checkpoints: Sequence[Checkpoint] = (),
        pruned: AbstractSet[str] = frozenset(),
        *,
        per_message: int = PER_MESSAGE,
    ) -> None:
        self.generation = generation
        self._items: list[ContextItem] = []
        self.messages: list[Message] = []
        self.images: list[ImagePart] = []
        self.tokens = 0
        self._pruned = pruned
        self._per_message = per_message
        self._more_per_message = 0
        self._check = SoundnessCheck(generation.reasoning)
        rows = list(history)
        self._rounds = rounds_in_force(rows, checkpoints)
        self._clips = clips_in_force(self._rounds)
        self._open_summary: Message | None = None
        self._add_all(rows)

    @property
    def request_tokens(self) -> int:
        """Estimated tokens of a request: system text, tools and messages."""
        return self.generation.fixed_tokens + self.tokens

    @property
    def items(self) -> list[ContextItem]:
        """The messages with their origin and tokens."""
        more = self._more_per_message
        return [replace(item, tokens=item.tokens + more) for item in self._items] if more else list(self._items)

    def count_messages_at(self, per_message: int) -> None:
        """From here on, counts this many tokens for each message in addition to its parts, earlier messages
        included."""
        more = per_message - self._per_message
        self._more_per_message += more
        self._per_message = per_message
        self.tokens += more * len(self._items)

    def append(self, message: Message) -> None:
        """Adds the history's next message, complete; the model may see nothing of it."""
        for shown in uncovered([message], self._rounds):
            self._add(shown)

    def is_sound(self) -> bool:
        """Whether `messages` may be sent as they are; checks only what is new."""
        return self._check.advance(self.messages)

    def settle(self) -> list[Repair]:
        """Makes `messages` valid to send and returns the repairs, usually none.

        Checks only what is new, unless a repair is needed. The caller records the repairs and starts a generation; the
        transcript itself stays in use until then.
        """
        if self.is_sound():
            return []
        repaired, repairs = repair(self.messages, self.generation.reasoning)
        self._replace(repaired)
        self._check = SoundnessCheck(self.generation.reasoning)
        self._check.advance(self.messages)
        return repairs

    def repaired(self) -> tuple[Transcript, list[Repair]]:
        """A repaired copy, and the repairs, like `settle`; this transcript is unchanged."""
        twin = copy(self)
        twin._items, twin.messages, twin.images = list(self._items), list(self.messages), list(self.images)
        return twin, twin.settle()

    def drop_last(self) -> None:
        """Removes the last message, such as one added only to make the rest valid to send."""
        self.tokens -= self._items.pop().tokens + self._more_per_message
        self.messages.pop()
        self._check = SoundnessCheck(self.generation.reasoning)

    def _add_all(self, rows: Iterable[Message]) -> None:
        """Adds the rows, with each covered range replaced at its position."""
        due = list(self._rounds)
        for message in uncovered(rows, self._rounds):
            while due and due[0].checkpoint.first_seq <= message.seq:
                self._add_round(due.pop(0))
            self._add(message)
        for waiting in due:
            self._add_round(waiting)
        self._close_summary()

    def _add_round(self, compacted: AppliedRound) -> None:
        for message in compacted.kept:
            self._add(_without_results(message))
        self._add(compacted.summary, verbatim=True)

    def _add(self, message: Message, *, verbatim: bool = False) -> None:
        kept = sendable(message, self.generation.reasoning)
        if kept is None:
            return
        kept = counted_for(kept, self.generation.model)
        seen, kept = kept, kept if self.generation.sees_images else unseen(kept)
        if _needs_line(self._open_summary, kept):
            self._close_summary()
        self._open_summary = kept if kept.is_summary and kept.role is Role.ASSISTANT else None
        if self._open_summary is not None and not self._items:
            self._push_line(kept, BEGINNING, "beginning")
        cleared = kept if verbatim else without(_with_placeholders(kept, self._pruned), self._pruned)
        shown = cleared if verbatim else clip_message(cleared, self._clips, self._pruned)
        reason = _reason(seen, cleared, shown)
        self._push(ContextItem(shown, message.id, self._count(shown), reason))

    def _close_summary(self) -> None:
        summary, self._open_summary = self._open_summary, None
        if summary is not None:
            self._push_line(summary, SUMMARISED, "summarised")

    def _push_line(self, summary: Message, text: str, purpose: str) -> None:
        line = control_message(summary, purpose, [text_part(text, summary.id, purpose)])
        self._push(ContextItem(line, line.id, self._count(line), "control"))

    def _push(self, item: ContextItem) -> None:
        self._items.append(item)
        self.messages.append(item.message)
        self.images += (part for part in item.message.parts if isinstance(part, ImagePart))
        self.tokens += item.tokens + self._more_per_message

    def _replace(self, messages: Sequence[Message]) -> None:
        known = {id(item.message): item for item in self._items}
        self._items.clear()
        self.messages.clear()
        self.images.clear()
        self.tokens = 0
        for message in messages:
            self._push(known.get(id(message)) or ContextItem(message, message.id, self._count(message), "repair"))

    def _count(self, message: Message) -> int:
        """Tokens of a message as the items have them: with the per-message tokens that the transcript started with."""
        return counted_tokens(message, self._per_message - self._more_per_message)


def _needs_line(summary: Message | None, following: Message) -> bool:
    """Whether a control message goes between a summary in the assistant's role and the message after it.

    Messages newer than the summary make no difference: a request may have ended with the control message by then, and
    it must stay.
    """
    if summary is None:
        return False
    return following.role not in (Role.USER, Role.CONTROL) or following.seq > summary.seq


def _without_results(message: Message) -> Message:
    """A kept message without results, which some importers put there: their calls are covered."""
    if not message.tool_results:
        return message
    return with_parts(message, [part for part in message.parts if not isinstance(part, ToolResultPart)])


def placeholder(part: ToolResultPart) -> ToolResultPart:
    """What replaces a pruned result."""
    output = PLACEHOLDER.format(call_id=part.call_id)
    return part.model_copy(update={"output": output, "tokens": placeholder_tokens(part)})


def placeholder_tokens(part: ToolResultPart) -> int:
    """Estimated tokens of what replaces a pruned result."""
    return estimate_result(part.call_id, PLACEHOLDER.format(call_id=part.call_id))


def _with_placeholders(message: Message, pruned: AbstractSet[str]) -> Message:
    if not pruned or message.role is not Role.TOOL or pruned.isdisjoint(part.call_id for part in message.tool_results):
        return message
    return with_parts(message, [_placeholder(part, pruned) for part in message.parts])


def _placeholder(part: Part, pruned: AbstractSet[str]) -> Part:
    return placeholder(part) if isinstance(part, ToolResultPart) and part.call_id in pruned else part


def _reason(kept: Message, cleared: Message, shown: Message) -> ItemReason | None:
    if cleared is not kept:
        return "placeholder"
    if shown is not cleared:
        return "clip"
    if kept.is_summary:
        return "summary"
    if kept.role is Role.CONTROL:
        return "control"
    return "clip" if any(part.truncated for part in kept.tool_results) else None
