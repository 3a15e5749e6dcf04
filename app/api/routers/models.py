"""Configured models, and the usage of all sessions."""

from __future__ import annotations

from fastapi import APIRouter

from app.api.deps import Services
from app.runtime.values.server import ModelList, UsageReport

router = APIRouter(prefix="/v1", tags=["models"])


@router.get("/models")
async def list_models(services: Services) -> ModelList:
    """Models with their context window, their prices and whether a key is present."""
    return services.server.models()


@router.get("/usage")
async def get_usage(services: Services) -> UsageReport:
    """Tokens and cost over all sessions, by model and day."""
    return await services.server.usage()
