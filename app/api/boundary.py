"""The outermost middleware: one log line per request, and a plain 500 for an unexpected error."""

from __future__ import annotations

import time

import structlog
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.errors import InternalError, problem_response

QUIET_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
log = structlog.get_logger("palimpsest.access")


class Boundary:
    """ASGI middleware. It logs method, path, status and duration, but no query, headers or body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

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
        except Exception:
            log.exception("request_failed", method=scope["method"], path=scope["path"])
            if not status:
                error = InternalError("The server could not handle the request. Its log has the details.")
                await problem_response(error, scope["path"])(scope, receive, noted)
        finally:
            _log_request(scope, status, time.perf_counter() - began)


def _log_request(scope: Scope, status: int, seconds: float) -> None:
    emit = log.debug if scope["path"] in QUIET_PATHS else log.info
    emit("request", method=scope["method"], path=scope["path"], status=status, duration_ms=round(seconds * 1000, 1))
