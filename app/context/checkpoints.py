"""Compaction rounds and which of them are in force for a history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.messages import Message


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A compaction round: the messages with a seq from `first_seq` to `last_seq`, both included, are replaced by those
    of them that `kept` names, word for word, and then the summary. A later round that covers the same range takes the
    place of this one.

    `clips` are ids of parts outside the range and the number of characters to show of each.
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


@dataclass(frozen=True, slots=True)
class Round:
    """A checkpoint in force, with its messages: those kept of its range, then the summary."""

    checkpoint: Checkpoint
    kept: tuple[Message, ...]
    summary: Message


def rounds_in_force(rows: Sequence[Message], checkpoints: Sequence[Checkpoint]) -> list[Round]:
    """Checkpoints with a summary that no later round has taken up, in order of their place."""
    if not checkpoints:
        return []
    summaries = {message.id: message for message in rows if message.is_summary}
    known = [checkpoint for checkpoint in checkpoints if checkpoint.summary_message_id in summaries]
    in_force = [old for old in known if not any(_supersedes(new, old) for new in known)]
    return [
        Round(c, tuple(_kept(rows, c)), summaries[c.summary_message_id])
        for c in sorted(in_force, key=lambda c: (c.first_seq, c.round))
    ]


def clips_in_force(rounds: Iterable[Round]) -> Mapping[str, int]:
    """Characters to show of each clipped part; where two rounds name one part, the later round decides."""
    newest_last = sorted((r.checkpoint for r in rounds), key=lambda c: c.round)
    return {part_id: limit for checkpoint in newest_last for part_id, limit in checkpoint.clips}


def uncovered(rows: Iterable[Message], rounds: Sequence[Round]) -> Iterator[Message]:
    """The rows outside all ranges, summaries left out."""
    for message in rows:
        if not message.is_summary and not any(r.checkpoint.covers(message) for r in rounds):
            yield message


def _supersedes(new: Checkpoint, old: Checkpoint) -> bool:
    return new.round > old.round and new.first_seq <= old.first_seq and old.last_seq <= new.last_seq


def _kept(rows: Iterable[Message], checkpoint: Checkpoint) -> Iterator[Message]:
    names = frozenset(checkpoint.kept)
    return (m for m in rows if m.id in names and checkpoint.covers(m) and not m.is_summary)
