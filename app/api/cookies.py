"""The login cookie: its name, and how it is read, set and cleared."""

from __future__ import annotations

from datetime import timedelta

from starlette.types import Scope

from app.api.headers import header_values
from app.api.hosts import parse_host

COOKIE = "palimpsest_login"
MOST_TOKENS = 4
"""Max cookies of this name that are checked; a browser sends several if they were set for several paths."""


def cookie_name(scope: Scope) -> str:
    """The cookie's name. It includes the port because browsers share cookies between all ports of a host: otherwise two
    servers on one machine would overwrite each other's logins."""
    host = parse_host(b"".join(header_values(scope, b"host")).decode("latin-1"))
    return COOKIE if host is None or host.port is None else f"{COOKIE}_{host.port}"


def login_tokens(scope: Scope) -> list[str]:
    """The login tokens in the request's cookies."""
    name = cookie_name(scope)
    pairs = [pair.strip() for value in header_values(scope, b"cookie") for pair in value.decode("latin-1").split(";")]
    return [pair[len(name) + 1 :] for pair in pairs if pair.startswith(f"{name}=")][:MOST_TOKENS]


def set_cookie(scope: Scope, token: str, lasts: timedelta) -> str:
    """The `Set-Cookie` of a login. Scripts cannot read the cookie, and other sites cannot make a browser send it."""
    return f"{cookie_name(scope)}={token}; Max-Age={int(lasts.total_seconds())}; {_attributes(scope)}"


def clear_cookie(scope: Scope) -> str:
    """The `Set-Cookie` that deletes the cookie."""
    return f"{cookie_name(scope)}=; Max-Age=0; {_attributes(scope)}"


def _attributes(scope: Scope) -> str:
    return f"Path=/; HttpOnly; SameSite=Strict{'; Secure' if came_by_https(scope) else ''}"


def came_by_https(scope: Scope) -> bool:
    """Whether the browser uses HTTPS, perhaps through a proxy: from the request's scheme, or from the `Origin` header,
    which browsers send with every request that changes something."""
    origins = [origin.lower() for origin in header_values(scope, b"origin")]
    return scope.get("scheme") == "https" or any(origin.startswith(b"https://") for origin in origins)
