"""Which values of `traceparent` name a trace."""

from __future__ import annotations

import pytest

from app.api.trace_context import read_traceparent

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
VALID = f"00-{TRACE}-{PARENT}-01"


@pytest.mark.parametrize("value", [VALID, f" {VALID}\t", f"cc-{TRACE}-{PARENT}-01", f"cc-{TRACE}-{PARENT}-01-more"])
def test_a_valid_one_is_read_as_version_00(value: str) -> None:
    assert read_traceparent([value]) == VALID


@pytest.mark.parametrize(
    "values",
    [
        [],
        [""],
        [VALID, VALID],
        [f"{VALID}, {VALID}"],
        [VALID.upper()],
        [VALID[:-1]],
        [f"{VALID}0"],
        [f"{VALID}-more"],
        [f"cc-{TRACE}-{PARENT}-01x"],
        [f"ff-{TRACE}-{PARENT}-01"],
        [f"00-{'0' * 32}-{PARENT}-01"],
        [f"00-{TRACE}-{'0' * 16}-01"],
        [f"00-{TRACE}-{PARENT}-0\n"],
    ],
)
def test_an_invalid_one_is_ignored(values: list[str]) -> None:
    assert read_traceparent(values) is None
