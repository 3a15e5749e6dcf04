"""Compact JSON bytes, for values that are kept in memory."""

from __future__ import annotations

import sys
import tracemalloc

import orjson

from app.json_bytes import json_to_keep


def test_kept_json_takes_no_more_memory_than_its_bytes() -> None:
    value = {"text": "Grüße 🦶" * 20}
    tracemalloc.start()
    try:
        kept = [json_to_keep(value) for _ in range(100)]
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept[0] == orjson.dumps(value)
    assert taken < 1.2 * sum(map(sys.getsizeof, kept)) + sys.getsizeof(kept)
