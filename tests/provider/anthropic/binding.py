"""What a thinking block is bound to: a digest of everything in front of it, at the level of content blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import orjson

from tests.provider.anthropic.reading import blocks_of
from tests.provider.openai.reading import objects
from tests.provider.records import JSON
from tests.provider.thinking import SealBook

BETA = "thinking-binding-controls-2026-08-01"


class Prefix:
    """A request that is read from its beginning; `cache_control` and the parting of blocks into messages of one role do
    not count."""

    def __init__(self, body: JSON) -> None:
        self._digest = hashlib.sha256()
        for tool in objects(body.get("tools")):
            self.add("tools", tool)
        for block in blocks_of(body.get("system") or []):
            self.add("system", block)

    def add(self, place: str, block: Any) -> None:
        self._digest.update(orjson.dumps([place, unmarked(block)], option=orjson.OPT_SORT_KEYS) + b"\n")

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


THINKING = ("thinking", "redacted_thinking")
Place = tuple[int, int]
"""A message and a block in it."""


def seal_of(block: JSON) -> str:
    return str(block.get("signature" if block["type"] == "thinking" else "data"))


def judge(body: JSON, seals: SealBook) -> tuple[Prefix, list[Place]]:
    """What an answer to this request stands behind, and the known thinking blocks that were issued behind anything
    else: they are not part of it."""
    prefix, mismatched = Prefix(body), list[Place]()
    for at, message in enumerate(objects(body.get("messages"))):
        for place, block in enumerate(blocks_of(message.get("content"))):
            if block.get("type") in THINKING and not seals.is_bound_to(seal_of(block), prefix.digest):
                mismatched.append((at, place))
            else:
                prefix.add(str(message.get("role")), block)
    return prefix, mismatched


def unmarked(value: Any) -> Any:
    """The value without cache breakpoints, at any depth."""
    if isinstance(value, dict):
        return {key: unmarked(inner) for key, inner in value.items() if key != "cache_control"}
    return [unmarked(inner) for inner in value] if isinstance(value, list) else value


def drops_blocks(body: JSON, headers: dict[str, str]) -> bool:
    """Whether the request asks for what cannot be verified to be dropped; it has to say so twice."""
    thinking = body.get("thinking")
    binding = thinking.get("block_binding") if isinstance(thinking, dict) else None
    asked = isinstance(binding, dict) and binding.get("prefix_mismatch_behavior") == "drop_block"
    return asked and reports_drops(headers)


def reports_drops(headers: dict[str, str]) -> bool:
    return BETA in headers.get("anthropic-beta", "").split(",")


def transformations(places: Sequence[Place]) -> list[JSON]:
    """The entries of `input_transformations` for dropped blocks."""
    return [
        {"type": "thinking_dropped", "reason": "prefix_binding_mismatch", "path": f"messages.{at}.content.{place}"}
        for at, place in places
    ]
