"""Compaction rounds and which of them are in force for a history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from app.messages import Message, Role


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A compaction round: the messages with a seq from `first_seq` to `last_seq`, both included, are replaced by those
    of them that `kept` names, word for word, and then the summary. A round made later that covers the same range takes
    the place of this one. Rounds are made in the order of their summaries, which need not be that of their numbers: one
    that somebody asks for has its number before it is made.

    `clips` are ids of parts and the number of characters to show of each: parts of messages outside the range, of kept
    ones, and of the user's request that a summary ends with.
    """

    round: int
    summary_message_id: str
    first_seq: int
    last_seq: int
    kept: tuple[str, ...] = ()
    clips: tuple[tuple[str, int], ...] = ()

    def covers(self, message: Message) -> bool:
        """Whether the message is in the range."""
        return self.first_seq <= message.seq <= self.last_seq

    def replaces(self, earlier: Checkpoint) -> bool:
        """Whether this round, made later, covers all that the earlier one does."""
        return self.first_seq <= earlier.first_seq and earlier.last_seq <= self.last_seq


@dataclass(frozen=True, slots=True)
class InForce:
    """What shapes a context: the checkpoints that were not reverted, superseded ones included, in the order in which
    they were made, and the calls whose outputs are cleared."""

    checkpoints: tuple[Checkpoint, ...] = ()
    pruned: frozenset[str] = frozenset()

    @property
    def rounds(self) -> tuple[int, ...]:
        """The numbers of the rounds, ascending."""
        return tuple(sorted(checkpoint.round for checkpoint in self.checkpoints))

    @property
    def latest(self) -> int:
        """The number of the round that was made last, 0 without one."""
        return self.checkpoints[-1].round if self.checkpoints else 0

    def clearing(self, call_ids: Iterable[str]) -> InForce:
        """The same, with these outputs cleared as well."""
        return replace(self, pruned=self.pruned.union(call_ids))

    def covering(self, checkpoint: Checkpoint) -> InForce:
        """The same, with one round more."""
        return replace(self, checkpoints=(*self.checkpoints, checkpoint))


@dataclass(frozen=True, slots=True)
class AppliedRound:
    """A checkpoint in force, with its messages: those kept of its range, then the summary."""

    checkpoint: Checkpoint
    kept: tuple[Message, ...]
    summary: Message


def rounds_in_force(rows: Sequence[Message], checkpoints: Sequence[Checkpoint]) -> list[AppliedRound]:
    """Checkpoints with a summary that no round made later has taken up, in order of their place."""
    if not checkpoints:
        return []
    summaries = {message.id: message for message in rows if message.is_summary}
    known = [checkpoint for checkpoint in checkpoints if checkpoint.summary_message_id in summaries]
    known.sort(key=lambda checkpoint: summaries[checkpoint.summary_message_id].seq)
    return [
        AppliedRound(c, tuple(_kept(rows, c)), summaries[c.summary_message_id])
        for c in sorted(not_taken_up(known), key=lambda checkpoint: checkpoint.first_seq)
    ]


def not_taken_up(checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Those of the checkpoints, given in the order in which they were made, that no later one replaces."""
    return [
        c
        for place, c in enumerate(checkpoints)
        if not any(later.replaces(c) for later in islice(checkpoints, place + 1, None))
    ]


def gaps(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int | None]]:
    """What lies outside of ranges of seqs, each given by its first and last: pairs of a seq after which a gap begins
    and one before which it ends, None for the gap at the end."""
    found: list[tuple[int, int | None]] = []
    after = 0
    for first, last in sorted(ranges):
        if first > after + 1:
            found.append((after, first))
        after = max(after, last)
    return [*found, (after, None)]


def reachable(history: Sequence[Message], checkpoints: Sequence[Checkpoint]) -> list[Message]:
    """The messages that contexts with these checkpoints, and such as come later, are made of: those outside all ranges,
    those kept, summaries, and the user's own, of which a later round may keep one. The rest was summarised."""
    rounds = rounds_in_force(history, checkpoints)
    if not rounds:
        return list(history)
    outside = {message.id for message in uncovered(history, rounds)}
    outside.update(message.id for r in rounds for message in r.kept)
    return [m for m in history if m.is_summary or m.role is Role.USER or m.id in outside]


def clips_in_force(rounds: Iterable[AppliedRound]) -> Mapping[str, int]:
    """Characters to show of each clipped part; where two rounds name one part, the one made later decides."""
    newest_last = sorted(rounds, key=lambda r: r.summary.seq)
    return {part_id: limit for made in newest_last for part_id, limit in made.checkpoint.clips}


def uncovered(rows: Iterable[Message], rounds: Sequence[AppliedRound]) -> Iterator[Message]:
    """The rows outside all ranges, summaries left out."""
    ranges = [(r.checkpoint.first_seq, r.checkpoint.last_seq) for r in rounds]
    for message in rows:
        if message.is_summary:
            continue
        for first, last in ranges:
            if first <= message.seq <= last:
                break
        else:
            yield message


def _kept(rows: Iterable[Message], checkpoint: Checkpoint) -> Iterator[Message]:
    names = frozenset(checkpoint.kept)
    return (m for m in rows if m.id in names and checkpoint.covers(m) and not m.is_summary)
