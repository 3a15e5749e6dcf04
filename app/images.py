"""What is known about an image from its first bytes: its format and its size in pixels. Nothing is ever decoded, since
images are untrusted."""

from __future__ import annotations

import io

MEDIA_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The formats that all providers with vision read."""

MAX_IMAGE_BYTES = 5 * 1024 * 1024
"""Bytes of one image."""

MAX_IMAGES = 20
"""Images of one message, and of one context: with more in a request, Anthropic refuses those with a side above 2,000
pixels ("… max allowed size for many-image requests")."""

MAX_IMAGES_BYTES = 20 * 1024 * 1024
"""Bytes of all images of one message, and of one context. In base64 they are 27 MiB; Anthropic's requests have up to 32
MB, those of the other providers more."""

HEADER_BYTES = 1024 * 1024
"""Bytes that are searched for a size: in a JPEG, profiles and previews come before it. Reading the worst of these takes
0.2 seconds."""


def media_type_of(data: bytes) -> str | None:
    """The media type by the file's signature; None for anything but the four formats."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height in pixels, from the file's header; None if it is not an image or does not say."""
    if media_type_of(data) is None:
        # The library reads more formats than providers do, some of them with complete parsers.
        return None
    import imagesize  # it imports an XML parser

    try:
        width, height = imagesize.get(io.BytesIO(data[:HEADER_BYTES]))
    except (ValueError, OSError, LookupError, ArithmeticError):
        return None
    return (width, height) if width > 0 and height > 0 else None
