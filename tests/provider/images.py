"""What all three endpoints refuse about images, each in its own sentences."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.provider.records import JSON, Refused, Wire
from tests.provider.settings import Settings

MAX_CHARS = 5 * 1024 * 1024
"""Anthropic's limit on the base64 of one image."""
MAX_IMAGES, MANY = 100, 20
"""Images in one request; with more than `MANY` of them, Anthropic takes none with a side above 2,000 pixels."""
SIGNATURES = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
_DATA_URL = re.compile(r"data:(image/[a-z]+);base64,(.*)", re.DOTALL)


class SentImage(NamedTuple):
    """An image of a request; the media type is empty for one that is no data URL."""

    where: str
    media_type: str
    data: str

    @property
    def raw(self) -> bytes:
        return base64.b64decode(self.data, validate=True)


def images_of(body: JSON) -> list[SentImage]:
    """All images of a request in any format."""
    return [*_found(body.get("messages", body.get("input")), "messages")]


def _found(value: Any, where: str) -> Iterator[SentImage]:
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from _found(item, f"{where}.{at}")
    if not isinstance(value, dict):
        return
    match value.get("type"):
        case "image" if isinstance(source := value.get("source"), dict):
            yield SentImage(where, str(source.get("media_type")), str(source.get("data")))
        case "image_url" if isinstance(address := value.get("image_url"), dict):
            yield _from_url(where, str(address.get("url")))
        case "input_image":
            yield _from_url(where, str(value.get("image_url")))
        case _:
            for name in ("content", "output"):
                yield from _found(value.get(name), f"{where}.{name}")


def _from_url(where: str, url: str) -> SentImage:
    found = _DATA_URL.fullmatch(url)
    return SentImage(where, found[1], found[2]) if found else SentImage(where, "", "")


def check_images(body: JSON, settings: Settings, wire: Wire) -> None:
    """Raises `Refused` for the first image that the model does not take."""
    found = images_of(body)
    if found and body.get("model") in settings.blind_models:
        raise _BLIND[wire]
    for image in found:
        if image.where in settings.broken_images or image.data in settings.broken_images:
            raise Refused("image", _UNPROCESSABLE[wire], code="invalid_image")
        if image.data or image.media_type:
            _check(image, wire)
    if wire != "anthropic":
        return
    if len(found) > MAX_IMAGES:
        raise Refused("image", f"messages: too many images and documents: {len(found)} + 0 > {MAX_IMAGES}")
    if len(found) > MANY and any(_longest(image) > 2_000 for image in found):
        sentence = "At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels"
        raise Refused("image", f"messages: {sentence}")


def _check(image: SentImage, wire: Wire) -> None:
    signature = SIGNATURES.get(image.media_type)
    if wire == "anthropic" and signature is None:
        values = ", ".join(f"'{name}'" for name in SIGNATURES)
        raise Refused("image", f"{image.where}.source.base64.media_type: Input should be {values}")
    if wire == "anthropic" and len(image.data) > MAX_CHARS:
        size = f"{len(image.data)} bytes > {MAX_CHARS} bytes"
        raise Refused("image", f"{image.where}.source.base64: image exceeds 5 MB maximum: {size}")
    try:
        raw = image.raw
    except ValueError:
        raise Refused("image", f"{image.where}: invalid base64 data") from None
    if signature is None or not raw.startswith(signature):
        if wire == "anthropic":
            message = f"{image.where}: Image does not match the provided media type {image.media_type}"
        else:
            formats = "['png', 'jpeg', 'gif', 'webp']"
            message = f"You uploaded an unsupported image. Please make sure your image is valid: {formats}."
        raise Refused("image", message, code="invalid_image_format")


def _longest(image: SentImage) -> int:
    """The longer side of a PNG; other formats count as small."""
    raw = image.raw
    return max(int.from_bytes(raw[16:20]), int.from_bytes(raw[20:24])) if raw.startswith(b"\x89PNG") else 0


_BLIND = {
    "openai": Refused(
        "blind", "Invalid content type. image_url is only supported by certain models.", "messages.[0].content.[0].type"
    ),
    "anthropic": Refused("blind", "this model does not support image input (ref: b8bd630e)"),
    "responses": Refused("blind", "Invalid 'input': this model does not support image inputs."),
}
_UNPROCESSABLE = {
    "openai": "The image data you provided does not represent a valid image. Please check your input and try again.",
    "anthropic": "Could not process image",
    "responses": "The image data you provided does not represent a valid image. Please check your input and try again.",
}
