"""Who may call: whoever sends an API key, or the cookie of a login."""

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
"""Reachable without a key: the page that asks for one, the place where it is given, and the probes."""

OPEN_PREFIX = "/static/"


def needs_key(path: str) -> bool:
    return path not in OPEN_PATHS and not path.startswith(OPEN_PREFIX)


LOOK_S = 2.0
"""How often a stream that a login opened looks whether that still holds, in seconds."""

_LOGGED_IN = "palimpsest.logged_in"
"""Key of the scope under which a stream finds the question whether its login still holds."""


async def check_caller(scope: Scope, keys: tuple[bytes, ...]) -> None:
    """Raises `UnauthorizedError` unless the request has one of `keys` or the cookie of a login, and `UnavailableError`
    for a cookie while nobody can tell. The cookie counts beside a header that is no key: a proxy may want a password of
    its own there."""
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
    """Whether it was the cookie that let the request in."""
    return _LOGGED_IN in scope


def while_logged_in(scope: Scope, receive: Receive) -> Receive:
    """`receive`, which tells of a reader that has left when the login that let it in has ended: a stream may last for
    days, and only its beginning was guarded."""
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
    """Whether there is one `Authorization: Bearer KEY` with one of `keys`.

    Every key is compared, in time that does not depend on where they differ.
    """
    given = _bearer(authorization)
    matches = [hmac.compare_digest(key, given) for key in keys]
    return bool(given) and any(matches)


def _bearer(authorization: list[bytes]) -> bytes:
    """The key of the only `Authorization` header; empty where there is none or more than one."""
    if len(authorization) != 1:
        return b""
    scheme, _, key = authorization[0].partition(b" ")
    return key.strip() if scheme.lower() == b"bearer" else b""
