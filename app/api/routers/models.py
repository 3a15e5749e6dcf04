"""Configured models, and what all sessions have used."""

from __future__ import annotations

from fastapi import APIRouter

from app.api.deps import Service
from app.runtime.values import ModelList, UsageReport

router = APIRouter(prefix="/v1", tags=["models"])


@router.get("/models")
async def list_models(service: Service) -> ModelList:
    """Models with their context window, their prices and whether a key is present."""
    return service.models()


@router.get("/usage")
async def get_usage(service: Service) -> UsageReport:
    """Tokens and cost over all sessions, by model and day."""
    return await service.usage()
