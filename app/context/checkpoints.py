"""Compaction rounds and which of them are in force for a history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from app.messages import Message, Role


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A compaction round: the messages with a seq from `first_seq` to `last_seq`, inclusive, are replaced by those that
    `kept` names, verbatim, followed by the summary. A later round that covers the same range replaces this one. Rounds
    are made in the order of their summaries, not necessarily of their numbers: a manual round has its number before it
    is made.

    `clips` maps ids of parts to the number of characters to show: parts of messages outside the range, of kept ones,
    and of the user's request that a summary ends with.
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
        """Whether this later round covers everything that the earlier one does."""
        return self.first_seq <= earlier.first_seq and earlier.last_seq <= self.last_seq


@dataclass(frozen=True, slots=True)
class InForce:
    """What shapes a context: the checkpoints that were not reverted, including superseded ones, in the order in which
    they were made, and the calls whose outputs are cleared."""

    checkpoints: tuple[Checkpoint, ...] = ()
    pruned: frozenset[str] = frozenset()

    @property
    def rounds(self) -> tuple[int, ...]:
        """The numbers of the rounds, ascending."""
        return tuple(sorted(checkpoint.round for checkpoint in self.checkpoints))

    @property
    def latest(self) -> int:
        """The number of the latest round made, 0 without one."""
        return self.checkpoints[-1].round if self.checkpoints else 0

    def clearing(self, call_ids: Iterable[str]) -> InForce:
        """The same, with these outputs cleared as well."""
        return replace(self, pruned=self.pruned.union(call_ids))

    def covering(self, checkpoint: Checkpoint) -> InForce:
        """The same, with one more round."""
        return replace(self, checkpoints=(*self.checkpoints, checkpoint))


@dataclass(frozen=True, slots=True)
class AppliedRound:
    """A checkpoint in force, with its messages: those kept from its range, then the summary."""

    checkpoint: Checkpoint
    kept: tuple[Message, ...]
    summary: Message


def rounds_in_force(rows: Sequence[Message], checkpoints: Sequence[Checkpoint]) -> list[AppliedRound]:
    """Checkpoints that have a summary and were not replaced by a later round, in order of their ranges."""
    if not checkpoints:
        return []
    summaries = {message.id: message for message in rows if message.is_summary}
    known = [checkpoint for checkpoint in checkpoints if checkpoint.summary_message_id in summaries]
    known.sort(key=lambda checkpoint: summaries[checkpoint.summary_message_id].seq)
    return [
        AppliedRound(c, tuple(_kept(rows, c)), summaries[c.summary_message_id])
        for c in sorted(not_superseded(known), key=lambda checkpoint: checkpoint.first_seq)
    ]


def not_superseded(checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Those of the checkpoints, given in the order in which they were made, that no later one replaces."""
    return [
        c
        for place, c in enumerate(checkpoints)
        if not any(later.replaces(c) for later in islice(checkpoints, place + 1, None))
    ]


def gaps(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int | None]]:
    """The gaps between ranges of seqs, each given by its first and last: pairs of the seq before the gap and the seq
    after it, None for the gap at the end."""
    found: list[tuple[int, int | None]] = []
    after = 0
    for first, last in sorted(ranges):
        if first > after + 1:
            found.append((after, first))
        after = max(after, last)
    return [*found, (after, None)]


def reachable(history: Sequence[Message], checkpoints: Sequence[Checkpoint]) -> list[Message]:
    """The messages that contexts with these or later checkpoints are made of: those outside all ranges, kept ones,
    summaries, and the user's own, which a later round may keep. Everything else was summarized."""
    rounds = rounds_in_force(history, checkpoints)
    if not rounds:
        return list(history)
    outside = {message.id for message in uncovered(history, rounds)}
    outside.update(message.id for r in rounds for message in r.kept)
    return [m for m in history if m.is_summary or m.role is Role.USER or m.id in outside]


def clips_in_force(rounds: Iterable[AppliedRound]) -> Mapping[str, int]:
    """Characters to show of each clipped part; if two rounds name the same part, the later one decides."""
    newest_last = sorted(rounds, key=lambda r: r.summary.seq)
    return {part_id: limit for made in newest_last for part_id, limit in made.checkpoint.clips}


def uncovered(rows: Iterable[Message], rounds: Sequence[AppliedRound]) -> Iterator[Message]:
    """The rows outside all ranges, without summaries."""
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
