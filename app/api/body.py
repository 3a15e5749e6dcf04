"""Reads JSON bodies strictly, and mends what the contract says is mended."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

import orjson
from fastapi import Request, Response
from fastapi.routing import APIRoute

from app.api.errors import MalformedJsonError, UnsupportedMediaTypeError
from app.api.guard import too_large
from app.messages import clean_text

MAX_DEPTH = 100
"""Levels of nesting; the serialisers of the answer give up at 254 (orjson) and 255 (pydantic)."""

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class JsonRequest(Request):
    """A request whose body was parsed by `parse_json`."""

    parsed: Any = None

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
            return await handle(await read_json(request))

        return checked


async def read_json(request: Request) -> JsonRequest:
    """The request with its body read and parsed. An empty body stays empty: whether one is needed, the route knows."""
    read = JsonRequest(request.scope, request.receive)
    body = await read.body()
    if not body:
        return read
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise UnsupportedMediaTypeError("A body needs Content-Type: application/json.")
    limit: int = request.app.state.config.max_json_bytes
    if len(body) <= limit:
        read.parsed = parse_json(body)
        return read
    read.parsed = await asyncio.to_thread(parse_json, body)
    if not (isinstance(read.parsed, dict) and read.parsed.get("history") is not None):
        raise too_large(limit)
    return read


def parse_json(body: bytes) -> Any:
    """The JSON value of `body`, with NUL and lone surrogates as U+FFFD. Raises `MalformedJsonError` for what is not
    JSON in UTF-8, is nested deeper than 100 levels or has an object with the same name twice."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if not _SURROGATE.search(body):
            raise MalformedJsonError(f"The body is not valid JSON: {error}.") from None
        value = _parse_with_surrogates(body)
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
        _check_depth(value)
    if body.count(b":") > 1:
        _check_names(body)
    return _cleaned(value) if b"\\u" in body else value


def _parse_with_surrogates(body: bytes) -> Any:
    """The standard library's parser takes lone surrogates, which orjson does not; what else it takes is refused."""
    try:
        return json.loads(
            body.decode("utf-8"), parse_constant=_refuse_constant, parse_int=_int_or_float, parse_float=_finite
        )
    except (ValueError, RecursionError):
        raise MalformedJsonError("The body is not valid JSON.") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _int_or_float(text: str) -> int | float:
    """As orjson has it: an integer where 64 bits hold it, else a float."""
    return int(text) if len(text) < 19 else _finite(text)


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("number out of range")
    return value


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for item in level for child in _children(item)]
        if not level:
            return
    raise MalformedJsonError(f"The body is nested deeper than {MAX_DEPTH} levels.")


def _check_names(body: bytes) -> None:
    """orjson keeps the last of two values under one name and does not tell; the standard library shows the pairs. The
    second reading costs 6 µs for a message, and two to three times the first for a whole history."""
    json.loads(body, object_pairs_hook=_refuse_repeated, parse_int=len, parse_float=len)


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    names = set()
    for name, _ in pairs:
        if name in names:
            raise MalformedJsonError(f"The body has the name {json.dumps(clean_text(name[:100]))} twice in one object.")
        names.add(name)


def _children(item: Any) -> list[Any]:
    children = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
    return [child for child in children if isinstance(child, dict | list)]


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): _cleaned(item) for key, item in value.items()}
    return value
