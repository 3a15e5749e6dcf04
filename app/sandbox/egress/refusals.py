"""Connections that the proxy refused, and how a command's result reports them."""

from __future__ import annotations

MAX_HOSTS = 10
"""Maximum refused hosts in one result; a model needs no more to understand."""
_MAX_HOST_CHARS = 100


class RefusedError(Exception):
    """The proxy refuses a connection. `reason` says why, for the model; `host` is the refused host if it is not the one
    in the request."""

    def __init__(self, reason: str, host: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.host = host


class Refusals:
    """The refusals of one command, each host once, at most `MAX_HOSTS` of them."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}
        self._more = False

    def add(self, host: str, reason: str) -> None:
        host = printable(host)
        if host in self._reasons:
            return
        if len(self._reasons) == MAX_HOSTS:
            self._more = True
            return
        self._reasons[host] = reason

    def described(self) -> tuple[str, ...]:
        """A sentence for each host."""
        sentences = tuple(f"{host} was refused: {reason}" for host, reason in self._reasons.items())
        return (*sentences, "further hosts were refused") if self._more else sentences


def printable(host: str) -> str:
    """A host as written by a program in the sandbox, short and without control characters."""
    shown = "".join(char if char.isascii() and char.isprintable() else "?" for char in host)
    return shown if len(shown) <= _MAX_HOST_CHARS else f"{shown[:_MAX_HOST_CHARS]}..."
