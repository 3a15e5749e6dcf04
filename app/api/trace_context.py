"""The header `traceparent` of W3C Trace Context (https://www.w3.org/TR/trace-context/), with which a request names the
trace that it is part of."""

from __future__ import annotations

import re

_FORM = re.compile(r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<parent>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})")


def read_traceparent(values: list[str]) -> str | None:
    """The trace named by the headers of this name, in the form of version 00, which is 55 characters long. None, as the
    standard requires, for an invalid one and for several. A later version may add fields, which are left out."""
    if len(values) != 1 or (found := _FORM.match(values[0].strip())) is None:
        return None
    rest = values[0].strip()[found.end() :]
    version = found["version"]
    if version == "ff" or (rest and (version == "00" or not rest.startswith("-"))):
        return None
    if not found["trace"].strip("0") or not found["parent"].strip("0"):
        return None
    return f"00-{found['trace']}-{found['parent']}-{found['flags']}"
