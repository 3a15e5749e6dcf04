"""Who may call, and from where: host names, origins, API keys and the cookie of a login."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from starlette.types import Message, Receive, Scope

from app.api.errors import UnauthorizedError
from app.errors import UnavailableError
from app.runtime.services import LoginService, Services, key_id

LOGIN_PATH = "/v1/login"
OPEN_PATHS = frozenset({"/", "/docs", "/healthz", "/readyz", LOGIN_PATH})
"""Reachable without a key: the page that asks for one, the page of the documentation, the login, and the probes."""
OPEN_PREFIX = "/static/"

COOKIE = "palimpsest_login"
MOST_TOKENS = 4
"""Max cookies of this name that are checked; a browser sends several if they were set for several paths."""

DEFAULT_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?)(?::(?P<port>[0-9]{1,5}))?")
_ORIGIN = re.compile(r"(?P<scheme>https?)://(?P<host>[^/?#@\s]+)", re.IGNORECASE)


def needs_key(path: str) -> bool:
    return path not in OPEN_PATHS and not path.startswith(OPEN_PREFIX)


LOOK_S = 2.0
"""How often a stream opened with a login checks that the login is still valid, in seconds."""
_LOGGED_IN = "palimpsest.logged_in"
"""Scope key of the function that checks whether the request's login is still valid."""
_KEY = "palimpsest.key"
"""Scope key of the `key_id` of the key that authenticated the request."""


async def check_caller(scope: Scope, keys: tuple[bytes, ...]) -> None:
    """Raises `UnauthorizedError` unless the request has one of `keys` or the cookie of a login, and `UnavailableError`
    if a cookie cannot be checked yet. The cookie is checked even if an `Authorization` header has no valid key: the
    header may hold a proxy's password."""
    own = matching_key(header_values(scope, b"authorization"), keys)
    if own is not None:
        scope[_KEY] = key_id(own)
        return
    for token in login_tokens(scope):
        logins = _logins(scope)
        if (key := await logins.key_of(token)) is not None:
            scope[_KEY] = key
            scope[_LOGGED_IN] = partial(logins.is_open, token)
            return
    raise UnauthorizedError("Send one of the server's API keys as Authorization: Bearer KEY, or log in.")


def _logins(scope: Scope) -> LoginService:
    services: Services | None = scope["app"].state.services
    if services is None:
        raise UnavailableError("The server is starting or stopping.")
    return services.logins


def caller_of(scope: Scope) -> str | None:
    """The `key_id` of the key that authenticated the request, None if no key was needed."""
    key: str | None = scope.get(_KEY)
    return key


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


def matching_key(authorization: list[bytes], keys: tuple[bytes, ...]) -> bytes | None:
    """The one of `keys` in the only `Authorization` header, `Bearer KEY`; None without one. All are compared in
    constant time."""
    given = _bearer(authorization)
    matching = [key for key in keys if hmac.compare_digest(key, given)]
    return matching[0] if given and matching else None


def _bearer(authorization: list[bytes]) -> bytes:
    """The key of the only `Authorization` header; empty if there is not exactly one."""
    if len(authorization) != 1:
        return b""
    scheme, _, key = authorization[0].partition(b" ")
    return key.strip() if scheme.lower() == b"bearer" else b""


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


@dataclass(frozen=True, slots=True)
class HostPort:
    """A host from a header: lower case, IPv6 addresses in their shortest form without brackets."""

    name: str
    port: int | None


def parse_host(value: str) -> HostPort | None:
    """`name`, `name:port`, `1.2.3.4:port` or `[v6]:port`; None for anything else."""
    match = _HOST.fullmatch(value.lower())
    if match is None:
        return None
    name, port = match["name"], match["port"]
    if port is not None and not 0 < int(port) < 65536:
        return None
    if name.startswith("["):
        try:
            name = str(ipaddress.IPv6Address(name[1:-1]))
        except ValueError:
            return None
    return HostPort(name, int(port) if port else None)


def is_loopback(name: str) -> bool:
    """Whether `name` is `localhost`, a full address in 127.0.0.0/8, or `::1`."""
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        return address == ipaddress.IPv6Address("::1")
    return address.is_loopback


def parse_allowed(entries: tuple[str, ...]) -> frozenset[HostPort]:
    """The operator's host names. Raises `ValueError` for an entry that is not `host` or `host:port`."""
    hosts = set()
    for entry in entries:
        host = parse_host(f"[{entry}]" if entry.count(":") > 1 and not entry.startswith("[") else entry)
        if host is None:
            raise ValueError(f"not a host name: {entry!r}")
        hosts.add(host)
    return frozenset(hosts)


def host_is_ours(host: HostPort | None, allowed: frozenset[HostPort]) -> bool:
    """Whether a `Host` is loopback, on any port, or allowed; an allowed name without a port covers all ports."""
    if host is None:
        return False
    return is_loopback(host.name) or host in allowed or HostPort(host.name, None) in allowed


def origin_is_ours(origin: str, scheme: str, host: HostPort, allowed: frozenset[HostPort]) -> bool:
    """Whether an `Origin` is the server's own (`scheme` and the request's `Host`) or that of an allowed host."""
    match = _ORIGIN.fullmatch(origin)
    if match is None:
        return False
    origin_scheme = match["scheme"].lower()
    parsed = parse_host(match["host"])
    if parsed is None:
        return False
    if origin_scheme == scheme and _with_port(parsed, scheme) == _with_port(host, scheme):
        return True
    return bool({parsed, _with_port(parsed, origin_scheme), HostPort(parsed.name, None)} & allowed)


def _with_port(host: HostPort, scheme: str) -> HostPort:
    return HostPort(host.name, host.port or DEFAULT_PORTS.get(scheme))


def header_values(scope: Scope, name: bytes) -> list[bytes]:
    """All values of a header; `name` is lower case."""
    return [value for key, value in scope["headers"] if key.lower() == name]
