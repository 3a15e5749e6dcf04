"""A call's result as the model sees it: text, and images where they can be shown."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import Any

import mcp_types as types
import orjson

from app.errors import ToolError
from app.images import MAX_IMAGE_BYTES, MAX_IMAGES, image_size, media_type_of
from app.messages import ToolStatus
from app.tools.base import ToolImage, ToolOutcome

_URI_CHARS = 2_000
_TYPE_CHARS = 100
_REPEATED_CHARS = 64
"""Characters of base64 that are unlikely to be anything else."""
_MAX_BASE64_CHARS = 4 * (MAX_IMAGE_BYTES // 3 + 2)
"""Characters of the largest image that is shown."""


def read_result(result: types.CallToolResult | types.InputRequiredResult) -> tuple[str, ToolOutcome]:
    """The text, and how the call ended, with its images. Looks into images, so call it in a thread. Raises `ToolError`
    if the server asks for input, which nobody here can give."""
    if isinstance(result, types.InputRequiredResult):
        raise ToolError("The server requests user input, which is not supported; call the tool with other arguments.")
    images: list[ToolImage] = []
    parts = [text for block in result.content for text in _block(block, images)]
    structured = result.structured_content
    if structured is not None and not any(_same(text, structured) for text in parts):
        parts.append(_without_repeats(_json(structured), result.content))
    status = ToolStatus.ERROR if result.is_error else ToolStatus.COMPLETED
    return "\n".join(parts), ToolOutcome(status, images=tuple(images))


def _block(block: types.ContentBlock, images: list[ToolImage]) -> Iterator[str]:
    """The text of a block; an image that can be shown is added to `images`, and the text says so."""
    match block:
        case types.TextContent():
            yield block.text
        case types.ImageContent():
            yield _image("image", block.mime_type, block.data, images)
        case types.AudioContent():
            yield f"[audio, {block.mime_type[:_TYPE_CHARS]}, {_size(block.data)} bytes: not shown]"
        case types.ResourceLink():
            about = ", ".join(text for text in (block.mime_type, block.description) if text)
            yield f"[resource {block.name}: {str(block.uri)[:_URI_CHARS]}{f' ({about})' if about else ''}]"
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            yield f"[resource {str(resource.uri)[:_URI_CHARS]}]\n{resource.text}"
        case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
            what, kind = f"resource {str(resource.uri)[:_URI_CHARS]}", resource.mime_type or "binary"
            if kind.startswith("image/"):
                yield _image(what, kind, resource.blob, images)
            else:
                yield f"[{what}, {kind[:_TYPE_CHARS]}, {_size(resource.blob)} bytes: not shown]"


def _image(what: str, kind: str, text: str, images: list[ToolImage]) -> str:
    """Adds an image in base64 to `images` if it can be shown; returns the text in its place."""

    def refused(why: str) -> str:
        return f"[{what}, {kind[:_TYPE_CHARS]}, {_size(text)} bytes: not shown, {why}]"

    if len(images) == MAX_IMAGES:
        return refused(f"as it comes after {MAX_IMAGES} others")
    if len(text) > _MAX_BASE64_CHARS:
        return refused(f"as it has more than {MAX_IMAGE_BYTES:,}")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return refused("as it is not valid base64")
    # Providers refuse a request whose image is not what it is said to be, so only its bytes count.
    found = media_type_of(data)
    if found is None:
        return refused("as it is not a PNG, JPEG, GIF or WebP image")
    if len(data) > MAX_IMAGE_BYTES:
        return refused(f"as it has more than {MAX_IMAGE_BYTES:,}")
    width, height = image_size(data) or (None, None)
    images.append(ToolImage(found, data, width, height))
    size = f"{width}×{height} pixels, " if width is not None else ""
    return f"[{what}, {found}, {size}{len(data):,} bytes]"


def _without_repeats(text: str, blocks: Sequence[types.ContentBlock]) -> str:
    """Structured content without the images and sounds that it repeats, as some servers send them."""
    for block in blocks:
        if isinstance(block, types.ImageContent | types.AudioContent) and len(block.data) >= _REPEATED_CHARS:
            text = text.replace(block.data, f"[the {block.type} above]")
    return text


def _size(text: str) -> str:
    return f"{len(text) * 3 // 4:,}"


def _same(text: str, value: Any) -> bool:
    """Whether a text says the same as the structured content, as servers send it for older clients. Many wrap a value
    that is not an object in one with a single key, such as `result`."""
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
