"""API keys: who may call."""

from __future__ import annotations

import hmac

from app.api.errors import UnauthorizedError

OPEN_PATHS = frozenset({"/", "/healthz", "/readyz"})
"""Reachable without a key: the page that asks for one, and the probes."""

OPEN_PREFIX = "/static/"


def needs_key(path: str) -> bool:
    return path not in OPEN_PATHS and not path.startswith(OPEN_PREFIX)


def check_key(authorization: list[bytes], keys: tuple[bytes, ...]) -> None:
    """Raises `UnauthorizedError` unless there is one `Authorization: Bearer KEY` with one of `keys`.

    Every key is compared, in time that does not depend on where they differ.
    """
    given = _bearer(authorization)
    matches = [hmac.compare_digest(key, given) for key in keys]
    if not given or not any(matches):
        raise UnauthorizedError("Send one of the server's API keys as Authorization: Bearer KEY.")


def _bearer(authorization: list[bytes]) -> bytes:
    """The key of the only `Authorization` header; empty where there is none or more than one."""
    if len(authorization) != 1:
        return b""
    scheme, _, key = authorization[0].partition(b" ")
    return key.strip() if scheme.lower() == b"bearer" else b""
