"""Renders every error as an RFC 9457 problem document, in this one place, with a sentence for each invalid field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import orjson
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from app.errors import PROBLEM_MEDIA_TYPE, MalformedRequestError, NotFoundError, PalimpsestError, ValidationFailedError

MAX_FIELD_ERRORS = 20
MAX_TEXT_CHARS = 200
PydanticError = Mapping[str, Any]
"""One error from pydantic: `type`, `loc`, `msg`, `input`, `ctx`."""

MAY_PASS = (429, 503, 507)
"""Statuses of temporary errors; the response has `Retry-After`."""
log = structlog.get_logger("palimpsest.api")


def field_errors(errors: Iterable[PydanticError]) -> list[dict[str, str]]:
    """The first errors as `{field, message}`, at most `MAX_FIELD_ERRORS`."""
    told: list[PydanticError] = []
    for error in errors:
        # pydantic leaves out what is invalid before it counts the items.
        if error["type"] == "too_short" and told and _is_inside(told[-1]["loc"], error["loc"]):
            continue
        told.append(error)
        if len(told) == MAX_FIELD_ERRORS:
            break
    return [{"field": field_name(error["loc"]), "message": sentence(error)[:MAX_TEXT_CHARS]} for error in told]


def _is_inside(loc: Sequence[Any], above: Sequence[Any]) -> bool:
    return len(loc) > len(above) and loc[: len(above)] == above


def field_name(loc: Iterable[Any]) -> str:
    """`("body", "limits", "max_steps")` is `limits.max_steps`; the body as a whole is `body`."""
    names = [str(item) for item in loc]
    return ".".join(names[1:] or names)[:MAX_TEXT_CHARS]


def sentence(error: PydanticError) -> str:
    """What the field should be, without knowledge of the server's internals."""
    ours = SENTENCES.get(error["type"])
    return ours(error) if ours else str(error["msg"])


def in_prose(message: str) -> str:
    """The sentence as it continues after a colon."""
    return message[:1].lower() + message[1:]


def _is(text: str) -> Callable[[PydanticError], str]:
    return lambda error: text


def _at(bound: str, limit: str) -> Callable[[PydanticError], str]:
    """A message about length: characters for a text, items for anything else."""

    def words(error: PydanticError) -> str:
        count: int = error["ctx"][limit]
        unit = "character" if isinstance(error["input"], str) else "item"
        return f"Input should have at {bound} {count:,} {unit}{'' if count == 1 else 's'}"

    return words


_OBJECT = _is("Input should be an object")
_TOO_SHORT = _at("least", "min_length")
_TOO_LONG = _at("most", "max_length")
SENTENCES: Mapping[str, Callable[[PydanticError], str]] = {
    "bool_type": _is("Input should be true or false"),
    "dict_type": _OBJECT,
    "extra_forbidden": _is("Unknown field"),
    "int_parsing_size": _is("The number is too large"),
    "list_type": _is("Input should be an array"),
    "model_attributes_type": _OBJECT,
    "model_type": _OBJECT,
    "string_too_long": _TOO_LONG,
    "string_too_short": _TOO_SHORT,
    "string_type": _is("Input should be a string"),
    "too_long": _TOO_LONG,
    "too_short": _TOO_SHORT,
}
"""Replacements for messages of pydantic that mention Python or pydantic's internals."""


class MalformedJsonError(MalformedRequestError):
    code = "invalid_json"
    title = "The body is not valid JSON"


class MalformedEventIdError(MalformedRequestError):
    code = "malformed_event_id"
    title = "Invalid event id"


class UnauthorizedError(PalimpsestError):
    status = 401
    code = "unauthorized"
    title = "A valid API key is required"


class ForeignOriginError(PalimpsestError):
    status = 403
    code = "foreign_origin"
    title = "Requests from other sites are refused"


class MethodNotAllowedError(PalimpsestError):
    status = 405
    code = "method_not_allowed"
    title = "Method not allowed"


class UnsupportedMediaTypeError(PalimpsestError):
    status = 415
    code = "unsupported_media_type"
    title = "The body's content type is not supported"


class RangeNotSatisfiableError(PalimpsestError):
    status = 416
    code = "range_not_satisfiable"
    title = "The range lies outside the content"


class WrongHostError(PalimpsestError):
    status = 421
    code = "wrong_host"
    title = "Host name not allowed"


class InternalError(PalimpsestError):
    """What a client sees of an unexpected error; the log has the details."""


def problem_response(
    error: PalimpsestError, path: str, headers: Mapping[str, str] | None = None, methods: Iterable[str] = ()
) -> Response:
    """The error as a response. `methods` are the allowed ones, for 405."""
    document = error.problem(quote(path[:MAX_TEXT_CHARS], safe="/:@!$&'()*+,;=~"))
    return Response(
        orjson.dumps(document, default=str),
        status_code=error.status,
        headers={**_headers_of(error, methods), **(headers or {})},
        media_type=PROBLEM_MEDIA_TYPE,
    )


def _headers_of(error: PalimpsestError, methods: Iterable[str]) -> dict[str, str]:
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if error.status == 405:
        headers["Allow"] = ", ".join(sorted(methods))
    if error.status in MAY_PASS:
        headers["Retry-After"] = str(error.retry_after_s)
    return headers


def validation_failed(error: RequestValidationError) -> ValidationFailedError:
    found = field_errors(error.errors())
    named = "; ".join(f"{item['field']}: {in_prose(item['message'])}" for item in found[:3])
    return ValidationFailedError(f"The request is not valid: {named}.", errors=found)


def from_http_exception(error: HTTPException) -> PalimpsestError:
    """An error of the web framework as one of Palimpsest's."""
    if error.status_code == 404:
        return NotFoundError("No route matches this path.")
    if error.status_code == 405:
        return MethodNotAllowedError("This path does not support the method.")
    return MalformedRequestError("The request cannot be read.")


def allowed_methods(request: Request) -> set[str]:
    """The methods of all routes that match the request's path; the framework names only those of the first. If none
    matches, GET and HEAD."""
    methods = {
        method
        for route in request.app.routes
        if isinstance(route, APIRoute) and route.path_regex.match(request.scope["path"])
        for method in route.methods or ()
    }
    return methods or {"GET", "HEAD"}


def install_error_handlers(app: FastAPI) -> None:
    """Makes `app` answer every error with a problem document."""

    async def business(request: Request, error: Exception) -> Response:
        assert isinstance(error, PalimpsestError)
        if error.status == 500:
            log.error("request_failed", path=request.url.path, code=error.code, detail=error.detail, exc_info=error)
        return problem_response(error, request.scope["path"])

    async def validation(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return problem_response(validation_failed(error), request.scope["path"])

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return problem_response(from_http_exception(error), request.scope["path"], methods=allowed_methods(request))

    app.add_exception_handler(PalimpsestError, business)
    app.add_exception_handler(RequestValidationError, validation)
    app.add_exception_handler(HTTPException, http)
