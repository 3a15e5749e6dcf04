"""The fake provider's own tokenizer and its prompt cache.

A prompt is a row of content blocks: tools, then the system text, then the messages' parts. A block's tokens are its
UTF-8 bytes divided by four, rounded up; there is no charge per message. The prompt's tokens are the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

IMAGE_TOKENS = 1_000
"""What an image costs, whatever its bytes."""

CACHE_LOOKBACK = 20
"""Anthropic looks at most this many blocks back from a breakpoint for an entry that an earlier request wrote."""


def count_text(text: str) -> int:
    """The tokens of one block of this text."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of the prompt that is cached whole or not at all. `place` is `tools`, `system` or a role; `content`
    identifies the block together with it; `breakpoint` says that it carries a `cache_control`."""

    place: str
    content: str
    tokens: int
    breakpoint: bool = False


def text_block(place: str, text: str, *, breakpoint: bool = False) -> Block:
    return Block(place, text, count_text(text), breakpoint)


def count_blocks(blocks: Sequence[Block]) -> int:
    return sum(block.tokens for block in blocks)


@dataclass(frozen=True, slots=True)
class CacheHit:
    """Tokens of a prompt: `shared` with an earlier request, `read` from the cache and `written` to it by the
    provider's rules."""

    shared: int = 0
    read: int = 0
    written: int = 0


@dataclass(slots=True)
class PromptCache:
    """Remembers the prefixes of accepted prompts, per model.

    OpenAI's cache is implicit: every block boundary counts. Anthropic's is explicit: an entry is written at a
    breakpoint and found from a breakpoint. The real minimum lengths and granules are left out, so that short prompts
    show hits too.
    """

    seen: set[int] = field(default_factory=set)
    entries: set[int] = field(default_factory=set)

    def take(self, model: str, blocks: Sequence[Block], *, explicit: bool) -> CacheHit:
        """The hit of this prompt, which is then remembered."""
        chain, sums = _chain(model, blocks)
        shared = next((at for at, link in enumerate(chain) if link not in self.seen), len(chain))
        marks = [at for at, block in enumerate(blocks) if block.breakpoint]
        hit = self._explicit(chain, sums, marks) if explicit else CacheHit(read=sums[shared])
        self.seen.update(chain)
        self.entries.update(chain[mark] for mark in marks)
        return CacheHit(sums[shared], hit.read, hit.written)

    def _explicit(self, chain: Sequence[int], sums: Sequence[int], marks: Sequence[int]) -> CacheHit:
        if not marks:
            return CacheHit()
        found = max((self._entry_before(chain, mark) for mark in marks), default=0)
        return CacheHit(read=sums[found], written=sums[marks[-1] + 1] - sums[found])

    def _entry_before(self, chain: Sequence[int], mark: int) -> int:
        """The number of leading blocks that an entry near this breakpoint covers."""
        window = range(mark, max(-1, mark - CACHE_LOOKBACK), -1)
        return next((at + 1 for at in window if chain[at] in self.entries), 0)


def _chain(model: str, blocks: Sequence[Block]) -> tuple[list[int], list[int]]:
    """A hash for each prefix, and the tokens before each block (one more than there are blocks)."""
    chain: list[int] = []
    sums = [0]
    link = hash(model)
    for block in blocks:
        link = hash((link, block.place, block.content))
        chain.append(link)
        sums.append(sums[-1] + block.tokens)
    return chain, sums
