"""What a model sees of a history: a pure function of stored values, and the same one grown message by message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

from app.context.content import sendable, with_parts
from app.context.generation import Generation
from app.context.tokens import PER_MESSAGE, counted_tokens
from app.context.validator import Repair, SoundnessCheck, repair
from app.messages import Message, Part, Role, ToolResultPart

ItemReason = Literal["placeholder", "clip", "summary", "repair", "control"]

PLACEHOLDER = '[Old tool result cleared; recall("{call_id}") returns it]'
"""What stands for a pruned result; constant for a call, so that the provider's cache finds it again."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A compaction round: the messages with a seq from `first_seq` to `last_seq`, both included, are replaced by the
    summary. A later round that covers the same range takes the place of this one."""

    round: int
    summary_message_id: str
    first_seq: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class _Round:
    first_seq: int
    last_seq: int
    summary: Message


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
    become placeholders.
    """
    transcript = Transcript(generation, history, checkpoints, pruned, per_message=per_message)
    return Projection(tuple(transcript.items), transcript.tokens)


class Transcript:
    """A projection that grows with its history: the work of a step depends on what is new in it.

    `messages` is one list object for the whole life of the transcript, ready to be sent after `settle`. Appending gives
    what projecting the whole history would give. A new checkpoint or mark needs a new generation, and so a new
    transcript.
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
        self.items: list[ContextItem] = []
        self.messages: list[Message] = []
        self.tokens = 0
        self._pruned = pruned
        self._per_message = per_message
        self._check = SoundnessCheck(generation.model)
        rows = list(history)
        self._rounds = _rounds_in_force(rows, checkpoints)
        for message in _with_summaries(rows, self._rounds):
            self._add(message)

    @property
    def request_tokens(self) -> int:
        """Estimated tokens of a request: system text, tools and messages."""
        return self.generation.fixed_tokens + self.tokens

    def append(self, message: Message) -> None:
        """Adds the history's next message, complete; it may turn out to be nothing that a model sees."""
        for shown in _uncovered([message], self._rounds):
            self._add(shown)

    def settle(self) -> list[Repair]:
        """Makes `messages` fit to be sent and returns what had to be mended; no repairs is the rule.

        Looks only at what is new, unless a repair is needed. The caller records the repairs and starts a generation;
        the transcript itself stays in use until then.
        """
        if self._check.advance(self.messages):
            return []
        mended, repairs = repair(self.messages, model=self.generation.model)
        self._replace(mended)
        self._check = SoundnessCheck(self.generation.model)
        self._check.advance(self.messages)
        return repairs

    def _add(self, message: Message) -> None:
        kept = sendable(message, self.generation.model)
        if kept is None:
            return
        shown = _with_placeholders(kept, self._pruned)
        self._push(ContextItem(shown, message.id, counted_tokens(shown, self._per_message), _reason(kept, shown)))

    def _push(self, item: ContextItem) -> None:
        self.items.append(item)
        self.messages.append(item.message)
        self.tokens += item.tokens

    def _replace(self, messages: Sequence[Message]) -> None:
        known = {id(item.message): item for item in self.items}
        self.items.clear()
        self.messages.clear()
        self.tokens = 0
        for message in messages:
            tokens = counted_tokens(message, self._per_message)
            self._push(known.get(id(message)) or ContextItem(message, message.id, tokens, "repair"))


def _rounds_in_force(rows: Sequence[Message], checkpoints: Sequence[Checkpoint]) -> list[_Round]:
    """Checkpoints with a summary that no later round has taken up, in order of their place."""
    if not checkpoints:
        return []
    summaries = {message.id: message for message in rows if message.is_summary}
    known = [checkpoint for checkpoint in checkpoints if checkpoint.summary_message_id in summaries]
    in_force = [old for old in known if not any(_supersedes(new, old) for new in known)]
    return [
        _Round(c.first_seq, c.last_seq, summaries[c.summary_message_id])
        for c in sorted(in_force, key=lambda c: (c.first_seq, c.round))
    ]


def _supersedes(new: Checkpoint, old: Checkpoint) -> bool:
    return new.round > old.round and new.first_seq <= old.first_seq and old.last_seq <= new.last_seq


def _with_summaries(rows: Iterable[Message], rounds: Sequence[_Round]) -> Iterator[Message]:
    """The rows with each covered range replaced by its summary, at the range's place."""
    due = list(rounds)
    for message in _uncovered(rows, rounds):
        while due and due[0].first_seq <= message.seq:
            yield due.pop(0).summary
        yield message
    yield from (waiting.summary for waiting in due)


def _uncovered(rows: Iterable[Message], rounds: Sequence[_Round]) -> Iterator[Message]:
    for message in rows:
        if not message.is_summary and not any(r.first_seq <= message.seq <= r.last_seq for r in rounds):
            yield message


def _with_placeholders(message: Message, pruned: AbstractSet[str]) -> Message:
    if not pruned or message.role is not Role.TOOL or pruned.isdisjoint(part.call_id for part in message.tool_results):
        return message
    return with_parts(message, [_placeholder(part, pruned) for part in message.parts])


def _placeholder(part: Part, pruned: AbstractSet[str]) -> Part:
    if not isinstance(part, ToolResultPart) or part.call_id not in pruned:
        return part
    return part.model_copy(update={"output": PLACEHOLDER.format(call_id=part.call_id), "tokens": 0})


def _reason(kept: Message, shown: Message) -> ItemReason | None:
    if shown is not kept:
        return "placeholder"
    if kept.is_summary:
        return "summary"
    if kept.role is Role.CONTROL:
        return "control"
    return "clip" if any(part.truncated for part in kept.tool_results) else None
