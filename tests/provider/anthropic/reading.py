"""What a Messages body says: its texts, calls and results, and its row of content blocks."""

from __future__ import annotations

from typing import Any

from tests.provider.counting import IMAGE_TOKENS, Block, count_text, text_block
from tests.provider.openai.reading import compact, objects
from tests.provider.records import JSON, Reading


def blocks_of(content: Any) -> list[JSON]:
    """Content as blocks; a string is one text block."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)


def text_of(content: Any) -> str:
    return "".join(str(block.get("text", "")) for block in blocks_of(content) if block.get("type") == "text")


def of_type(messages: list[JSON], kind: str) -> list[JSON]:
    return [block for m in messages for block in blocks_of(m.get("content")) if block.get("type") == kind]


def read(body: JSON) -> Reading:
    messages = objects(body.get("messages"))
    texts = [(m.get("role"), text_of(m.get("content"))) for m in messages]
    return Reading(
        system=text_of(body.get("system")),
        user_texts=tuple(text for role, text in texts if role == "user" and text),
        assistant_texts=tuple(text for role, text in texts if role == "assistant" and text),
        tool_calls={str(b.get("id")): (str(b.get("name")), b.get("input")) for b in of_type(messages, "tool_use")},
        tool_results={
            str(b.get("tool_use_id")): text_of(b.get("content", "")) for b in of_type(messages, "tool_result")
        },
        tool_names=tuple(str(tool.get("name")) for tool in objects(body.get("tools"))),
    )


def blocks(body: JSON) -> list[Block]:
    row = [text_block("tools", compact(tool), breakpoint=is_marked(tool)) for tool in objects(body.get("tools"))]
    row.extend(_block("system", block) for block in blocks_of(body.get("system")))
    for message in objects(body.get("messages")):
        row.extend(_block(str(message.get("role")), block) for block in blocks_of(message.get("content")))
    return row


def _block(place: str, block: JSON) -> Block:
    return Block(place, compact(block), _tokens(block), is_marked(block))


def _tokens(block: JSON) -> int:
    match block.get("type"):
        case "text":
            return count_text(str(block.get("text", "")))
        case "tool_use":
            return count_text(compact({"name": block.get("name"), "input": block.get("input")}))
        case "tool_result":
            return sum(_tokens(inner) for inner in blocks_of(block.get("content", "")))
        case "thinking":
            return count_text(str(block.get("thinking", "")))
        case "image":
            return IMAGE_TOKENS
        case _:
            return count_text(compact(block))


def is_marked(block: JSON) -> bool:
    """Whether the block, or one inside it, is a cache breakpoint."""
    return count_marks(block) > 0


def count_marks(block: JSON) -> int:
    inner = objects(block.get("content")) if block.get("type") == "tool_result" else []
    return (block.get("cache_control") is not None) + sum(count_marks(b) for b in inner)
