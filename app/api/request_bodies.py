"""Request bodies: limits on the size and speed of each and on their total, and strict JSON except for what the
contract says is repaired."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import IO, Any, NoReturn

import orjson
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.types import Message, Receive

from app.api.archive_bodies import MULTIPART, has_parts, parts
from app.api.errors import MalformedJsonError, UnsupportedMediaTypeError
from app.api.large_history import divided
from app.errors import MalformedRequestError, ServerBusyError, TooLargeError
from app.images import MAX_IMAGES, MAX_IMAGES_BYTES
from app.json_bounds import JsonBounds, JsonBoundsError
from app.messages import Value, clean_text
from app.raw_messages import RawMessages

MAX_HELD_BYTES = 96 * 1024 * 1024
"""Total for all bodies; raised only if a single body may be larger."""
ARCHIVES = 4
"""Archives of the largest size that may be on the disk at the same time, until they are unpacked; any number of small
ones."""
MAX_DISK_BYTES = ARCHIVES * 1024 * 1024 * 1024
GRACE_S = 30.0
"""Seconds that a client may keep the server waiting for a body, in addition to the time that it takes at `PACE`."""
DRAIN_S = 60.0
"""Seconds for reading the rest of a body that is not needed."""
PACE = 16 * 1024
"""Minimum speed of a client in bytes per second, low enough for a slow connection."""

AT_ONCE_BYTES = 64 * 1024
"""Largest body parsed on the event loop, in about a millisecond; larger ones are parsed in a thread."""
MAX_FIELD_VALUES = 10_000
"""Names and values in a body without the messages of its history, and names in any of its objects. The largest metadata
have 8,200. The validator makes an error of each that is invalid, 3 µs on the event loop."""
IMAGES_CHARS = 4 * (MAX_IMAGES_BYTES // 3 + MAX_IMAGES)
"""Characters of all images of a message, in base64, which a body may have in addition to `max_json_bytes`."""
LARGE_BODY_S = 60
"""Seconds in which a body larger than `max_json_bytes` must arrive, since other large bodies wait for it."""
_MAY_BE_LARGE = frozenset({"history", "task", "content"})
"""The members of a body that may be larger than `max_json_bytes`, within `_check_fields`."""
_UNCLEAN = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")


class Bodies:
    """What all request bodies hold, in bytes of memory or, with an archive, of temporary files."""

    def __init__(
        self, most: int = MAX_HELD_BYTES, grace_s: float = GRACE_S, most_on_disk: int = MAX_DISK_BYTES
    ) -> None:
        self.most = most
        self.most_on_disk = most_on_disk
        self.grace_s = grace_s
        self.held = 0
        self.on_disk = 0

    def count(self, size: int, *, is_kept: bool) -> None:
        if is_kept:
            self.held += size
        else:
            self.on_disk += size

    def check(self, *, is_kept: bool) -> None:
        """Raises `ServerBusyError` (`too_many_bodies`) if there is too much of it."""
        if is_kept and self.held > self.most:
            raise ServerBusyError("The memory for request bodies is in use by other requests.", code="too_many_bodies")
        if not is_kept and self.on_disk > self.most_on_disk:
            raise ServerBusyError("The disk for archives is in use by other requests.", code="too_many_bodies")


class Body:
    """The body of one request, from its first byte until `release`."""

    def __init__(self, bodies: Bodies, receive: Receive, limit: int, *, is_kept: bool = True) -> None:
        """`is_kept` is false for a body that its route moves to a file piece by piece."""
        self._is_kept = is_kept
        self._bodies = bodies
        self._receive = receive
        self._limit = limit
        self._taken = 0
        self._patience_s = bodies.grace_s
        self._complete = False

    async def receive(self) -> Message:
        """The client's next message. Raises `TooLargeError`, `ServerBusyError` (`too_many_bodies`), and
        `MalformedRequestError` for a body that does not arrive in time."""
        if self._complete:
            return await self._receive()
        message = await self._in_time()
        self._complete = not message.get("more_body", False)
        self._take(len(message.get("body", b"")))
        return message

    async def drain(self) -> None:
        """Reads the rest and discards it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                while not self._complete:
                    # `more_body` is missing too if the client has disconnected.
                    self._complete = not (await self._receive()).get("more_body", False)

    def release(self) -> None:
        """Frees the body's memory after the response."""
        self._bodies.count(-self._taken, is_kept=self._is_kept)
        self._taken = 0

    async def _in_time(self) -> Message:
        """Counts only the time that the server waits for the client, not the client's wait for its turn."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(self._patience_s):
                return await self._receive()
        except TimeoutError:
            raise MalformedRequestError("The body did not arrive in time.") from None
        finally:
            self._patience_s -= loop.time() - began

    def _take(self, size: int) -> None:
        self._taken += size
        self._patience_s += size / PACE
        self._bodies.count(size, is_kept=self._is_kept)
        if self._taken > self._limit:
            raise too_large(self._limit)
        if size:
            self._bodies.check(is_kept=self._is_kept)


def too_large(limit: int, what: str = "The body") -> TooLargeError:
    return TooLargeError(f"{what} is larger than {limit} bytes.", limit_bytes=limit)


class JsonRequest(Request):
    """A request whose body was parsed by `parse_json`; only the parsed value is kept."""

    parsed: Any = None
    has_body = False
    archive: IO[bytes] | None = None
    """The file next to the JSON, in a body with several parts."""

    async def body(self) -> bytes:
        return b"{}" if self.has_body else b""

    async def json(self) -> Any:
        return self.parsed


class JsonRoute(APIRoute):
    """A route whose body, if it has one, must be `application/json`.

    Raises `UnsupportedMediaTypeError`, `MalformedJsonError` and `TooLargeError` before any other check.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        described = (self.openapi_extra or {}).get("requestBody")
        takes_none = self.body_field is None
        if takes_none and (described or self.methods != {"POST"}):
            return handle
        takes_parts = MULTIPART in (described or {}).get("content", {})

        async def checked(request: Request) -> Response:
            read = read_parts if takes_parts and has_parts(request) else read_json
            async with AsyncExitStack() as turn:
                received = await read(request, turn)
                if takes_none and received.has_body:
                    _check_empty(received.parsed)
                return await handle(received)

        return checked


