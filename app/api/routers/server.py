"""The server itself: probes and metrics, models and usage, and the login of a browser."""

from __future__ import annotations

import asyncio
import re
from datetime import date
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from app import __version__
from app.api.auth import LOGIN_PATH, clear_cookie, login_tokens, set_cookie
from app.api.dependencies import KEY, STRICT, Alive, Services
from app.api.errors import in_prose
from app.api.openapi import METRICS_CONTENT
from app.api.problems import problems
from app.api.request_bodies import JsonRoute
from app.errors import UnavailableError, ValidationFailedError
from app.runtime.values.server import LoginCreate, ModelList, NodeList, Readiness, UsageReport

health_router = APIRouter(tags=["health"])

models_router = APIRouter(prefix="/v1", tags=["models"], dependencies=STRICT)

login_router = APIRouter(prefix=LOGIN_PATH, tags=["login"], route_class=JsonRoute, dependencies=STRICT)
LOGIN_COOKIE: dict[str, Any] = {
    "Set-Cookie": {
        "description": "A random token instead of the key: `HttpOnly`, `SameSite=Strict`, `Secure` over HTTPS.",
        "schema": {"type": "string"},
    }
}


@health_router.get("/healthz")
async def get_health() -> Alive:
    """Whether the server is alive."""
    return Alive(status="ok", version=__version__)


@health_router.get("/readyz", responses=problems("not_ready", "unavailable"))
async def get_readiness(services: Services) -> Readiness:
    """The state of database, disk, sandbox and model providers, by name; 503 if sessions cannot be stored or commands
    cannot run. A failing provider only makes the server `degraded`: its calls are retried."""
    readiness = await services.server.readiness()
    if not readiness.ready:
        raise UnavailableError(
            "Parts of the server are not ready.", code="not_ready", **readiness.model_dump(mode="json")
        )
    return readiness


@health_router.get("/metrics", response_class=Response, responses=METRICS_CONTENT)
async def get_metrics(request: Request) -> Response:
    """The server's metrics in Prometheus text format."""
    text = await asyncio.to_thread(request.app.state.config.metrics)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@models_router.get("/models")
async def list_models(services: Services) -> ModelList:
    """Models with their context window, their prices and whether a key is present."""
    return services.server.models()


GROUP = rf"^(?:day|model|metadata\.{KEY})$"


def _group(text: str) -> str:
    if not re.fullmatch(GROUP, text):
        raise PydanticCustomError("group", "Input should be day, model or metadata.KEY")
    return text


@models_router.get("/usage")
async def get_usage(
    services: Services,
    since: Annotated[date | None, Query(description="The first day, in UTC.")] = None,
    until: Annotated[date | None, Query(description="The last day, in UTC.")] = None,
    group_by: Annotated[
        Annotated[str, AfterValidator(_group)] | None,
        Query(
            description="`day`, `model` or `metadata.KEY`, which are the sessions that have not been deleted by a value"
            " of their metadata. Without it, by model and day.",
            examples=["metadata.team"],
            json_schema_extra={"pattern": GROUP},
        ),
    ] = None,
) -> UsageReport:
    """Tokens and cost over all sessions."""
    if since is not None and until is not None and since > until:
        message = "The last day is before the first"
        errors = [{"field": "until", "message": message}]
        raise ValidationFailedError(f"The request is not valid: until: {in_prose(message)}.", errors=errors)
    return await services.server.usage(since=since, until=until, group_by=group_by)


@models_router.get("/nodes")
async def list_nodes(services: Services) -> NodeList:
    """The nodes of a cluster, with the sessions that each one owns; none for a server on its own."""
    return await services.server.nodes()


@login_router.post(
    "",
    status_code=204,
    responses={
        204: {"description": "The cookie is set, unless the server has no keys.", "headers": LOGIN_COOKIE},
        **problems("wrong_key", "too_many_attempts"),
    },
)
async def log_in(services: Services, request: Request, body: LoginCreate) -> Response:
    """Sets a cookie that replaces the key in the browser, valid for the time set by the operator. A server without keys
    accepts any key and sets no cookie."""
    login = await services.logins.open(body.key)
    headers = {"Set-Cookie": set_cookie(request.scope, login.token, login.lasts)} if login is not None else {}
    return Response(status_code=204, headers=headers)


@login_router.delete(
    "", status_code=204, responses={204: {"description": "The login has ended.", "headers": LOGIN_COOKIE}}
)
async def log_out(services: Services, request: Request) -> Response:
    """Ends the login of the request's cookie on the server, and clears the cookie. Idempotent."""
    for token in login_tokens(request.scope):
        await services.logins.end(token)
    return Response(status_code=204, headers={"Set-Cookie": clear_cookie(request.scope)})
