"""Browser login: exchanges an API key for a cookie."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from app.api.auth import LOGIN_PATH
from app.api.body import JsonRoute
from app.api.cookies import clear_cookie, login_tokens, set_cookie
from app.api.deps import Services
from app.api.problems import problems
from app.runtime.values.logins import LoginCreate

router = APIRouter(prefix=LOGIN_PATH, tags=["login"], route_class=JsonRoute)

COOKIE: dict[str, Any] = {
    "Set-Cookie": {
        "description": "A random token instead of the key: `HttpOnly`, `SameSite=Strict`, `Secure` over HTTPS.",
        "schema": {"type": "string"},
    }
}


@router.post(
    "",
    status_code=204,
    responses={
        204: {"description": "The cookie is set, unless the server has no keys.", "headers": COOKIE},
        **problems("wrong_key", "too_many_attempts"),
    },
)
async def log_in(services: Services, request: Request, body: LoginCreate) -> Response:
    """Sets a cookie that replaces the key in the browser, valid for the time set by the operator. A server without keys
    accepts any key and sets no cookie."""
    login = await services.logins.open(body.key)
    headers = {"Set-Cookie": set_cookie(request.scope, login.token, login.lasts)} if login is not None else {}
    return Response(status_code=204, headers=headers)


@router.delete("", status_code=204, responses={204: {"description": "The login has ended.", "headers": COOKIE}})
async def log_out(services: Services, request: Request) -> Response:
    """Ends the login of the request's cookie on the server, and clears the cookie. Idempotent."""
    for token in login_tokens(request.scope):
        await services.logins.end(token)
    return Response(status_code=204, headers={"Set-Cookie": clear_cookie(request.scope)})
