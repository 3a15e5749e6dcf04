"""Reads the content of foreign messages: texts, images, reasoning, calls and results, as blocks of either format."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

import orjson

from app.images import MEDIA_TYPES, image_size
from app.interchange.turns import (
    ASSISTANT_IMAGES,
    RESULT_IMAGES,
    Turn,
    call_part,
    document_note,
    image_part,
    invalid,
    leftovers_note,
    linked_image_note,
    reasoning_part,
    result_image_note,
    result_part,
    text_part,
    unknown_block_note,
    unread_image_note,
)
from app.messages import ImagePart, Part, Role, TextPart, ToolResultPart, ToolStatus

Block = Mapping[str, Any]
_TEXTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
"""Types of blocks that contain plain text, and the field it is in."""

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)((?:;[^,;]*)*),", re.IGNORECASE)
_WHITE_SPACE = re.compile(r"\s+")


def read_content(content: Any, turn: Turn, index: int) -> None:
    """Adds a message's content to `turn`. Raises `invalid_history` if it is neither text nor blocks."""
    if content is None:
        return
    if isinstance(content, str):
        turn.add_text(content)
        return
    if not isinstance(content, list):
        raise invalid(index, "content should be a string or an array")
    for block in content:
        if isinstance(block, str):
            turn.add_text(block)
        elif isinstance(block, Mapping):
            _read_block(block, turn, index)
        else:
            raise invalid(index, "each item of content should be an object")


def _read_block(block: Block, turn: Turn, index: int) -> None:
    """Adds one block; unknown and misplaced kinds are added as a note."""
    kind = block.get("type")
    speaks = turn.role is Role.ASSISTANT
    if kind in _TEXTS and isinstance(text := block.get(_TEXTS[kind]), str):
        turn.add_text(text)
        _add_leftovers(block, turn, {_TEXTS[kind]})
    elif kind in ("image_url", "input_image", "image"):
        _add_image(_image(block), turn)
    elif kind == "thinking" and speaks and isinstance(block.get("thinking"), str):
        _add_thinking(block, turn)
    elif kind == "redacted_thinking" and speaks and isinstance(block.get("data"), str):
        turn.parts.append(reasoning_part("", {"type": kind, "data": block["data"]}))
    elif kind == "tool_use" and speaks:
        turn.parts.append(call_part(call_key(block.get("id")), _name(block, index), arguments(block.get("input"))))
    elif kind == "tool_result":
        _add_leftovers(block, turn, {"tool_use_id", "content", "is_error"})
        add_result(turn, index, block.get("tool_use_id"), block.get("content"), error=bool(block.get("is_error")))
    elif kind in ("document", "search_result") and (text := _document(block, turn.role, index)):
        turn.add_text(text)
        _add_leftovers(block, turn, {"source", "title", "content", "citations"})
    else:
        turn.add_text(unknown_block_note(block))


def _image(block: Block) -> ImagePart | TextPart:
    if block["type"] == "image" and "source" in block:
        return from_source(block["source"])
    address = block.get("image_url")
    return from_url(address.get("url") if isinstance(address, Mapping) else address)


def _add_image(image: ImagePart | TextPart, turn: Turn) -> None:
    """Adds an image; the assistant's images, which no provider accepts, follow in a separate message."""
    if isinstance(image, ImagePart) and turn.role is Role.ASSISTANT:
        turn.after.extend([text_part(ASSISTANT_IMAGES), image])
    else:
        turn.parts.append(image)


def _add_thinking(block: Block, turn: Turn) -> None:
    """A signed block is kept unchanged; it is unknown which model wrote it, so it is shown to none."""
    signed = {name: block[name] for name in ("type", "thinking", "signature") if name in block}
    data = signed if block.get("signature") else None
    if data is not None or block["thinking"]:
        turn.parts.append(reasoning_part(block["thinking"], data))


def _add_leftovers(block: Block, turn: Turn, known: set[str]) -> None:
    for note in leftovers_note(block, known):
        turn.add_text(note)


def _document(block: Block, role: Role, index: int) -> str:
    """The text of a document or search result, under its title; empty if it is not text."""
    source, content = block.get("source"), block.get("content")
    if isinstance(source, Mapping):
        content = source.get("data") if source.get("type") == "text" else source.get("content")
    if not isinstance(content, str | list):
        return ""
    inner = Turn(role)
    read_content(content, inner, index)
    texts = [part.text for part in inner.parts if isinstance(part, TextPart)]
    if not texts or len(texts) < len(inner.parts) or inner.after:
        return ""
    names = [name for name in (block.get("title"), source) if isinstance(name, str) and name]
    return "\n".join([document_note(names), *texts])


def _name(holder: Block, index: int) -> str:
    name = holder.get("name")
    if name is not None and not isinstance(name, str):
        raise invalid(index, "the name of a call should be a string")
    return name or ""


def call_key(value: Any) -> str:
    """The id that a call and its result share; empty if they have none."""
    return value if isinstance(value, str) else "" if value is None else orjson.dumps(value).decode()


def arguments(value: Any) -> str:
    """A call's arguments as text: unchanged if they came as text, else as compact JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else orjson.dumps(value).decode()


def add_result(turn: Turn, index: int, key: Any, content: Any, *, name: str = "", error: bool = False) -> None:
    """Adds a tool's result: its texts on separate lines, its images after the message. A value that is not content, as
    some programs write it, becomes its JSON."""
    inner = Turn(Role.TOOL)
    read_content(content if isinstance(content, str | list | None) else arguments(content), inner, index)
    texts: list[str] = []
    images: list[Part] = []
    for part in inner.parts:
        if isinstance(part, ImagePart):
            images.append(part)
            texts.append(result_image_note(len(images)))
        elif isinstance(part, TextPart):
            texts.append(part.text)
        elif isinstance(part, ToolResultPart):
            texts.append(part.output)
    status = ToolStatus.ERROR if error else ToolStatus.COMPLETED
    turn.parts.append(result_part(call_key(key), name, "\n".join(texts), status))
    if images:
        turn.after.extend([text_part(RESULT_IMAGES), *images])
    turn.after.extend(inner.after)


def from_url(url: Any) -> ImagePart | TextPart:
    """The image in a data URL; a note if it would have to be fetched."""
    if not isinstance(url, str):
        return text_part(unread_image_note("it has no address"))
    head = _DATA_URL.match(url)
    if head is None:
        return text_part(linked_image_note(url))
    if ";base64" not in head[2].lower():
        return text_part(unread_image_note("its data URL is not base64"))
    return from_base64(head[1], url[head.end() :])


def from_source(source: Any) -> ImagePart | TextPart:
    """The image in Anthropic's `source` object."""
    if not isinstance(source, Mapping):
        return text_part(unread_image_note("it has no source"))
    match source.get("type"):
        case "base64":
            return from_base64(source.get("media_type"), source.get("data"))
        case "url":
            return from_url(source.get("url"))
    return text_part(unknown_block_note(source))


def from_base64(media_type: Any, data: Any) -> ImagePart | TextPart:
    """The image, with its size if its header has it; a note if providers would not accept it."""
    kind = str(media_type).lower().replace("image/jpg", "image/jpeg")
    if kind not in MEDIA_TYPES:
        return text_part(unread_image_note(f"media type {str(media_type)[:100]}"))
    packed = _WHITE_SPACE.sub("", data) if isinstance(data, str) else ""
    try:
        raw = base64.b64decode(packed, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if not raw:
        return text_part(unread_image_note(f"{kind}, data that is not base64"))
    return image_part(kind, packed, image_size(raw))
