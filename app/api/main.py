"""The application: routers, guards and error handling around the services."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.routing import APIRoute

from app import __version__
from app.api.boundary import Boundary
from app.api.config import ApiConfig
from app.api.download_budget import DownloadBudget
from app.api.errors import install_error_handlers
from app.api.guard import Guard
from app.api.openapi import install_openapi
from app.api.query import refuse_unknown
from app.api.routers import (
    approvals,
    compactions,
    events,
    files,
    health,
    history,
    login,
    models,
    page,
    queue,
    sessions,
)
from app.runtime.services import Services

__all__ = ["ApiConfig", "create_app"]

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[Any]]

ROUTERS = (
    sessions.router,
    queue.router,
    approvals.router,
    history.router,
    compactions.router,
    events.router,
    files.router,
    models.router,
    login.router,
    health.router,
    page.router,
)


def create_app(config: ApiConfig, *, services: Services | None = None, lifespan: Lifespan | None = None) -> FastAPI:
    """The ASGI application.

    Pass `services`, or a `lifespan` that sets `app.state.services`; until they are set, the routes return 503. The
    interactive documentation is off because its pages load scripts from other sites.
    """
    app = FastAPI(
        title="Palimpsest",
        version=__version__,
        summary="Runs coding agents for hours or days without ever running out of context.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.config = config
    app.state.large_bodies = asyncio.Lock()
    app.state.parsing = asyncio.Lock()
    app.state.downloads = DownloadBudget()
    app.state.services = services
    app.state.routes = tuple(route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute))
    for router in ROUTERS:
        # Programs add parameters to the probes' and the page's URLs to bypass caches.
        strict = router not in (health.router, page.router)
        app.include_router(router, dependencies=[Depends(refuse_unknown)] if strict else [])
    install_error_handlers(app)
    install_openapi(app, keys_optional=not config.api_keys)
    app.add_middleware(Guard, rules=config.rules)
    app.add_middleware(Boundary)
    # It would log every chunk of every stream if the root logger is at debug.
    logging.getLogger("sse_starlette").setLevel(logging.INFO)
    return app
