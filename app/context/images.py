"""Images in a context: what stands for one that is not sent, how many fit into a request, and which are cleared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from app.context.clipping import image_label, image_name, image_placeholder
from app.context.content import replaced
from app.images import MAX_IMAGES, MAX_IMAGES_BYTES
from app.messages import ImagePart, Message, Part

CLEARED_TO = 0.5
"""Share of the maximum number of images, and of their maximum bytes, that stays when some are cleared: each clearing
costs the provider's cache, so it makes room for several steps."""


def missing_digests(messages: Iterable[Message]) -> set[str]:
    """The digests of the images whose data is stored elsewhere."""
    return {_digest(part) for message in messages for part in message.parts if _is_reference(part)}


def _is_reference(part: Part) -> bool:
    return isinstance(part, ImagePart) and part.data is None


def with_data(message: Message, loaded: Mapping[str, str]) -> Message:
    """The message with the data of its images, by digest, the same object if nothing is missing."""
    if not any(map(_is_reference, message.parts)):
        return message
    missing = {part.id for part in message.parts if _is_reference(part) and _digest(part) not in loaded}
    sent = replaced(
        message, lambda image: f"{image_label(image)[:-1]}, no longer stored]" if image.id in missing else None
    )
    parts = [_loaded(part, loaded) for part in sent.parts]
    return sent.model_copy(update={"parts": tuple(parts)})


def _loaded(part: Part, loaded: Mapping[str, str]) -> Part:
    return part.model_copy(update={"data": loaded[_digest(part)]}) if _is_reference(part) else part


def _digest(part: Part) -> str:
    return (part.digest if isinstance(part, ImagePart) else None) or ""


def unseen(message: Message) -> Message:
    """The message for a model that cannot see images."""
    return replaced(message, lambda image: f"[{image_name(image)}: left out, since this model cannot see images]")


def without(message: Message, ids: AbstractSet[str]) -> Message:
    """The message without these images, each with a text that is constant, so that the provider's cache still
    matches."""
    if not ids:
        return message
    return replaced(message, lambda image: image_placeholder(message, image) if image.id in ids else None)


def excess(images: Sequence[ImagePart], newest: Message | None) -> tuple[str, ...]:
    """The ids of the images that have to be cleared from a context with these, oldest first; none while they are few
    and small enough for a request. Those of its `newest` message stay longest: it may have as many as a request."""
    total = sum(map(image_bytes, images))
    if len(images) <= MAX_IMAGES and total <= MAX_IMAGES_BYTES:
        return ()
    own = {part.id for part in newest.parts} if newest is not None else set()
    count, gone = len(images), []
    for image in images:
        fits = count <= MAX_IMAGES and total <= MAX_IMAGES_BYTES
        roomy = count <= MAX_IMAGES * CLEARED_TO and total <= MAX_IMAGES_BYTES * CLEARED_TO
        if roomy or (fits and image.id in own):
            break
        gone.append(image.id)
        count -= 1
        total -= image_bytes(image)
    return tuple(gone)


def image_bytes(image: ImagePart) -> int:
    """Bytes of an image; one that came with an imported history has only its base64."""
    return image.bytes or len(image.data or "") * 3 // 4
