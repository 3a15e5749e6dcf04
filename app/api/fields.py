"""Turns validation errors into messages for clients, without the submitted values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

MAX_FIELD_ERRORS = 20
MAX_TEXT_CHARS = 200

PydanticError = Mapping[str, Any]
"""One error from pydantic: `type`, `loc`, `msg`, `input`, `ctx`."""


def field_errors(errors: Iterable[PydanticError]) -> list[dict[str, str]]:
    """The first errors as `{field, message}`, at most `MAX_FIELD_ERRORS`."""
    return [
        {"field": field_name(error["loc"]), "message": sentence(error)[:MAX_TEXT_CHARS]}
        for _, error in zip(range(MAX_FIELD_ERRORS), errors, strict=False)
    ]


def field_name(loc: Iterable[Any]) -> str:
    """`("body", "limits", "max_steps")` is `limits.max_steps`; the body as a whole is `body`."""
    names = [str(item) for item in loc]
    return ".".join(names[1:] or names)[:MAX_TEXT_CHARS]


def sentence(error: PydanticError) -> str:
    """What the field should be, without knowledge of the server's internals."""
    ours = SENTENCES.get(error["type"])
    return ours(error) if ours else str(error["msg"])


def in_prose(message: str) -> str:
    """The sentence as it continues after a colon."""
    return message[:1].lower() + message[1:]


def _is(text: str) -> Callable[[PydanticError], str]:
    return lambda error: text


def _at(bound: str, limit: str) -> Callable[[PydanticError], str]:
    """A message about length: characters for a text, items for anything else."""

    def words(error: PydanticError) -> str:
        count: int = error["ctx"][limit]
        unit = "character" if isinstance(error["input"], str) else "item"
        return f"Input should have at {bound} {count:,} {unit}{'' if count == 1 else 's'}"

    return words


_OBJECT = _is("Input should be an object")
_TOO_SHORT = _at("least", "min_length")
_TOO_LONG = _at("most", "max_length")

SENTENCES: Mapping[str, Callable[[PydanticError], str]] = {
    "bool_type": _is("Input should be true or false"),
    "dict_type": _OBJECT,
    "extra_forbidden": _is("Unknown field"),
    "int_parsing_size": _is("The number is too large"),
    "list_type": _is("Input should be an array"),
    "model_attributes_type": _OBJECT,
    "model_type": _OBJECT,
    "string_too_long": _TOO_LONG,
    "string_too_short": _TOO_SHORT,
    "string_type": _is("Input should be a string"),
    "too_long": _TOO_LONG,
    "too_short": _TOO_SHORT,
}
"""Replacements for messages of pydantic that mention Python or pydantic's internals."""
