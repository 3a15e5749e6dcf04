"""User content on its way into a session: when the message is accepted, images are checked and get digests, and paths
are read once. The result is the parts of a message."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pydantic import TypeAdapter

from app.context.clipping import image_label, one_line
from app.context.tokens import PER_MESSAGE, estimate_part, estimate_text, image_tokens
from app.db.repositories.images import StoredImage
from app.errors import ForbiddenError, InvalidRequestError, NotFoundError, TooLargeError
from app.images import MAX_IMAGE_BYTES, MAX_IMAGES, MAX_IMAGES_BYTES, image_size, media_type_of
from app.llm.base import ModelInfo
from app.messages import (
    ContentPart,
    FileContent,
    ImageContent,
    ImagePart,
    Part,
    StoredContent,
    TextContent,
    TextPart,
    new_id,
)
from app.runtime.values.content import FileInput, ImageInput, PartInput, TextInput
from app.sandbox import paths

Content = str | tuple[PartInput, ...]
ReadFile = Callable[[str, int], Awaitable[bytes]]
"""A file of the session's workspace by its path, of at most that many bytes. Raises what `Sandbox.read` does."""

TITLE_CHARS = 80
"""Maximum characters of a task's first line used as the title."""

_STORED: TypeAdapter[tuple[ContentPart, ...]] = TypeAdapter(tuple[ContentPart, ...])
_WIDEST, _HIGHEST = 1_568, 765
"""An image of the largest size, in place of one that has not been read."""


@dataclass(frozen=True, slots=True)
class TakenContent:
    """Checked content: `parts` is None for a text alone, and `text` has the labels of images and files otherwise.
    `images` are those that have to be stored, by digest."""

    text: str
    parts: tuple[ContentPart, ...] | None = None
    images: Mapping[str, StoredImage] = field(default_factory=dict)

    @property
    def stored(self) -> StoredContent:
        """As it is shown."""
        return self.text if self.parts is None else self.parts

    @property
    def columns(self) -> list[dict[str, Any]] | None:
        """The parts as JSON values, for the database."""
        return None if self.parts is None else [part.model_dump(exclude_none=True) for part in self.parts]

    @property
    def image_bytes(self) -> int:
        """Bytes of all images, those that occur twice counted twice."""
        return sum(part.bytes for part in self.parts or () if isinstance(part, ImageContent))

    @property
    def text_tokens(self) -> int:
        """Estimated tokens of the message with texts instead of images."""
        return PER_MESSAGE + estimate_text(self.text)

    def tokens(self, model: ModelInfo) -> int:
        """Estimated tokens of the message for a model."""
        if self.parts is None or model.sees_images is False:
            return self.text_tokens
        parts = message_parts(self.stored)
        return PER_MESSAGE + sum(
            image_tokens(part, model.name) if isinstance(part, ImagePart) else part.tokens for part in parts
        )


def stored_content(text: str, parts: Sequence[Any] | None) -> TakenContent:
    """Content from its columns; its images are stored."""
    return TakenContent(text, None if parts is None else _STORED.validate_python(parts))


def names_files(content: Content | None) -> bool:
    """Whether taking the content reads files of the workspace."""
    return not isinstance(content, str | None) and any(getattr(part, "path", None) is not None for part in content)


def awaited(path: str, most: int) -> bytes:
    """In place of a file that a clone may bring: nothing, which is enough where only its presence matters. Raises
    `InvalidRequestError` (code `path_not_ready`) for an image."""
    if most:
        detail = "is in a repository that has not been cloned yet; send its data, or name it as a file"
        raise InvalidRequestError(f"The image {paths.show(path)} {detail}.", code="path_not_ready")
    return b""


def unread(content: Content) -> TakenContent:
    """Content whose files cannot be read yet, with images as large as any; only for checks."""
    if isinstance(content, str):
        return TakenContent(content)
    return _taken([_unread(part) for part in content], {})


def _unread(part: PartInput) -> ContentPart:
    if not isinstance(part, ImageInput):
        return TextContent(text=part.text) if isinstance(part, TextInput) else FileContent(path=part.path)
    kind = part.media_type or "image/png"
    return ImageContent(media_type=kind, digest="", bytes=0, width=_WIDEST, height=_HIGHEST, path=part.path)


async def take(content: Content, read: ReadFile) -> TakenContent:
    """Checks content and reads what its paths name. Raises `InvalidRequestError` with the index of the part: code
    `invalid_image_data`, `image_type_mismatch`, `image_too_large`, `too_many_images`, `images_too_large`,
    `path_outside_workspace`, `path_not_found`, `path_not_a_file`, or `path_not_ready` from `read`."""
    if isinstance(content, str):
        return TakenContent(content)
    count = sum(isinstance(part, ImageInput) for part in content)
    if count > MAX_IMAGES:
        raise InvalidRequestError(
            f"A message may have at most {MAX_IMAGES} images, not {count}.", code="too_many_images"
        )
    images: dict[str, StoredImage] = {}
    parts = [await _take_part(index, part, read, images) for index, part in enumerate(content)]
    taken = _taken(parts, images)
    if taken.image_bytes > MAX_IMAGES_BYTES:
        detail = (
            f"The images of a message may have at most {MAX_IMAGES_BYTES:,} bytes in total, not {taken.image_bytes:,}."
        )
        raise InvalidRequestError(detail, code="images_too_large")
    return taken