class NoFields(Value):
    """The body of a request without content."""


def _check_empty(parsed: Any) -> None:
    """Raises `RequestValidationError` unless a body is an object without fields."""
    try:
        NoFields.model_validate(parsed)
    except ValidationError as error:
        raise RequestValidationError([{**each, "loc": ("body", *each["loc"])} for each in error.errors()]) from None


async def read_json(request: Request, turn: AsyncExitStack) -> JsonRequest:
    """The request with its body read and parsed. An empty body stays empty: the route decides whether it needs one.
    Only one large body is in memory at a time, until `turn` exits."""
    read = JsonRequest(request.scope, request.receive)
    limit: int = request.app.state.config.max_json_bytes
    bounds, body = JsonBounds(), bytearray()
    try:
        async with asyncio.timeout(None) as deadline:
            async for piece in read.stream():
                if piece and not body:
                    _check_type(request)
                bounds.feed(piece)
                if len(body) <= limit < len(body) + len(piece):
                    await turn.enter_async_context(request.app.state.large_bodies)
                    deadline.reschedule(asyncio.get_running_loop().time() + LARGE_BODY_S)
                body += piece
    except JsonBoundsError as error:
        raise MalformedJsonError(f"The body {error}.") from None
    except TimeoutError:
        raise MalformedRequestError(f"The body did not arrive within {LARGE_BODY_S} seconds.") from None
    read.has_body, large = bool(body), len(body) > limit
    if large and not any(name in body for name in (b'"history"', b'"image"')):
        raise too_large(limit)
    if len(body) > AT_ONCE_BYTES:
        # One at a time: each computing thread can delay the event loop by 5 ms (the GIL's switch interval).
        async with request.app.state.parsing:
            read.parsed = await asyncio.to_thread(_parse_bounded, body, limit)
    elif bounds.values > MAX_FIELD_VALUES:
        read.parsed = _parse_bounded(body, limit)
    elif body:
        read.parsed = parse_json(body)
    if large and not (isinstance(read.parsed, dict) and read.parsed.keys() & _MAY_BE_LARGE):
        raise too_large(limit)
    return read


async def read_parts(request: Request, turn: AsyncExitStack) -> JsonRequest:
    """Like `read_json`, for a body with the JSON and an archive, which is closed when `turn` exits."""
    limit: int = request.app.state.config.max_json_bytes
    body, archive = await turn.enter_async_context(parts(request, limit, limit + IMAGES_CHARS, turn))
    headers = [(name, value) for name, value in request.scope["headers"] if name != b"content-type"]
    scope = {**request.scope, "headers": [*headers, (b"content-type", b"application/json")]}
    read = JsonRequest(scope, request.receive)
    read.has_body, read.archive = True, archive
    bounds = JsonBounds()
    try:
        bounds.feed(bytes(body))
    except JsonBoundsError as error:
        raise MalformedJsonError(f"The part session {error}.") from None
    if len(body) > AT_ONCE_BYTES:
        async with request.app.state.parsing:
            read.parsed = await asyncio.to_thread(_parse_bounded, body, limit)
    else:
        read.parsed = _parse_bounded(body, limit)
    return read


