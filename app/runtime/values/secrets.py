"""The secrets of a session, as they are set; their values are never shown."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr
from pydantic_core import PydanticCustomError

from app.messages import Timestamp, Value, clean_text
from app.tools.masking import MIN_CHARS

MAX_SECRETS = 32
"""Secrets of a session."""
MAX_CHARS = 16_384
NAME_PATTERN = r"^[A-Z_][A-Z0-9_]{0,99}$"
_RESERVED = re.compile(
    "(?:BASH|DYLD|GLIBC|LD|MALLOC|PALIMPSEST|RESOLV)_.*|(?:ALL|HTTP|HTTPS|NO)_PROXY|_"
    "|ENV|GCONV_PATH|GETCONF_DIR|HOME|HOSTALIASES|IFS|LANG|LOCALDOMAIN|LOCPATH|NLSPATH|PATH|PWD|RES_OPTIONS|TERM|TMPDIR"
    "|TZDIR|USER"
)
"""Variables of the shell, the sandbox and the loader: a program that drops the sandbox's privileges has them too. Those
of the loader are the ones that glibc keeps from privileged programs."""


def _name(text: str) -> str:
    if not re.fullmatch(NAME_PATTERN, text):
        raise PydanticCustomError("secret_name", "A secret's name should have capitals, digits and underscores only")
    if _RESERVED.fullmatch(text):
        raise PydanticCustomError("secret_name", "A secret's name should not be a reserved variable")
    return text


def _storable(value: SecretStr) -> SecretStr:
    """What an environment variable can have. The message must not repeat the value."""
    text = value.get_secret_value()
    if not MIN_CHARS <= len(text) <= MAX_CHARS:
        raise PydanticCustomError("secret_length", f"A secret should have {MIN_CHARS} to {MAX_CHARS:,} characters")
    if clean_text(text) != text:
        raise PydanticCustomError("secret_value", "A secret should not contain NUL or lone surrogates")
    return value


SecretName = Annotated[str, AfterValidator(_name), Field(max_length=100, json_schema_extra={"pattern": NAME_PATTERN})]
SecretValue = Annotated[
    SecretStr,
    AfterValidator(_storable),
    Field(json_schema_extra={"minLength": MIN_CHARS, "maxLength": MAX_CHARS}),
]


def _named(secrets: dict[str, SecretStr]) -> dict[str, SecretStr]:
    for name in secrets:
        _name(name)
    return secrets


NamedSecrets = Annotated[
    dict[str, SecretValue],
    Field(max_length=MAX_SECRETS, json_schema_extra={"propertyNames": {"pattern": NAME_PATTERN}}),
    AfterValidator(_named),
]
"""Names are checked after the values, so that an error is reported for the field once."""


class SecretPut(Value):
    """`PUT /v1/sessions/{id}/secrets/{name}`."""

    value: SecretValue


class SecretInfo(Value):
    name: str
    created_at: Timestamp
    updated_at: Timestamp


class SecretList(Value):
    """Names and times; no request returns a value."""

    items: tuple[SecretInfo, ...]
