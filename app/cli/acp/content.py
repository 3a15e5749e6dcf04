"""Prompts of an editor as content of a message."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from acp.helpers import ContentBlock
from acp.schema import (
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from app.cli.screen import UsageError


def content_of(prompt: Sequence[ContentBlock], folder: Path) -> list[dict[str, Any]]:
    """The parts of a message. Files of the folder are named by their paths in the workspace. Raises `UsageError`."""
    return [_part(block, folder) for block in prompt]


def _part(block: ContentBlock, folder: Path) -> dict[str, Any]:
    match block:
        case TextContentBlock():
            return _text(block.text)
        case ImageContentBlock():
            return {"type": "image", "media_type": block.mime_type, "data": block.data}
        case ResourceContentBlock():
            return _text(f"[{block.name}]({_place(block.uri, folder)})")
        case EmbeddedResourceContentBlock(resource=TextResourceContents() as resource):
            return _text(f"{_place(resource.uri, folder)}:\n\n{resource.text}")
        case EmbeddedResourceContentBlock():
            return _text(f"[{_place(block.resource.uri, folder)}: a binary file]")
        case _:
            raise UsageError(f"A prompt cannot have content of the type {block.type}.", code="unsupported_content")


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _place(uri: str, folder: Path) -> str:
    """The path in the workspace of a file in the folder, else the URI."""
    parsed = urlsplit(uri)
    path = Path(unquote(parsed.path))
    if parsed.scheme != "file" or not path.is_relative_to(folder):
        return uri
    lines = f"#{parsed.fragment}" if parsed.fragment else ""
    return f"{path.relative_to(folder)}{lines}"