def _check_type(request: Request) -> None:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise UnsupportedMediaTypeError("The body requires Content-Type: application/json.")


def _parse_bounded(body: bytearray, limit: int) -> Any:
    """Like `parse_json`, but also limits the body outside the messages of its history. Raises `TooLargeError`
    or `MalformedJsonError`."""
    # Only where there may be a history: searching images for one takes seconds.
    divides = len(body) > limit and b'"history"' in body
    value = divided(body, parse_json, partial(parse_json, again=True)) if divides else None
    if value is None:
        value = parse_json(body)
    history = value.get("history") if isinstance(value, dict) else None
    messages = history.get("messages") if isinstance(history, dict) else None
    _check_fields(value, messages if isinstance(messages, list | RawMessages) else None, limit)
    return value


def _check_fields(body: Any, messages: list[Any] | RawMessages | None, limit: int) -> None:
    """Limits a body without its `messages`: the number of names and values, the bytes of its texts to `limit`, and
    those of images to `IMAGES_CHARS`."""
    waiting, count, size, images = [body], 0, 0, 0
    while waiting:
        value = waiting.pop()
        if value is messages is not None:
            continue
        count += 1
        if isinstance(value, dict):
            if value.get("type") == "image" and isinstance(data := value.get("data"), str):
                images += len(data)
                value = {**value, "data": None}
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str):
            size += len(value) if len(value) > limit else len(orjson.dumps(value))
        if size > limit:
            raise too_large(limit, "The body without images and the messages of its history")
        if images > IMAGES_CHARS:
            raise too_large(IMAGES_CHARS, "The images, in base64,")
        if count + len(waiting) > MAX_FIELD_VALUES + 1:
            raise MalformedJsonError(
                f"The body has more than {MAX_FIELD_VALUES:,} names and values outside the messages of a history."
            )


def parse_json(body: bytearray, *, again: bool = False) -> Any:
    """The JSON value of `body`, with NUL and lone surrogates as U+FFFD. Raises `MalformedJsonError` for anything but
    JSON in UTF-8, and for duplicate names in an object. Empties a body larger than 64 KiB, to save memory.
    One that is read `again` has no duplicate names."""
    unclean = _UNCLEAN.search(body) is not None
    if len(body) > AT_ONCE_BYTES:
        value = _parse_in_turns(body)
    else:
        try:
            value = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            if not unclean:
                raise MalformedJsonError(f"The body is not valid JSON: {error}.") from None
            value = _parse_in_turns(body)
        else:
            if not again and body.count(b":") > 1:
                _check_names(body)
    return _cleaned(value) if unclean else value


def _parse_in_turns(body: bytearray) -> Any:
    """Parses with the standard library, whose callbacks for each object and number let other threads run; orjson blocks
    them until it is done. It also accepts lone surrogates; its other extensions to JSON are refused."""
    try:
        text = body.decode("utf-8")
        body.clear()
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_int=_int_or_float,
            parse_float=_finite,
        )
    except json.JSONDecodeError as error:
        raise MalformedJsonError(f"The body is not valid JSON: {error}.") from None
    except (ValueError, RecursionError):
        raise MalformedJsonError("The body is not valid JSON.") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _refuse_repeated(pairs)
    return dict(pairs)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _int_or_float(text: str) -> int | float:
    """As orjson does: an integer if it fits 64 bits, signed or unsigned, else a float."""
    value = int(text) if len(text) <= 20 else 2**64
    return value if -(2**63) <= value < 2**64 else _finite(text)


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("number out of range")
    return value


def _check_names(body: bytearray) -> None:
    """Refuses duplicate names: orjson silently keeps the last value, so the standard library parses the body again (6
    µs for a typical message)."""
    json.loads(body, object_pairs_hook=_refuse_repeated, parse_int=len, parse_float=len)


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > MAX_FIELD_VALUES:
        raise MalformedJsonError(f"The body has an object with more than {MAX_FIELD_VALUES:,} names.")
    names = set()
    for name, _ in pairs:
        if name in names:
            raise MalformedJsonError(f"The body repeats the name {json.dumps(clean_text(name[:100]))} in one object.")
        names.add(name)


def _cleaned(value: Any) -> Any:
    """The value with all texts cleaned, in place."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        value[:] = map(_cleaned, value)
    elif isinstance(value, dict):
        items = [(clean_text(key), _cleaned(item)) for key, item in value.items()]
        value.clear()
        value.update(items)
    return value
