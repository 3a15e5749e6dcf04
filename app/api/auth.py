"""Authentication: by API key, or by the cookie of a login."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from functools import partial

from starlette.types import Message, Receive, Scope

from app.api.cookies import login_tokens
from app.api.errors import UnauthorizedError
from app.api.headers import header_values
from app.errors import UnavailableError
from app.runtime.services import LoginService, Services

LOGIN_PATH = "/v1/login"
OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", LOGIN_PATH})
"""Reachable without a key: the page that asks for one, the login, and the probes."""

OPEN_PREFIX = "/static/"


def needs_key(path: str) -> bool:
    return path not in OPEN_PATHS and not path.startswith(OPEN_PREFIX)


LOOK_S = 2.0
"""How often a stream opened with a login checks that the login is still valid, in seconds."""

_LOGGED_IN = "palimpsest.logged_in"
"""Scope key of the function that checks whether the request's login is still valid."""


async def check_caller(scope: Scope, keys: tuple[bytes, ...]) -> None:
    """Raises `UnauthorizedError` unless the request has one of `keys` or the cookie of a login, and `UnavailableError`
    if a cookie cannot be checked yet. The cookie is checked even if an `Authorization` header has no valid key: the
    header may hold a proxy's password."""
    if has_key(header_values(scope, b"authorization"), keys):
        return
    for token in login_tokens(scope):
        logins = _logins(scope)
        if await logins.is_open(token):
            scope[_LOGGED_IN] = partial(logins.is_open, token)
            return
    raise UnauthorizedError("Send one of the server's API keys as Authorization: Bearer KEY, or log in.")


def _logins(scope: Scope) -> LoginService:
    services: Services | None = scope["app"].state.services
    if services is None:
        raise UnavailableError("The server is starting or stopping.")
    return services.logins


def is_logged_in(scope: Scope) -> bool:
    """Whether the request was authenticated by the cookie."""
    return _LOGGED_IN in scope


def while_logged_in(scope: Scope, receive: Receive) -> Receive:
    """`receive` that reports a disconnect when the request's login has ended: a stream may last for days, and only its
    start was authenticated."""
    holds: Callable[[], Awaitable[bool]] | None = scope.get(_LOGGED_IN)
    if holds is None:
        return receive

    async def received() -> Message:
        while True:
            try:
                async with asyncio.timeout(LOOK_S):
                    return await receive()
            except TimeoutError:
                if not await holds():
                    return {"type": "http.disconnect"}

    return received


def has_key(authorization: list[bytes], keys: tuple[bytes, ...]) -> bool:
    """Whether the only `Authorization` header is `Bearer KEY` with one of `keys`. All are compared in constant time."""
    given = _bearer(authorization)
    matches = [hmac.compare_digest(key, given) for key in keys]
    return bool(given) and any(matches)


def _bearer(authorization: list[bytes]) -> bytes:
    """The key of the only `Authorization` header; empty if there is not exactly one."""
    if len(authorization) != 1:
        return b""
    scheme, _, key = authorization[0].partition(b" ")
    return key.strip() if scheme.lower() == b"bearer" else b""
