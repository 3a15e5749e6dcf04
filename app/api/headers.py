"""Raw request headers."""

from __future__ import annotations

from starlette.types import Scope


def header_values(scope: Scope, name: bytes) -> list[bytes]:
    """All values of a header; `name` is lower case."""
    return [value for key, value in scope["headers"] if key.lower() == name]