async def _take_part(index: int, part: PartInput, read: ReadFile, images: dict[str, StoredImage]) -> ContentPart:
    match part:
        case TextInput():
            return TextContent(text=part.text)
        case FileInput():
            # Only whether it is there: the model reads as much of it as it needs.
            await _read(index, part.path, read, 0)
            return FileContent(path=_inside(index, part.path))
    if part.path is not None:
        data = await _read(index, part.path, read, MAX_IMAGE_BYTES)
        path = _inside(index, part.path)
    else:
        data, path = await asyncio.to_thread(_decoded, index, part.data or ""), None
    made = await asyncio.to_thread(_checked, index, part, data, path)
    images[made.digest] = StoredImage(made.media_type, data)
    return made


def _decoded(index: int, data: str) -> bytes:
    if len(data) > 4 * (MAX_IMAGE_BYTES // 3 + 1):
        _refuse_size(index)
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        _refuse(index, "data is not base64 (RFC 4648, without line breaks or a data: prefix)", "invalid_image_data")


def _checked(index: int, part: ImageInput, data: bytes, path: str | None) -> ImageContent:
    if len(data) > MAX_IMAGE_BYTES:
        _refuse_size(index)
    kind = media_type_of(data)
    if kind is None or (part.media_type is not None and part.media_type != kind):
        what = "not a PNG, JPEG, GIF or WebP" if kind is None else f"{kind}, not {part.media_type}"
        _refuse(index, f"by its first bytes, the image is {what}", "image_type_mismatch")
    width, height = image_size(data) or (None, None)
    digest = hashlib.sha256(data).hexdigest()
    return ImageContent(media_type=kind, digest=digest, bytes=len(data), width=width, height=height, path=path)


def _refuse(index: int, why: str, code: str) -> NoReturn:
    raise InvalidRequestError(f"Part {index} of the content: {why.rstrip('.')}.", code=code, part=index)


def _refuse_size(index: int) -> NoReturn:
    _refuse(index, f"an image may have at most {MAX_IMAGE_BYTES:,} bytes", "image_too_large")


def _inside(index: int, path: str) -> str:
    """The path relative to the workspace."""
    try:
        return "/".join(paths.resolve(path))
    except ForbiddenError as error:
        _refuse(index, error.detail, "path_outside_workspace")


async def _read(index: int, path: str, read: ReadFile, most: int) -> bytes:
    """A file's bytes; with `most` 0 only whether it is a file, and empty bytes."""
    _inside(index, path)
    try:
        return await read(path, most)
    except TooLargeError:
        if most:
            _refuse_size(index)
        return b""
    except ForbiddenError as error:
        _refuse(index, error.detail, "path_outside_workspace")
    except NotFoundError as error:
        _refuse(index, error.detail, "path_not_found")
    except InvalidRequestError as error:
        if error.code == "path_not_ready":
            raise
        _refuse(index, error.detail, "path_not_a_file")


def _taken(parts: Sequence[ContentPart], images: Mapping[str, StoredImage]) -> TakenContent:
    return TakenContent("\n".join(map(_text_form, parts)), tuple(parts), images)


def _text_form(part: ContentPart) -> str:
    match part:
        case TextContent():
            return part.text
        case ImageContent():
            return image_label(part)
    return f"[file in the workspace: {one_line(part.path, 1_000)}]"


def message_parts(content: StoredContent) -> tuple[Part, ...]:
    """The parts of the message, counted. Adjacent texts and names of files become one part."""
    if isinstance(content, str):
        return (TextPart(id=new_id(), index=0, text=content, tokens=estimate_text(content)),)
    return tuple(_numbered(_joined(content)))


def _joined(content: Sequence[ContentPart]) -> Iterator[ContentPart]:
    """The parts with adjacent texts joined, each on its own lines, since a message is also read as one text."""
    lines: list[str] = []
    for part in content:
        if not isinstance(part, ImageContent):
            lines.append(_text_form(part))
            continue
        if lines:
            yield TextContent(text="\n".join(lines) + "\n")
            lines = []
        yield part
    if lines:
        yield TextContent(text="\n".join(lines))


def _numbered(content: Iterator[ContentPart]) -> Iterator[Part]:
    for index, part in enumerate(content):
        if isinstance(part, ImageContent):
            image = ImagePart.of(part, id=new_id(), index=index)
            yield image.model_copy(update={"tokens": estimate_part(image)})
        else:
            text = _text_form(part)
            yield TextPart(id=new_id(), index=index, text=text, tokens=estimate_text(text))


def task_fields(task: TakenContent | None, title: str | None) -> dict[str, Any]:
    """The columns of a new session that come from its task."""
    text = None if task is None else task.text
    return {
        "title": title or _title(text),
        "task": text,
        "task_parts": None if task is None else task.columns,
    }


def _title(task: str | None) -> str | None:
    line = next((line.strip() for line in (task or "").splitlines() if line.strip()), None)
    return line if line is None or len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1] + "…"
