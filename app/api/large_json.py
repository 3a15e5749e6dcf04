"""Large JSON responses, encoded in a thread item by item, so that no other request waits for one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import Response
from pydantic import BaseModel
from pydantic_core import to_json


def json_response(value: BaseModel) -> Response:
    """The value as a response. Call it in a thread; other threads run between the items of a sequence."""
    fields = type(value).model_fields
    pieces = (b'"%s":%s' % (name.encode(), b"".join(_pieces(getattr(value, name)))) for name in fields)
    return Response(b"{" + b",".join(pieces) + b"}", media_type="application/json")


def _pieces(value: Any) -> Iterator[bytes]:
    if not isinstance(value, tuple):
        yield to_json(value)
        return
    yield b"["
    yield b",".join(map(to_json, value))
    yield b"]"
