"""What stands before a block of a Messages conversation, as one digest; cache breakpoints are no part of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from tests.provider.anthropic.reading import blocks_of
from tests.provider.records import JSON

BETA = "thinking-binding-controls-2026-08-01"


def prefix_of(body: JSON, at: int, before: Sequence[JSON]) -> str:
    """The digest of system prompt, tools, the first `at` messages, and the blocks `before` in the message after."""
    messages = [[message["role"], blocks_of(message["content"])] for message in body.get("messages", [])[:at]]
    row = [blocks_of(body.get("system")), body.get("tools") or [], messages, list(before)]
    return hashlib.sha256(orjson.dumps(_bare(row), option=orjson.OPT_SORT_KEYS)).hexdigest()


def drops_mismatches(body: JSON, headers: Mapping[str, str]) -> bool:
    """Whether the request asks for blocks to be dropped that cannot be verified."""
    thinking = body.get("thinking")
    binding = thinking.get("block_binding") if isinstance(thinking, dict) else None
    wanted = isinstance(binding, dict) and binding.get("prefix_mismatch_behavior") == "drop_block"
    return wanted and BETA in headers.get("anthropic-beta", "")


def _bare(value: Any) -> Any:
    if isinstance(value, list):
        return [_bare(inner) for inner in value]
    if isinstance(value, dict):
        return {name: _bare(inner) for name, inner in value.items() if name != "cache_control"}
    return value
