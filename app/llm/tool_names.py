"""Names of tools as models and servers garble them, and where calls have their arguments."""

from __future__ import annotations

import re

NAMELESS = "unknown"
"""The name of a call without one, so that the model gets an error as its result."""
ARGUMENTS = ("arguments", "parameters", "input")
"""The keys under which a call's arguments are found."""
_MARK = re.compile(r"<\|[^|<>]*\|>")
_RECIPIENT = re.compile(r"\bto=([\w.:-]+)")
_PREFIX = re.compile(r"^(?:functions?|tools?|default_api|multi_tool_use)[.:/]+(?=\w)")
_ORDINAL = re.compile(r"(?<=\w):\d+$")


def clean_name(name: str) -> str:
    """The name without what a chat template left around it: `functions.NAME`, `NAME<|channel|>commentary` and
    `commentary to=functions.NAME` (gpt-oss), `functions.NAME:0` (Kimi). No name that is offered to a model contains
    such characters."""
    if name.isidentifier():
        return name
    named = _RECIPIENT.search(name)
    parts = (part.strip(" \t\r\n\"'`") for part in (_MARK.split(name) if named is None else [named[1]]))
    found = next(filter(None, parts), "")
    return _ORDINAL.sub("", _PREFIX.sub("", found)) or NAMELESS
