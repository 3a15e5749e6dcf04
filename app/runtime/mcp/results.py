"""What a call's result is as text for a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mcp_types as types
import orjson

from app.errors import ToolError
from app.messages import ToolStatus

_URI_CHARS = 2_000


def result_text(result: types.CallToolResult | types.InputRequiredResult) -> tuple[str, ToolStatus]:
    """The text and whether the tool failed. Raises `ToolError` if the server wants what nobody here can give."""
    if isinstance(result, types.InputRequiredResult):
        raise ToolError(
            "The server asks for input from a person, which is not supported; call it with other arguments."
        )
    parts = [text for block in result.content for text in _block(block)]
    structured = result.structured_content
    if structured is not None and not any(_same(text, structured) for text in parts):
        parts.append(_json(structured))
    return "\n".join(parts), ToolStatus.ERROR if result.is_error else ToolStatus.COMPLETED


def _block(block: types.ContentBlock) -> Iterator[str]:
    match block:
        case types.TextContent():
            yield block.text
        case types.ImageContent():
            yield f"[image, {block.mime_type[:100]}, {_size(block.data)} bytes: not shown]"
        case types.AudioContent():
            yield f"[audio, {block.mime_type[:100]}, {_size(block.data)} bytes: not shown]"
        case types.ResourceLink():
            about = ", ".join(text for text in (block.mime_type, block.description) if text)
            yield f"[resource {block.name}: {str(block.uri)[:_URI_CHARS]}{f' ({about})' if about else ''}]"
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            yield f"[resource {str(resource.uri)[:_URI_CHARS]}]\n{resource.text}"
        case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
            kind = resource.mime_type or "binary"
            yield f"[resource {str(resource.uri)[:_URI_CHARS]}, {kind[:100]}, {_size(resource.blob)} bytes: not shown]"


def _size(base64: str) -> str:
    return f"{len(base64) * 3 // 4:,}"


def _same(text: str, value: Any) -> bool:
    """Whether a text says the same as the structured content, as servers send it for older clients. Many wrap what is
    no object in one with a single key, such as `result`."""
    inner = next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value
    if text == inner:
        return True
    try:
        return bool(orjson.loads(text) in (value, inner))
    except ValueError:
        return False


def _json(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):
        return str(value)
