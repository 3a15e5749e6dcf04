"""Images of foreign messages: from base64 and data URLs, checked so that no provider refuses them later."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from app.interchange import notes
from app.interchange.turns import image_part, text_part
from app.messages import ImagePart, TextPart

MEDIA_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The types that both providers accept."""

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)((?:;[^,;]*)*),", re.IGNORECASE)
_WHITE_SPACE = re.compile(r"\s+")
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers that begin a frame and give its size; the three others only share the range."""


def from_url(url: Any) -> ImagePart | TextPart:
    """The image in a data URL; a note if it would have to be fetched."""
    if not isinstance(url, str):
        return text_part(notes.unread_image("it has no address"))
    head = _DATA_URL.match(url)
    if head is None:
        return text_part(notes.linked_image(url))
    if ";base64" not in head[2].lower():
        return text_part(notes.unread_image("its data URL is not base64"))
    return from_base64(head[1], url[head.end() :])


def from_source(source: Any) -> ImagePart | TextPart:
    """The image in Anthropic's `source` object."""
    if not isinstance(source, Mapping):
        return text_part(notes.unread_image("it has no source"))
    match source.get("type"):
        case "base64":
            return from_base64(source.get("media_type"), source.get("data"))
        case "url":
            return from_url(source.get("url"))
    return text_part(notes.unknown_block(source))


def from_base64(media_type: Any, data: Any) -> ImagePart | TextPart:
    """The image, with its size if its header has it; a note if providers would not accept it."""
    kind = str(media_type).lower().replace("image/jpg", "image/jpeg")
    if kind not in MEDIA_TYPES:
        return text_part(notes.unread_image(f"media type {str(media_type)[:100]}"))
    packed = _WHITE_SPACE.sub("", data) if isinstance(data, str) else ""
    try:
        raw = base64.b64decode(packed, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if not raw:
        return text_part(notes.unread_image(f"{kind}, data that is not base64"))
    return image_part(kind, packed, image_size(raw))


def image_size(raw: bytes) -> tuple[int, int] | None:
    """Width and height in pixels from the file's header; None if it does not have them."""
    size: tuple[int, int] | None = None
    if raw[:8] == b"\x89PNG\r\n\x1a\n" and len(raw) >= 24:
        size = int.from_bytes(raw[16:20], "big"), int.from_bytes(raw[20:24], "big")
    elif raw[:6] in (b"GIF87a", b"GIF89a") and len(raw) >= 10:
        size = int.from_bytes(raw[6:8], "little"), int.from_bytes(raw[8:10], "little")
    elif raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
        size = _webp_size(raw)
    elif raw[:2] == b"\xff\xd8":
        size = _jpeg_size(raw)
    return size if size is not None and all(size) else None


def _webp_size(raw: bytes) -> tuple[int, int] | None:
    """The size of any of the three kinds of WebP: lossy, lossless, extended."""
    if len(raw) < 30:
        return None
    if raw[12:16] == b"VP8 ":
        return int.from_bytes(raw[26:28], "little") & 0x3FFF, int.from_bytes(raw[28:30], "little") & 0x3FFF
    if raw[12:16] == b"VP8L":
        bits = int.from_bytes(raw[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if raw[12:16] == b"VP8X":
        return int.from_bytes(raw[24:27], "little") + 1, int.from_bytes(raw[27:30], "little") + 1
    return None


def _jpeg_size(raw: bytes) -> tuple[int, int] | None:
    """Walks the segments up to the first frame."""
    place = 2
    while place + 9 <= len(raw) and raw[place] == 0xFF:
        if raw[place + 1] in _JPEG_FRAMES:
            return int.from_bytes(raw[place + 7 : place + 9], "big"), int.from_bytes(raw[place + 5 : place + 7], "big")
        place += 2 + max(2, int.from_bytes(raw[place + 2 : place + 4], "big"))
    return None
