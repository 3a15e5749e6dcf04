"""Probes and metrics."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from app import __version__
from app.api.deps import Services
from app.api.openapi import METRICS_CONTENT
from app.api.problems import problems
from app.api.schemas import Alive
from app.errors import UnavailableError
from app.runtime.values.server import Readiness

router = APIRouter(tags=["health"])


@router.get("/healthz")
@router.head("/healthz", include_in_schema=False)
async def get_health() -> Alive:
    """Whether the server is alive."""
    return Alive(status="ok", version=__version__)


@router.get("/readyz", responses=problems("not_ready", "unavailable"))
@router.head("/readyz", include_in_schema=False)
async def get_readiness(services: Services) -> Readiness:
    """The state of database, disk, sandbox and model providers, by name; 503 if sessions cannot be stored or commands
    cannot run. A failing provider only makes the server `degraded`: its calls are retried."""
    readiness = await services.server.readiness()
    if not readiness.ready:
        raise UnavailableError(
            "Parts of the server are not ready.", code="not_ready", **readiness.model_dump(mode="json")
        )
    return readiness


@router.get("/metrics", response_class=Response, responses=METRICS_CONTENT)
async def get_metrics(request: Request) -> Response:
    """The server's metrics in Prometheus text format."""
    text = await asyncio.to_thread(request.app.state.config.metrics)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")
