"""Compact JSON bytes, for values that are kept in memory."""

from __future__ import annotations

from typing import Any

import orjson


def json_to_keep(value: Any) -> bytes:
    """A value as JSON in no more memory than its bytes. orjson's own result keeps the block that it was written to, of
    at least 4 KiB. Raises `orjson.JSONEncodeError`."""
    return bytes(memoryview(orjson.dumps(value)))
