"""What the API is configured with, and the guard before all routes: host, origin, key and body size, in this order."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.archive_bodies import MULTIPART
from app.api.auth import (
    LOGIN_PATH,
    HostPort,
    check_caller,
    header_values,
    host_is_ours,
    is_logged_in,
    is_loopback,
    needs_key,
    origin_is_ours,
    parse_allowed,
    parse_host,
)
from app.api.errors import ForeignOriginError, WrongHostError, problem_response
from app.api.request_bodies import ARCHIVES, IMAGES_CHARS, MAX_HELD_BYTES, Bodies, Body, too_large
from app.errors import ForbiddenError, MalformedRequestError, PalimpsestError

PROBES = frozenset({"/healthz", "/readyz"})
"""Called by machines that know only the server's address; they reveal nothing sensitive."""
TARGET = "palimpsest-node"
"""Header of a forwarded request: the node that it is meant for. That node answers the request itself, whatever it
knows."""
PRIVATE = (
    ("Cache-Control", "no-store"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("X-Content-Type-Options", "nosniff"),
)
LOGIN_BYTES = 8 * 1024
"""Max body of a login, which unauthenticated clients send: 4,096 connections hold at most 32 MB."""
_UPLOAD = re.compile(r"/v1/sessions/[^/]+/files/.*", re.DOTALL)
_ARCHIVE = re.compile(r"/v1/sessions/[^/]+/archive")
_QUEUE = re.compile(r"/v1/sessions/[^/]+/queue(/[^/]+)?")
PARTS_BYTES = 64 * 1024
"""What the headers of a body's parts may have in addition to the parts."""

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class GuardRules:
    """Which requests pass. Sizes are bytes of a request's body; without `keys`, no key is required."""

    keys: tuple[bytes, ...]
    allowed_hosts: frozenset[HostPort]
    max_json_bytes: int
    max_history_bytes: int
    max_upload_bytes: int
    max_archive_bytes: int


class Guard:
    """ASGI middleware that answers requests that its rules refuse with a problem document."""

    def __init__(self, app: ASGIApp, rules: GuardRules) -> None:
        self.app = app
        self.rules = rules
        self.bodies = Bodies(
            max(MAX_HELD_BYTES, rules.max_history_bytes, rules.max_upload_bytes),
            most_on_disk=ARCHIVES * (rules.max_archive_bytes + _more_parts(rules)),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] != "http":
            await self.app(scope, receive, send)
        else:
            await self._guarded(scope, receive, send)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await check(scope, self.rules)
        except PalimpsestError as error:
            await problem_response(error, scope["path"])(scope, receive, send)
            return
        answer = kept_private(send) if is_logged_in(scope) else send
        limit = body_limit(scope, self.rules)
        body = Body(self.bodies, receive, limit, is_kept=not has_archive(scope))
        if scope["method"] in ("POST", "PUT") and header_values(scope, TARGET.encode()):
            answer = after_body(answer, body)
        try:
            await self.app(scope, body.receive, answer)
        finally:
            body.release()


async def check(scope: Scope, rules: GuardRules) -> None:
    """Raises the first error in the request's headers."""
    path: str = scope["path"]
    if any(b"websocket" in value.lower() for value in header_values(scope, b"upgrade")):
        raise ForbiddenError("WebSockets are not supported.")
    if path not in PROBES:
        check_site(scope, rules.allowed_hosts)
    if rules.keys and needs_key(path):
        await check_caller(scope, rules.keys)
    check_length(scope, body_limit(scope, rules))


def check_site(scope: Scope, allowed: frozenset[HostPort]) -> None:
    """Raises `WrongHostError` or `ForeignOriginError`."""
    hosts = header_values(scope, b"host")
    host = parse_host(hosts[0].decode("latin-1")) if len(hosts) == 1 else None
    if host is None or not host_is_ours(host, allowed):
        raise WrongHostError("The Host header is neither loopback nor a host in PALIMPSEST_ALLOWED_HOSTS.")
    for origin in header_values(scope, b"origin"):
        if not origin_is_ours(origin.decode("latin-1"), scope.get("scheme", "http"), host, allowed):
            raise ForeignOriginError("The Origin header names another site.")
    if any(value.strip().lower() == b"cross-site" for value in header_values(scope, b"sec-fetch-site")):
        raise ForeignOriginError("A browser sent this request from another site.")


def check_length(scope: Scope, limit: int) -> None:
    """Raises `TooLargeError` for a declared length over `limit`, before the body is read."""
    for value in header_values(scope, b"content-length"):
        if not value.isdigit() or len(value) > 18:
            raise MalformedRequestError("The Content-Length header is invalid.")
        if int(value) > limit:
            raise too_large(limit)


def body_limit(scope: Scope, rules: GuardRules) -> int:
    """The largest body, in bytes, that the request's route takes."""
    if scope["path"] == LOGIN_PATH:
        return min(LOGIN_BYTES, rules.max_json_bytes)
    if scope["method"] == "PUT" and _UPLOAD.fullmatch(scope["path"]):
        return rules.max_upload_bytes
    if has_archive(scope):
        return rules.max_archive_bytes + (_more_parts(rules) if scope["method"] == "POST" else 0)
    if scope["method"] == "POST" and scope["path"] == "/v1/sessions":
        return rules.max_history_bytes
    if scope["method"] in ("POST", "PATCH") and _QUEUE.fullmatch(scope["path"]):
        return rules.max_json_bytes + IMAGES_CHARS
    return rules.max_json_bytes


def _more_parts(rules: GuardRules) -> int:
    """Bytes that a body may have in addition to the archive that is one of its parts."""
    return rules.max_json_bytes + IMAGES_CHARS + PARTS_BYTES


def has_archive(scope: Scope) -> bool:
    """Whether the body is an archive, or has one as a part."""
    if scope["method"] == "PUT":
        return _ARCHIVE.fullmatch(scope["path"]) is not None
    types = header_values(scope, b"content-type")
    parts = any(value.strip().lower().startswith(MULTIPART.encode()) for value in types)
    return parts and scope["method"] == "POST" and scope["path"] == "/v1/sessions"


def kept_private(send: Send) -> Send:
    """`send` for responses to cookie requests, which browsers send automatically: no cache may store them, and no page
    of another origin may read them."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in PRIVATE:
                headers.setdefault(name, value)
        await send(message)

    return sent


def after_body(send: Send, body: Body) -> Send:
    """`send` for requests that another node forwards. That node reads the answer only after it has sent everything, so
    an answer that comes earlier and ends the connection would be lost."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            await body.drain()
        await send(message)

    return sent


def no_metrics() -> bytes:
    """The default without metrics."""
    return b""


@dataclass(frozen=True, slots=True)
class ApiConfig:
    """Sizes are bytes, times are seconds unless the name says otherwise.

    Raises `ValueError` for a non-loopback address without a key, and for an invalid allowed host.
    """

    api_keys: tuple[str, ...] = field(default=(), repr=False)
    allowed_hosts: tuple[str, ...] = ()
    bind_host: str = "127.0.0.1"
    upload_max_bytes: int = 64 * MIB
    archive_max_bytes: int = 1024 * MIB
    max_json_bytes: int = MIB
    max_history_bytes: int = 64 * MIB
    ping_s: float = 5
    """Some proxies close streams that are silent for about 16 s."""
    retry_ms: int = 1000
    metrics: Callable[[], bytes] = no_metrics
    """Returns Prometheus text; called in a thread."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits between the comments of a quiet stream."""

    def __post_init__(self) -> None:
        parse_allowed(self.allowed_hosts)
        if not self.api_keys and not _binds_loopback(self.bind_host):
            raise ValueError(f"without an API key the server listens only on loopback, not on {self.bind_host}")

    @property
    def rules(self) -> GuardRules:
        return GuardRules(
            keys=tuple(key.encode() for key in self.api_keys),
            allowed_hosts=parse_allowed(self.allowed_hosts),
            max_json_bytes=self.max_json_bytes,
            max_history_bytes=max(self.max_history_bytes, self.max_json_bytes),
            max_upload_bytes=self.upload_max_bytes,
            max_archive_bytes=self.archive_max_bytes,
        )


def _binds_loopback(bind_host: str) -> bool:
    host = parse_host(f"[{bind_host}]" if ":" in bind_host else bind_host)
    return host is not None and is_loopback(host.name)
