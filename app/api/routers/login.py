"""The login of a browser: a key is given once, and a cookie stands for it from then on."""

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
        "description": "A random token that stands for the key: `HttpOnly`, `SameSite=Strict`, `Secure` over HTTPS.",
        "schema": {"type": "string"},
    }
}


@router.post(
    "",
    status_code=204,
    responses={
        204: {"description": "The cookie is set; none where the server has no keys.", "headers": COOKIE},
        **problems("wrong_key", "too_many_attempts"),
    },
)
async def log_in(services: Services, request: Request, body: LoginCreate) -> Response:
    """Gives the browser a cookie that lets it call without a key, for as long as the operator has set. A server without
    keys asks for none, so it takes any and sets nothing."""
    login = await services.logins.open(body.key)
    headers = {"Set-Cookie": set_cookie(request.scope, login.token, login.lasts)} if login is not None else {}
    return Response(status_code=204, headers=headers)


@router.delete("", status_code=204, responses={204: {"description": "There is no login any more.", "headers": COOKIE}})
async def log_out(services: Services, request: Request) -> Response:
    """Ends the login of the request's cookie on the server, and clears the cookie. It may be called again."""
    for token in login_tokens(request.scope):
        await services.logins.end(token)
    return Response(status_code=204, headers={"Set-Cookie": clear_cookie(request.scope)})
