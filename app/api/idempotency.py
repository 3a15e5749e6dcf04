"""A POST that is repeated with its `Idempotency-Key` creates nothing twice: it gets the answer to the first one.
Webhooks have their own way, in `runtime/services/webhooks.py`, since their secret is answered once."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import anyio
import structlog
from fastapi import Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.auth import caller_of, header_values
from app.api.errors import problem_response
from app.api.guard import TARGET
from app.errors import InvalidRequestError, PalimpsestError, StorageError, ValidationFailedError
from app.runtime.services.idempotency import Answer, IdempotencyService

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
MAX_KEY_CHARS = 255
KEPT_HEADERS = ("content-type", "location", "session-id")
EVENT_STREAM = "text/event-stream"

_MADE_ID = "palimpsest.made_id"
"""Scope key of the id for what the request creates."""
_OWN = re.compile(r"/v1/(login|webhooks)")
"""Routes that keep nothing, or do so themselves: the answer to a new webhook has its secret."""
_SESSION = re.compile(r"/v1/sessions/([^/]+)")
_BOUNDARY = re.compile(r'boundary="?([^";]+)"?', re.IGNORECASE)

log = structlog.get_logger(__name__)


def applies(method: str, path: str) -> bool:
    """Whether a route takes the header here."""
    return method.upper() == "POST" and path.startswith("/v1/") and _OWN.fullmatch(path) is None


def made_id(scope: Scope) -> str | None:
    """The id for what the request creates, if its body names none."""
    found: str | None = scope.get(_MADE_ID)
    return found


class Idempotency:
    """ASGI middleware, behind the guard."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not applies(scope["method"], scope["path"]):
            await self.app(scope, receive, send)
            return
        keys = header_values(scope, HEADER.lower().encode())
        services = scope["app"].state.services
        if not keys or services is None:
            await self.app(scope, receive, send)
            return
        try:
            digest = _key_digest(scope, keys)
            if header_values(scope, TARGET.encode()):
                # The node that forwards a request keeps its answer.
                scope[_MADE_ID] = await services.idempotency.made_id(digest)
                await self.app(scope, receive, send)
                return
            first = await services.idempotency.begin(digest)
            body = _Body(scope, receive)
            if isinstance(first, Answer):
                await body.drain()
                if body.digest != first.body_digest:
                    detail = "The Idempotency-Key was used with another body."
                    raise InvalidRequestError(detail, code="idempotency_key_reused")
        except PalimpsestError as error:
            await problem_response(error, scope["path"])(scope, receive, send)
            return
        if isinstance(first, Answer):
            await self._repeat(first, scope, receive, send)
            return
        scope[_MADE_ID] = first
        answering = _Answering(services.idempotency, digest, body, scope["path"], send)
        try:
            await self.app(scope, body.receive, answering.send)
        finally:
            with anyio.CancelScope(shield=True):
                await answering.close()

    async def _repeat(self, answer: Answer, scope: Scope, receive: Receive, send: Send) -> None:
        if not answer.headers.get("content-type", "").startswith(EVENT_STREAM):
            headers = {**answer.headers, REPLAYED: "true"}
            await Response(answer.body, answer.status, headers)(scope, receive, send)
            return
        # A stream is not kept: the session's events are read again, from the first one.
        path = f"/v1/sessions/{answer.headers['session-id']}/events"
        again = {**scope, "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"until=idle"}

        async def replayed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update({**answer.headers, REPLAYED: "true"})
            await send(message)

        await self.app(again, receive, replayed)


def _key_digest(scope: Scope, keys: list[bytes]) -> str:
    """A digest of caller, path and key, so that no caller gets the answer to another one's request."""
    if len(keys) > 1 or not 0 < len(keys[0]) <= MAX_KEY_CHARS:
        message = f"Must be sent once, with 1 to {MAX_KEY_CHARS} characters"
        errors = [{"field": HEADER, "message": message}]
        raise ValidationFailedError(f"The request is not valid: {HEADER}: {message.lower()}.", errors=errors)
    text = b"\0".join([(caller_of(scope) or "").encode(), scope["path"].encode(), keys[0]])
    return hashlib.sha256(text).hexdigest()


class _Body:
    """The request's body, digested as it is received: not its boundary, which may differ in each attempt."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        self._digest = hashlib.sha256()
        found = _BOUNDARY.search(Headers(scope=scope).get("content-type", ""))
        self._boundary = found[1].encode() if found else b""
        self._rest = b""
        self._has_more = True

    @property
    def digest(self) -> str:
        whole = self._digest.copy()
        whole.update(self._rest)
        return whole.hexdigest()

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._add(message.get("body", b""))
            self._has_more = message.get("more_body", False)
        else:
            self._has_more = False
        return message

    def _add(self, data: bytes) -> None:
        if not self._boundary:
            self._digest.update(data)
            return
        *parts, last = (self._rest + data).split(self._boundary)
        for part in parts:
            self._digest.update(part)
        # Its end may be the beginning of a boundary.
        kept = len(self._boundary) - 1
        self._digest.update(last[:-kept] if kept else last)
        self._rest = last[-kept:] if kept else b""

    async def drain(self) -> None:
        """Reads what the route has not read."""
        while self._has_more:
            await self.receive()


class _Answering:
    """Sends an answer. Before its end is sent, it is stored if it is a success; otherwise the key can be used again."""

    def __init__(self, service: IdempotencyService, digest: str, body: _Body, path: str, send: Send) -> None:
        self._service = service
        self._digest = digest
        self._request = body
        self._path = path
        self._send = send
        self._status = 0
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._has_ended = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = Headers(raw=message["headers"])
            self._headers = {name: headers[name] for name in KEPT_HEADERS if name in headers}
            if self._is_stream:
                await self._end()
        elif not self._is_stream:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._end()
        await self._send(message)

    @property
    def _is_stream(self) -> bool:
        return self._headers.get("content-type", "").startswith(EVENT_STREAM)

    async def _end(self) -> None:
        if self._status < 300:
            await self._store()
        await self.close()

    async def _store(self) -> None:
        await self._request.drain()
        found = _SESSION.match(self._headers.get("location", self._path))
        session_id = found[1] if found else None
        given = Answer(self._request.digest, session_id, self._status, self._headers, bytes(self._body))
        try:
            await self._service.answer(self._digest, given)
            self._has_ended = True
        except StorageError as error:
            log.warning("answer_not_stored", path=self._path, error=error.detail)

    async def close(self) -> None:
        """Lets the request be carried out again unless its answer is stored."""
        if self._has_ended:
            return
        try:
            await self._service.release(self._digest)
        except StorageError as error:
            log.warning("idempotency_key_not_released", path=self._path, error=error.detail)
        self._has_ended = True


def describe(operation: dict[str, Any]) -> None:
    """Adds the header to an operation of the OpenAPI document."""
    schema = {"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARS}
    text = (
        "Makes retries safe for 24 hours: a request that repeats the key and the body gets the answer to the first one."
    )
    parameter = {"name": HEADER, "in": "header", "required": False, "schema": schema, "description": text}
    operation.setdefault("parameters", []).append(parameter)
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            replayed = {"description": f"`true` in the answer to a repeated `{HEADER}`.", "schema": {"type": "string"}}
            response.setdefault("headers", {})[REPLAYED] = replayed
