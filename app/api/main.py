"""The application: the outermost middleware, the routers and the error handling around the services."""

from __future__ import annotations

import asyncio
import copy
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import structlog
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import __version__
from app.api.download_budget import DownloadBudget
from app.api.errors import InternalError, install_error_handlers, problem_response
from app.api.guard import ApiConfig, Guard
from app.api.idempotency import Idempotency
from app.api.openapi import install_openapi
from app.api.routers import (
    checkpoints,
    client_calls,
    commands,
    files,
    history,
    page,
    queue,
    secrets,
    server,
    sessions,
    webhooks,
)
from app.api.routers import history as compactions
from app.api.routers import history as events
from app.api.routers import queue as approvals
from app.errors import PalimpsestError
from app.runtime.services import Services

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[Any]]
ROUTERS = (
    sessions.router,
    sessions.forks_router,
    queue.router,
    approvals.approvals_router,
    client_calls.router,
    commands.router,
    history.router,
    compactions.compactions_router,
    events.events_router,
    files.router,
    checkpoints.router,
    webhooks.router,
    secrets.router,
    server.models_router,
    server.login_router,
    server.health_router,
    page.router,
)

WORKER_ROUTERS = (server.health_router, files.router, sessions.forks_router, checkpoints.router)
"""What a node offers that only runs sessions. Other nodes forward requests for files of its sessions."""

CUT_OFF_S = 10.0
"""Seconds between two lines in the log about answers that end early."""

QUIET_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
log = structlog.get_logger("palimpsest.access")


def create_app(
    config: ApiConfig,
    *,
    services: Services | None = None,
    lifespan: Lifespan | None = None,
    routers: Sequence[APIRouter] = ROUTERS,
) -> FastAPI:
    """The ASGI application.

    Pass `services`, or a `lifespan` that sets `app.state.services`; until they are set, the routes return 503. The
    interactive documentation is off because its pages load scripts from other sites.
    """
    routes = [route for router in routers for route in router.routes]
    app = FastAPI(
        title="Palimpsest",
        version=__version__,
        summary="Runs coding agents for hours or days without ever running out of context.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        # `include_router` would build each route a second time, at the first request.
        routes=[*routes, *_heads(routes)],
    )
    app.state.config = config
    app.state.large_bodies = asyncio.Lock()
    app.state.parsing = asyncio.Lock()
    app.state.downloads = DownloadBudget()
    app.state.services = services
    install_error_handlers(app)
    install_openapi(app, keys_optional=not config.api_keys)
    app.add_middleware(Idempotency)
    app.add_middleware(Guard, rules=config.rules)
    app.add_middleware(Boundary)
    # It would log every chunk of every stream if the root logger is at debug.
    logging.getLogger("sse_starlette").setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    return app


def _heads(routes: Sequence[BaseRoute]) -> Iterator[APIRoute]:
    """HEAD is answered wherever GET is, including streams: by the same code, without the body. These are separate
    routes, since the API's document names only GET."""
    for route in routes:
        if isinstance(route, APIRoute) and "GET" in (route.methods or ()):
            head = copy.copy(route)
            head.methods, head.include_in_schema = {"HEAD"}, False
            yield head


class Boundary:
    """ASGI middleware. It logs method, path, status and duration, but no query, headers or body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._cut_off = 0
        self._logs_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = 0
        began = time.perf_counter()

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, noted)
        except ClientDisconnect:
            log.debug("client_disconnected", path=scope["path"])
        except Exception as failure:
            known = _known(failure) if status else None
            if known is not None:
                self._log_cut_off(known, scope["path"])
                return
            log.exception("request_failed", method=scope["method"], path=scope["path"])
            if not status:
                error = InternalError("The server could not handle the request. Its log has the details.")
                await problem_response(error, scope["path"])(scope, receive, noted)
        finally:
            _log_request(scope, status, time.perf_counter() - began)

    def _log_cut_off(self, error: PalimpsestError, path: str) -> None:
        """Logs that answers end early, such as all event streams when the database goes away: at most one line in
        `CUT_OFF_S`."""
        self._cut_off += 1
        at = time.monotonic()
        if at >= self._logs_at:
            self._logs_at = at + CUT_OFF_S
            log.warning("answer_cut_off", path=path, code=error.code, reason=error.detail, so_far=self._cut_off)


def _known(error: BaseException) -> PalimpsestError | None:
    """Our own error that ended an answer which had begun: Starlette wraps it, and a task group does too."""
    while not isinstance(error, PalimpsestError):
        inner = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error.__cause__
        if inner is None or not isinstance(error, RuntimeError | BaseExceptionGroup):
            return None
        error = inner
    return error


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a line of the HTTP server says what `Boundary` has not logged already."""
    return not record.getMessage().startswith("ASGI callable returned without completing response")


def _log_request(scope: Scope, status: int, seconds: float) -> None:
    emit = log.debug if scope["path"] in QUIET_PATHS else log.info
    emit("request", method=scope["method"], path=scope["path"], status=status, duration_ms=round(seconds * 1000, 1))
