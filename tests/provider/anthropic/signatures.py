"""Thinking blocks that come back: whole, unchanged, and only to the model that wrote them."""

from __future__ import annotations

from collections.abc import Sequence

from tests.provider.anthropic.binding import BETA, THINKING, drops_blocks, judge, reports_drops, seal_of
from tests.provider.anthropic.reading import blocks_of
from tests.provider.records import JSON, Refused
from tests.provider.thinking import SealBook

MIN_BUDGET = 1_024
"""The smallest documented thinking budget, in tokens."""


def check_thinking(body: JSON, messages: Sequence[JSON], seals: SealBook) -> None:
    _check_parameter(body)
    for at, message in enumerate(messages):
        blocks = [(n, b) for n, b in enumerate(blocks_of(message["content"])) if b.get("type") in THINKING]
        for place, block in blocks:
            _check_seal(f"messages.{at}.content.{place}", str(body["model"]), block, seals)
        if blocks and not seals.is_whole([seal_of(block) for _, block in blocks]):
            raise _modified(f"messages.{at}.content.{blocks[0][0]}")
    if _is_on(body):
        _check_open_loop(messages)


def check_binding(body: JSON, headers: dict[str, str], seals: SealBook) -> None:
    """Refuses thinking behind anything but what it was issued behind, unless it is to be dropped."""
    thinking = body.get("thinking")
    if isinstance(thinking, dict) and "block_binding" in thinking and not reports_drops(headers):
        raise Refused("thinking", f"thinking.adaptive.block_binding: Extra inputs are not permitted; send {BETA}")
    _, mismatched = judge(body, seals)
    if not mismatched or drops_blocks(body, headers):
        return
    at, place = mismatched[0]
    kind = blocks_of(body["messages"][at]["content"])[place]["type"]
    name = "signature" if kind == "thinking" else "data"
    message = (
        f"messages.{at}.content.{place}: Invalid `{name}` in `{kind}` block. The block is bound to a different"
        " conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to"
        ' "drop_block".'
    )
    raise Refused("thinking", message)


def _is_on(body: JSON) -> bool:
    thinking = body.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") == "enabled"


def _check_parameter(body: JSON) -> None:
    if not _is_on(body):
        return
    budget = body["thinking"].get("budget_tokens")
    if not isinstance(budget, int):
        raise Refused("thinking", "thinking.enabled.budget_tokens: Field required")
    if budget < MIN_BUDGET:
        message = f"thinking.enabled.budget_tokens: Input should be greater than or equal to {MIN_BUDGET}"
        raise Refused("thinking", message)
    if body["max_tokens"] <= budget:
        raise Refused("thinking", "`max_tokens` must be greater than `thinking.budget_tokens`.")
    if body.get("temperature", 1) != 1:
        raise Refused("thinking", "`temperature` may only be set to 1 when thinking is enabled.")


def _check_seal(where: str, model: str, block: JSON, seals: SealBook) -> None:
    known = seals.blocks.get(seal_of(block))
    if known is None or known.model != model:
        name = "signature" if block["type"] == "thinking" else "data"
        raise Refused("thinking", f"{where}: Invalid `{name}` in `{block['type']}` block")
    if block.get("thinking", "") != known.text:
        raise _modified(where)


def _modified(where: str) -> Refused:
    message = (
        f"{where}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified."
        " These blocks must remain as they were in the original response."
    )
    return Refused("thinking", message)


def _check_open_loop(messages: Sequence[JSON]) -> None:
    """With thinking on, an assistant message whose results come last must begin with its thinking."""
    if len(messages) < 2 or not any(b.get("type") == "tool_result" for b in blocks_of(messages[-1]["content"])):
        return
    first = blocks_of(messages[-2]["content"])[0]
    if first.get("type") not in THINKING:
        message = (
            f"messages.{len(messages) - 2}.content.0.type: Expected `thinking` or `redacted_thinking`, but found"
            f" `{first.get('type')}`. When `thinking` is enabled, a final `assistant` message must start with a"
            " thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
        )
        raise Refused("thinking", message)
