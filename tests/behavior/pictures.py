"""Images for tests: real ones, as small as possible, in any number."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any


def png(width: int = 1, height: int = 1, seed: int = 0, padding: int = 0) -> bytes:
    """A PNG whose header says this size; another `seed` gives other bytes, `padding` more of them."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"\0" + bytes([seed % 256, seed // 256 % 256, 0]))
    body = chunk(b"tEXt", b"Comment\0" + bytes([97]) * padding) if padding else b""
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + body + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def image(data: bytes, media_type: str = "image/png") -> dict[str, Any]:
    """A part with the image's bytes."""
    return {"type": "image", "media_type": media_type, "data": base64.b64encode(data).decode()}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08\x00\x09\x00\x07\x03\xff\xd9"
GIF = b"GIF89a\x07\x00\x09\x00\x00\x00\x00;"
WEBP = b"RIFF\x1a\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x08\x00\x00"
