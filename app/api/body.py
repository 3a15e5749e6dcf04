"""Reads JSON bodies strictly, and mends what the contract says is mended."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, NoReturn

import orjson
from fastapi import Request, Response
from fastapi.routing import APIRoute

from app.api.bodies import too_large
from app.api.errors import MalformedJsonError, UnsupportedMediaTypeError
from app.errors import MalformedRequestError
from app.json_bounds import JsonBounds, JsonBoundsError
from app.messages import clean_text

AT_ONCE_BYTES = 64 * 1024
"""What is parsed on the event loop, which takes a millisecond; larger bodies are parsed in a thread."""

MAX_FIELD_VALUES = 10_000
"""Names and values in a body without the messages of its history, and names in any of its objects. The largest metadata
have 8,200. The validator makes an error of each that is invalid, 3 µs on the event loop."""

LARGE_BODY_S = 60
"""Seconds in which a body of more than `max_json_bytes` has to arrive, since others wait for it."""

_UNCLEAN = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")


class JsonRequest(Request):
    """A request whose body was parsed by `parse_json`. Its bytes are not kept; whether there are any is."""

    parsed: Any = None
    has_body = False

    async def body(self) -> bytes:
        return b"{}" if self.has_body else b""

    async def json(self) -> Any:
        return self.parsed


class JsonRoute(APIRoute):
    """A route whose body, if it takes one, must be `application/json`.

    Raises `UnsupportedMediaTypeError`, `MalformedJsonError` and `TooLargeError` before anything else is looked at.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle

        async def checked(request: Request) -> Response:
            async with AsyncExitStack() as turn:
                return await handle(await read_json(request, turn))

        return checked


async def read_json(request: Request, turn: AsyncExitStack) -> JsonRequest:
    """The request with its body read and parsed. An empty body stays empty: whether one is needed, the route knows. A
    large one is the only one in memory until `turn` ends."""
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
    if len(body) > AT_ONCE_BYTES:
        # One after the other, since threads that compute take turns with the event loop, each 5 ms long.
        async with request.app.state.parsing:
            read.parsed = await asyncio.to_thread(_parse_bounded, body, limit)
    elif bounds.values > MAX_FIELD_VALUES:
        read.parsed = _parse_bounded(body, limit)
    elif body:
        read.parsed = parse_json(body)
    if large and not (isinstance(read.parsed, dict) and read.parsed.get("history") is not None):
        raise too_large(limit)
    return read


def _check_type(request: Request) -> None:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise UnsupportedMediaTypeError("A body needs Content-Type: application/json.")


def _parse_bounded(body: bytearray, limit: int) -> Any:
    """As `parse_json`, for a body that may have too much besides the messages of its history. Raises `TooLargeError`
    then, or `MalformedJsonError`."""
    value = parse_json(body)
    history = value.get("history") if isinstance(value, dict) else None
    messages = history.get("messages") if isinstance(history, dict) else None
    _check_fields(value, messages if isinstance(messages, list) else None, limit)
    return value


def _check_fields(body: Any, messages: list[Any] | None, limit: int) -> None:
    """Bounds a body without its `messages`: its names and values, and `limit` the bytes of its texts."""
    waiting, count, size = [body], 0, 0
    while waiting:
        value = waiting.pop()
        if value is messages is not None:
            continue
        count += 1
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str):
            size += len(value) if len(value) > limit else len(orjson.dumps(value))
        if size > limit:
            raise too_large(limit, "The body without the messages of its history")
        if count + len(waiting) > MAX_FIELD_VALUES + 1:
            raise MalformedJsonError(
                f"The body has more than {MAX_FIELD_VALUES:,} names and values besides the messages of a history."
            )


def parse_json(body: bytearray) -> Any:
    """The JSON value of `body`, with NUL and lone surrogates as U+FFFD. Raises `MalformedJsonError` for what is not
    JSON in UTF-8 or has an object with the same name twice. A body of more than 64 KiB is emptied on the way."""
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
            if body.count(b":") > 1:
                _check_names(body)
    return _cleaned(value) if unclean else value


def _parse_in_turns(body: bytearray) -> Any:
    """The standard library's parser calls back for each object and number, so that other threads run meanwhile, which
    orjson keeps waiting to its end. It also takes lone surrogates; what else it takes is refused."""
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
    """As orjson has it: an integer where 64 bits hold it, signed or not, else a float."""
    value = int(text) if len(text) <= 20 else 2**64
    return value if -(2**63) <= value < 2**64 else _finite(text)


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("number out of range")
    return value


def _check_names(body: bytearray) -> None:
    """orjson keeps the last of two values under one name and does not tell; the standard library shows the pairs. The
    second reading costs 6 µs for a message."""
    json.loads(body, object_pairs_hook=_refuse_repeated, parse_int=len, parse_float=len)


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > MAX_FIELD_VALUES:
        raise MalformedJsonError(f"The body has an object with more than {MAX_FIELD_VALUES:,} names.")
    names = set()
    for name, _ in pairs:
        if name in names:
            raise MalformedJsonError(f"The body has the name {json.dumps(clean_text(name[:100]))} twice in one object.")
        names.add(name)


def _cleaned(value: Any) -> Any:
    """The value with clean texts, changed in place."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        value[:] = map(_cleaned, value)
    elif isinstance(value, dict):
        items = [(clean_text(key), _cleaned(item)) for key, item in value.items()]
        value.clear()
        value.update(items)
    return value
