"""Thinking blocks signed by the fake provider, so that it can recognize them, and what each is bound to."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Signed:
    """A block that went out: `seal` is its signature, or the data of a redacted one, whose `text` is empty. `prefix` is
    the digest of all that came before it, its own response's blocks included; None where that was not said."""

    seal: str
    text: str
    model: str
    response: str
    prefix: str | None = None


@dataclass(slots=True)
class SealBook:
    """Issues seals and remembers them, in order, per response. `rebound` are known blocks that count as bound to
    another conversation, whatever comes before them."""

    blocks: dict[str, Signed] = field(default_factory=dict)
    responses: dict[str, list[str]] = field(default_factory=dict)
    rebound: set[str] = field(default_factory=set)
    reasoned: dict[str, set[str]] = field(default_factory=dict)
    """The plain reasoning in front of an answer, by its model, text and calls."""

    def issue(self, model: str, response: str, text: str, *, redacted: bool = False, prefix: str | None = None) -> str:
        """Issues the seal of a new block of this response."""
        row = self.responses.setdefault(response, [])
        seal = hashlib.sha256(f"{response}:{len(row)}:{model}:{text}".encode()).hexdigest()
        row.append(seal)
        self.blocks[seal] = Signed(seal, "" if redacted else text, model, response, prefix)
        return seal

    def rebind(self) -> None:
        """Has all blocks that were issued so far bound to another conversation."""
        self.rebound.update(self.blocks)

    def is_bound_to(self, seal: str, prefix: str) -> bool:
        """Whether a known block was issued behind this prefix."""
        known = self.blocks[seal]
        return seal not in self.rebound and known.prefix in (None, prefix)

    def is_whole(self, seals: Sequence[str]) -> bool:
        """Whether these known seals are all that their response issued, in order."""
        return list(seals) == self.responses[self.blocks[seals[0]].response]
