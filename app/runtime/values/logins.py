"""Logins of browsers: the request and the result."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated

from pydantic import Field, StringConstraints

from app.messages import Value
from app.runtime.values.fields import Text

MAX_KEY_CHARS = 1_000


class LoginCreate(Value):
    """A login with one of the server's API keys."""

    key: Annotated[
        Text,
        StringConstraints(min_length=1, max_length=MAX_KEY_CHARS),
        Field(
            repr=False,
            description="One of the server's API keys.",
            json_schema_extra={"format": "password", "writeOnly": True},
        ),
    ]


@dataclass(frozen=True, slots=True)
class NewLogin:
    """A new login: its token, and how long it is valid."""

    token: str = field(repr=False)
    lasts: timedelta
