"""What a user may send as a message: a text, or parts with images and files of the workspace."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    TypeAdapter,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from app.messages import CleanText, Value

MAX_CONTENT_CHARS = 1_000_000
"""Maximum length of a message; a JSON body over 1 MiB is refused anyway, if it has no images."""
MAX_PARTS = 100
"""Maximum parts of a message."""
MAX_PATH_CHARS = 4_096


def _not_blank(text: str) -> str:
    """No provider accepts a message of only whitespace, so the model would never see it."""
    if not text.strip():
        raise PydanticCustomError("blank", "Input should contain more than whitespace")
    return text


Words = Annotated[
    CleanText,
    StringConstraints(min_length=1, max_length=MAX_CONTENT_CHARS),
    AfterValidator(_not_blank),
    Field(json_schema_extra={"pattern": r"\S"}),
]
Path = Annotated[
    CleanText,
    StringConstraints(min_length=1, max_length=MAX_PATH_CHARS),
    Field(description="A file of the workspace, read when the message is accepted.", examples=["docs/screen.png"]),
]
_DATA: list[JsonValue] = ["media_type", "data"]
_PATH: list[JsonValue] = ["path"]


class TextInput(Value):
    type: Literal["text"]
    text: Words


class ImageInput(Value):
    """An image, by its bytes or as a file of the workspace: at most 5 MiB, 20 images and 20 MiB in one message."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {
                    "required": names,
                    "properties": {
                        **{str(name): {"type": "string"} for name in names},
                        **{str(name): {"type": "null"} for name in others},
                    },
                }
                for names, others in ((_DATA, _PATH), (_PATH, _DATA))
            ]
        }
    )

    type: Literal["image"]
    media_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"] | None = None
    data: str | None = Field(
        default=None,
        description="The image, base64.",
        json_schema_extra={"contentEncoding": "base64"},
        examples=["iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="],
    )
    path: Path | None = None

    @model_validator(mode="after")
    def _one_form(self) -> ImageInput:
        if (self.path is None) == (self.media_type is None or self.data is None) or (
            self.path is not None and (self.media_type, self.data) != (None, None)
        ):
            raise PydanticCustomError("image_form", "Give either media_type and data, or path")
        return self


class FileInput(Value):
    """A file of the workspace, which is named to the model."""

    type: Literal["file"]
    path: Path


PartInput = Annotated[TextInput | ImageInput | FileInput, Field(discriminator="type")]
# Pydantic would also report too few parts wherever one is invalid.
Parts = Annotated[tuple[PartInput, ...], Field(max_length=MAX_PARTS, json_schema_extra={"minItems": 1})]


def _bounded(parts: tuple[PartInput, ...]) -> tuple[PartInput, ...]:
    if not parts:
        raise PydanticCustomError("no_parts", "Input should have at least 1 item")
    if sum(len(part.text) for part in parts if isinstance(part, TextInput)) > MAX_CONTENT_CHARS:
        raise PydanticCustomError("content_too_long", f"The texts should have at most {MAX_CONTENT_CHARS:,} characters")
    return parts


_WORDS: TypeAdapter[str] = TypeAdapter(Words)
_PARTS: TypeAdapter[tuple[PartInput, ...]] = TypeAdapter(Annotated[Parts, AfterValidator(_bounded)])


def _content(value: Any, _: ValidatorFunctionWrapHandler) -> str | tuple[PartInput, ...]:
    """A text or parts, depending on the input's type, so that errors never mention the other form."""
    if isinstance(value, list | tuple):
        return _PARTS.validate_python(value)
    return _WORDS.validate_python(value)


Content = Annotated[Words | Parts, WrapValidator(_content)]
