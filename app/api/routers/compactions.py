"""Manual compaction: start a round, list all rounds, revert the latest."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from app.api.body import JsonRoute
from app.api.deps import Round, Services, SessionId
from app.api.problems import problems
from app.runtime.values.compactions import CompactionCreate, CompactionList, CompactionPreview
from app.sessions import CompactionEvent

router = APIRouter(prefix="/v1/sessions/{session_id}/compactions", tags=["compactions"], route_class=JsonRoute)


@router.post(
    "",
    status_code=202,
    response_model=CompactionEvent,
    responses={
        200: {"model": CompactionPreview, "description": "What a round would do; nothing is changed."},
        **problems("session_not_found", "compaction_in_progress", "unknown_model", "too_many_runs"),
    },
)
async def create_compaction(
    services: Services, session_id: SessionId, body: CompactionCreate | None = None
) -> Response:
    """Compacts the context now; with `dry_run`, shows what that would do. Works on an idle session, and on a running
    one between steps."""
    body = body or CompactionCreate()
    if body.dry_run:
        found = await services.compactions.preview(session_id, body)
        return JSONResponse(found.model_dump(mode="json"))
    event = await services.compactions.request(session_id, body)
    return JSONResponse(event.model_dump(mode="json"), status_code=202)


@router.get("", responses=problems("session_not_found"))
async def list_compactions(services: Services, session_id: SessionId) -> CompactionList:
    """All compaction rounds, oldest first, including failed ones."""
    return await services.compactions.list(session_id)


@router.delete(
    "/{round}",
    status_code=204,
    responses=problems("session_not_found", "round_not_found", "not_the_latest_round", "compaction_in_progress"),
)
async def revert_compaction(services: Services, session_id: SessionId, round: Round) -> Response:
    """Reverts the latest round: the context is as if it had not happened; later messages stay."""
    await services.compactions.revert(session_id, round)
    return Response(status_code=204)
