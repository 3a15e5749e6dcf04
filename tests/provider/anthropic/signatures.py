"""Thinking blocks that come back: whole, unchanged, and only to the model that wrote them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.provider.anthropic.prefix import BETA, drops_mismatches, prefix_of
from tests.provider.anthropic.reading import blocks_of
from tests.provider.records import JSON, Refused
from tests.provider.settings import Settings
from tests.provider.thinking import SealBook

THINKING = ("thinking", "redacted_thinking")
MIN_BUDGET = 1_024
"""The smallest documented thinking budget, in tokens."""


def check_thinking(
    body: JSON, messages: Sequence[JSON], headers: Mapping[str, str], settings: Settings, seals: SealBook
) -> None:
    _check_parameter(body, headers)
    drops = drops_mismatches(body, headers)
    for at, message in enumerate(messages):
        blocks = [(n, b) for n, b in enumerate(blocks_of(message["content"])) if b.get("type") in THINKING]
        for place, block in blocks:
            _check_seal(f"messages.{at}.content.{place}", str(body["model"]), block, seals)
        if blocks and not seals.is_whole([_seal(block) for _, block in blocks]):
            raise _modified(f"messages.{at}.content.{blocks[0][0]}")
    if settings.binds_thinking and not drops:
        for where in mismatches(body, seals):
            raise Refused("thinking", f"{where}: {BOUND}")
    if _is_on(body):
        _check_open_loop(messages)


BOUND = (
    "Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set"
    ' `thinking.block_binding.prefix_mismatch_behavior` to "drop_block". That setting requires the'
    " `thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header."
)


def mismatches(body: JSON, seals: SealBook) -> Iterator[str]:
    """Where thinking stands that was written behind something else."""
    for at, message in enumerate(body.get("messages", ())):
        blocks = blocks_of(message["content"])
        for place, block in enumerate(blocks):
            known = seals.blocks.get(_seal(block)) if block.get("type") in THINKING else None
            if known is not None and known.prefix != prefix_of(body, at, blocks[:place]):
                yield f"messages.{at}.content.{place}"


def _is_on(body: JSON) -> bool:
    thinking = body.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") == "enabled"


def _check_parameter(body: JSON, headers: Mapping[str, str]) -> None:
    thinking = body.get("thinking")
    if isinstance(thinking, dict) and "block_binding" in thinking and BETA not in headers.get("anthropic-beta", ""):
        raise Refused("headers", "thinking.adaptive.block_binding: Extra inputs are not permitted")
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


def _seal(block: JSON) -> str:
    return str(block.get("signature" if block["type"] == "thinking" else "data"))


def _check_seal(where: str, model: str, block: JSON, seals: SealBook) -> None:
    known = seals.blocks.get(_seal(block))
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
