"""What a model sees of a history: a pure function of stored values, and the same one grown message by message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from dataclasses import dataclass, replace
from typing import Literal

from app.context.checkpoints import AppliedRound, Checkpoint, clips_in_force, rounds_in_force, uncovered
from app.context.clipping import clip_message
from app.context.content import control_message, counted_for, sendable, text_part, with_parts
from app.context.generation import Generation
from app.context.mending import BEGINNING
from app.context.tokens import PER_MESSAGE, counted_tokens, estimate_result
from app.context.validator import Repair, SoundnessCheck, repair
from app.messages import Message, Part, Role, ToolResultPart

__all__ = [
    "Checkpoint",
    "ContextItem",
    "ItemReason",
    "Projection",
    "Transcript",
    "placeholder",
    "placeholder_tokens",
    "project",
]

ItemReason = Literal["placeholder", "clip", "summary", "repair", "control"]

PLACEHOLDER = '[Old tool result cleared; recall("{call_id}") returns it]'
"""What stands for a pruned result; constant for a call, so that the provider's cache finds it again."""

SUMMARISED = "[The conversation up to here was summarised. Go on with the task.]"
"""What stands between a summary in the assistant's role and what is no message of the user's, or nothing at all."""


@dataclass(frozen=True, slots=True)
class ContextItem:
    """A message as it goes out. `message_id` is the stored message that it comes from, or the derived id of one made up
    by a repair; `reason` says why it is not simply that message."""

    message: Message
    message_id: str
    tokens: int
    reason: ItemReason | None = None


@dataclass(frozen=True, slots=True)
class Projection:
    """What a history looks like to the model, before the validator; `tokens` are the messages' alone."""

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

    Left out are system rows, voided attempts, messages that say nothing (an error alone says nothing), summaries of no
    checkpoint, and reasoning that another model wrote or that was interrupted. Results of the call ids in `pruned`
    become placeholders, and parts that a checkpoint clips are shown with head and tail.
    """
    transcript = Transcript(generation, history, checkpoints, pruned, per_message=per_message)
    return Projection(tuple(transcript.items), transcript.tokens)


class Transcript:
    """A projection that grows with its history: the work of a step depends on what is new in it.

    `messages` is one list object for the whole life of the transcript, ready to be sent after `settle`. Appending gives
    what projecting the whole history would give. A new checkpoint or mark needs a new generation, and so a new
    transcript; a checkpoint counts from its summary on, which is behind all that it covers.
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
        self.tokens = 0
        self._pruned = pruned
        self._per_message = per_message
        self._more_per_message = 0
        self._check = SoundnessCheck(generation.reader)
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
        """The messages with where they come from, and the tokens of each."""
        more = self._more_per_message
        return [replace(item, tokens=item.tokens + more) for item in self._items] if more else list(self._items)

    def count_messages_at(self, per_message: int) -> None:
        """Counts so many tokens for each message besides its parts from here on, for those that are there too."""
        more = per_message - self._per_message
        self._more_per_message += more
        self._per_message = per_message
        self.tokens += more * len(self._items)

    def append(self, message: Message) -> None:
        """Adds the history's next message, complete; it may turn out to be nothing that a model sees."""
        for shown in uncovered([message], self._rounds):
            self._add(shown)

    def is_sound(self) -> bool:
        """Whether `messages` may be sent as they are; looks only at what is new."""
        return self._check.advance(self.messages)

    def settle(self) -> list[Repair]:
        """Makes `messages` fit to be sent and returns what had to be mended; no repairs is the rule.

        Looks only at what is new, unless a repair is needed. The caller records the repairs and starts a generation;
        the transcript itself stays in use until then.
        """
        if self.is_sound():
            return []
        mended, repairs = repair(self.messages, self.generation.reader)
        self._replace(mended)
        self._check = SoundnessCheck(self.generation.reader)
        self._check.advance(self.messages)
        return repairs

    def mended(self) -> tuple[Transcript, list[Repair]]:
        """The same fit to be sent, and what had to be mended, as by `settle`; this one stays as it is."""
        twin = copy(self)
        twin._items, twin.messages = list(self._items), list(self.messages)
        return twin, twin.settle()

    def drop_last(self) -> None:
        """Takes the last message away again, such as one that was put there to make the rest fit to be sent."""
        self.tokens -= self._items.pop().tokens + self._more_per_message
        self.messages.pop()
        self._check = SoundnessCheck(self.generation.reader)

    def _add_all(self, rows: Iterable[Message]) -> None:
        """The rows, with what takes the place of each covered range where the range was."""
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
            self._add(_without_results(message), verbatim=True)
        self._add(compacted.summary, verbatim=True)

    def _add(self, message: Message, *, verbatim: bool = False) -> None:
        kept = sendable(message, self.generation.reader)
        if kept is None:
            return
        kept = counted_for(kept, self.generation.model)
        if _needs_line(self._open_summary, kept):
            self._close_summary()
        self._open_summary = kept if kept.is_summary and kept.role is Role.ASSISTANT else None
        if self._open_summary is not None and not self._items:
            self._push_line(kept, BEGINNING, "beginning")
        cleared = kept if verbatim else _with_placeholders(kept, self._pruned)
        shown = cleared if verbatim else clip_message(cleared, self._clips, self._pruned)
        reason = _reason(kept, cleared, shown)
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
        self.tokens += item.tokens + self._more_per_message

    def _replace(self, messages: Sequence[Message]) -> None:
        known = {id(item.message): item for item in self._items}
        self._items.clear()
        self.messages.clear()
        self.tokens = 0
        for message in messages:
            self._push(known.get(id(message)) or ContextItem(message, message.id, self._count(message), "repair"))

    def _count(self, message: Message) -> int:
        """Tokens of a message as items have them, which is as the transcript began to count."""
        return counted_tokens(message, self._per_message - self._more_per_message)


def _needs_line(summary: Message | None, following: Message) -> bool:
    """Whether a line of ours goes between a summary in the assistant's role and what follows it.

    What came after the summary does not count: a request may have ended with the line by then, and it must stay so.
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
    """What is shown in the place of a pruned result."""
    output = PLACEHOLDER.format(call_id=part.call_id)
    return part.model_copy(update={"output": output, "tokens": placeholder_tokens(part)})


def placeholder_tokens(part: ToolResultPart) -> int:
    """Estimated tokens of what is shown in the place of a pruned result."""
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
