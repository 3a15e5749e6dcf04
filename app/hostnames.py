"""Names of hosts that a sandbox may reach, and patterns for them.

A name is kept as in DNS: lower case, with A-labels for non-ASCII characters. So two names that look alike are never
equal, and nothing that a program could take for an address is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import idna

MAX_NAME_CHARS = 253
"""Longest name in DNS, in text form (RFC 1035, 2.3.4)."""
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"(?:{_LABEL}\.)+{_LABEL}")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""A last label that makes programs read the whole as an IPv4 address (WHATWG URL, "ends in a number")."""


def host_name(text: str) -> str:
    """A full name of two labels or more. Raises `ValueError`, also for an address in any notation."""
    try:
        name = text.lower() if text.isascii() else idna.encode(text, uts46=True).decode()
    except idna.IDNAError as exc:
        raise ValueError(f"{text[:100]!r} is not a valid host name") from exc
    if len(name) > MAX_NAME_CHARS or not _NAME.fullmatch(name) or _NUMBER.fullmatch(name.rpartition(".")[2]):
        raise ValueError(f"{text[:100]!r} is not a full host name such as packages.example.com")
    return name


def host_pattern(text: str) -> str:
    """A name, or `*.` followed by a name for all names below it. Raises `ValueError`, also for all names below a
    top-level domain."""
    name = text.removeprefix("*.")
    try:
        return text[: len(text) - len(name)] + host_name(name)
    except ValueError as exc:
        raise ValueError(f"{text[:100]!r} is no host name such as packages.example.com or *.example.org") from exc


def covers(pattern: str, name: str) -> bool:
    """Whether a pattern matches a name, or everything another pattern matches."""
    return pattern == name or (pattern.startswith("*.") and name.endswith(pattern[1:]))


def is_covered(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns covers a name or a pattern."""
    return any(covers(pattern, name) for pattern in patterns)
