"""Fields that requests are made of: what each takes, and what it says where it does not."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from app.messages import clean_text

MAX_CONTENT_CHARS = 1_000_000
"""Longest message; a JSON body is refused over 1 MiB anyway."""

MAX_NUMBER = 2**53 - 1
"""Largest number in a request: what every JSON implementation reads exactly, and well within the database's 64 bits."""

_CLIENT_ID = r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"


def _clean(value: Any) -> Any:
    return clean_text(value) if isinstance(value, str) else value


def _number(value: Any) -> Any:
    """JSON knows one kind of number, so 50.0 is 50; but true is no number, and neither is "50"."""
    if isinstance(value, bool | str):
        raise PydanticCustomError("number_type", "Input should be a number")
    return value


def _not_blank(text: str) -> str:
    """No provider takes a message of white space alone, so the model would never see it."""
    if not text.strip():
        raise PydanticCustomError("blank", "There should be more than white space")
    return text


def _uuid7(text: str) -> str:
    if not re.fullmatch(_CLIENT_ID, text):
        raise PydanticCustomError("uuid7", "Input should be a UUIDv7 in lower case")
    return text


JsonNumber = BeforeValidator(_number)
"""Comes last, after the bounds: they are in the schema only where they stand next to the type."""

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
        description="A UUIDv7 of the client's own: sending it again makes a retry safe.",
        json_schema_extra={"pattern": _CLIENT_ID},
    ),
]
