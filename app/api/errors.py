"""Renders all errors as RFC 9457 problem documents.

The errors defined here belong to the API itself: the request never reached a service.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import quote

import orjson
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from app.api.fields import MAX_TEXT_CHARS, field_errors, in_prose
from app.errors import MalformedRequestError, NotFoundError, PalimpsestError, ValidationFailedError

PROBLEM_MEDIA_TYPE = "application/problem+json"
MAY_PASS = (429, 503, 507)
"""Statuses of temporary errors; the response has `Retry-After`."""

log = structlog.get_logger("palimpsest.api")


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
        for route in request.app.state.routes
        if route.path_regex.match(request.scope["path"])
        for method in route.methods
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
