"""Tool calls and their results in a Messages history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.provider.anthropic.reading import blocks_of
from tests.provider.records import JSON, Refused


def check_pairs(messages: Sequence[JSON]) -> None:
    """Each batch of calls is answered by the leading blocks of the very next message, one result for each, and no id is
    used twice."""
    used: set[str] = set()
    batch: list[str] = []
    for at, message in enumerate(messages):
        blocks = blocks_of(message["content"])
        if message["role"] == "user":
            _check_results(at, blocks, batch)
            batch = []
        else:
            batch = [block["id"] for block in blocks if block.get("type") == "tool_use"]
            _check_new(at, blocks, used)
            used.update(batch)
    if batch:
        raise _unanswered(len(messages) - 1, batch)


def _check_new(at: int, blocks: Sequence[JSON], used: set[str]) -> None:
    seen = set(used)
    for place, block in enumerate(blocks):
        if block.get("type") != "tool_use":
            continue
        if block["id"] in seen:
            raise Refused("ids", f"messages.{at}.content.{place}: `tool_use` ids must be unique")
        seen.add(block["id"])


def _check_results(at: int, blocks: Sequence[JSON], batch: Sequence[str]) -> None:
    results = [(place, block["tool_use_id"]) for place, block in enumerate(blocks) if block["type"] == "tool_result"]
    for place, call_id in results:
        if call_id not in batch:
            message = (
                f"unexpected `tool_use_id` found in `tool_result` blocks: {call_id}."
                " Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
            raise Refused("pairing", f"messages.{at}.content.{place}: {message}")
    for call_id, times in Counter(call_id for _, call_id in results).items():
        if times > 1:
            message = f"each tool_use must have a single result. Found multiple `tool_result` blocks with id: {call_id}"
            raise Refused("ids", f"messages.{at}.content: {message}")
    leading = {call_id for place, call_id in results if place < len(results)}
    missing = [call_id for call_id in batch if call_id not in leading]
    if missing:
        raise _unanswered(at - 1, missing)


def _unanswered(at: int, ids: Sequence[str]) -> Refused:
    message = (
        f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(ids)}."
        " Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )
    return Refused("pairing", message)
