"""The thinking blocks that the fake provider has signed, so that it knows them again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Signed:
    """A block that went out: `seal` is its signature, or the data of a redacted one, whose `text` is empty. `prefix` is
    the digest of all that came before it, which binds it to its conversation."""

    seal: str
    text: str
    model: str
    response: str
    prefix: str


@dataclass(slots=True)
class SealBook:
    """Issues seals and remembers them, in order, per response."""

    blocks: dict[str, Signed] = field(default_factory=dict)
    responses: dict[str, list[str]] = field(default_factory=dict)
    reasoned: dict[str, set[str]] = field(default_factory=dict)
    """The plain reasoning in front of an answer, by the answer's text and calls."""

    def issue(self, model: str, response: str, text: str, *, prefix: str = "", redacted: bool = False) -> str:
        """The seal of a new block of this response, which comes behind `prefix`."""
        row = self.responses.setdefault(response, [])
        seal = hashlib.sha256(f"{response}:{len(row)}:{model}:{text}".encode()).hexdigest()
        row.append(seal)
        self.blocks[seal] = Signed(seal, "" if redacted else text, model, response, prefix)
        return seal

    def is_whole(self, seals: Sequence[str]) -> bool:
        """Whether these known seals are all that their response issued, in order."""
        return list(seals) == self.responses[self.blocks[seals[0]].response]
