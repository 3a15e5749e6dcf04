"""The cookie of a login: what it is called, how it is read, set and cleared."""

from __future__ import annotations

from datetime import timedelta

from starlette.types import Scope

from app.api.headers import header_values
from app.api.hosts import parse_host

COOKIE = "palimpsest_login"
MOST_TOKENS = 4
"""Cookies of the name that are looked at; a browser sends several where they were set for several paths."""


def cookie_name(scope: Scope) -> str:
    """The cookie's name. Browsers keep one set of cookies for all ports of a host, so the port is in it: else two
    servers on one machine would end each other's logins."""
    host = parse_host(b"".join(header_values(scope, b"host")).decode("latin-1"))
    return COOKIE if host is None or host.port is None else f"{COOKIE}_{host.port}"


def login_tokens(scope: Scope) -> list[str]:
    """What the request shows of logins."""
    name = cookie_name(scope)
    pairs = [pair.strip() for value in header_values(scope, b"cookie") for pair in value.decode("latin-1").split(";")]
    return [pair[len(name) + 1 :] for pair in pairs if pair.startswith(f"{name}=")][:MOST_TOKENS]


def set_cookie(scope: Scope, token: str, lasts: timedelta) -> str:
    """The `Set-Cookie` of a login. Scripts cannot read it, and no other site can have it sent."""
    return f"{cookie_name(scope)}={token}; Max-Age={int(lasts.total_seconds())}; {_attributes(scope)}"


def clear_cookie(scope: Scope) -> str:
    """The `Set-Cookie` that has the browser forget it."""
    return f"{cookie_name(scope)}=; Max-Age=0; {_attributes(scope)}"


def _attributes(scope: Scope) -> str:
    return f"Path=/; HttpOnly; SameSite=Strict{'; Secure' if came_by_https(scope) else ''}"


def came_by_https(scope: Scope) -> bool:
    """Whether the browser speaks HTTPS, perhaps with a proxy before the server: either that says so, or the page's own
    address does, which browsers tell with every request that changes something."""
    origins = [origin.lower() for origin in header_values(scope, b"origin")]
    return scope.get("scheme") == "https" or any(origin.startswith(b"https://") for origin in origins)
