"""Fields of requests: accepted values and error texts."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from app.messages import clean_text

MAX_CONTENT_CHARS = 1_000_000
"""Maximum length of a message; a JSON body over 1 MiB is refused anyway."""

MAX_NUMBER = 2**53 - 1
"""Largest number in a request: read exactly by every JSON implementation, and well within the database's 64 bits."""

_CLIENT_ID = r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"


def _clean(value: Any) -> Any:
    return clean_text(value) if isinstance(value, str) else value


def _number(value: Any) -> Any:
    """JSON has one kind of number, so 50.0 is 50; but `true` and "50" are not numbers."""
    if isinstance(value, bool | str):
        raise PydanticCustomError("number_type", "Input should be a number")
    return value


def _not_blank(text: str) -> str:
    """No provider accepts a message of only whitespace, so the model would never see it."""
    if not text.strip():
        raise PydanticCustomError("blank", "Input should contain more than whitespace")
    return text


def _uuid7(text: str) -> str:
    if not re.fullmatch(_CLIENT_ID, text):
        raise PydanticCustomError("uuid7", "Input should be a UUIDv7 in lower case")
    return text


JsonNumber = BeforeValidator(_number)
"""Must come last, after the bounds, which are only in the schema if they are next to the type."""

Text = Annotated[str, BeforeValidator(_clean)]

ModelName = Annotated[str, BeforeValidator(_clean), StringConstraints(min_length=1, max_length=300)]

Content = Annotated[
    str,
    BeforeValidator(_clean),
    StringConstraints(min_length=1, max_length=MAX_CONTENT_CHARS),
    AfterValidator(_not_blank),
    Field(json_schema_extra={"pattern": r"\S"}),
]

Title = Annotated[str, BeforeValidator(_clean), StringConstraints(min_length=1, max_length=300)]

ClientId = Annotated[
    str,
    AfterValidator(_uuid7),
    Field(
        description="A UUIDv7 chosen by the client, which makes retries safe.",
        json_schema_extra={"pattern": _CLIENT_ID},
    ),
]
