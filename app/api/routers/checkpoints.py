"""What changed in a session's workspace, its checkpoints, and going back to one."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response

from app.api.dependencies import STRICT, Services, SessionId
from app.api.download_budget import DownloadShare
from app.api.forwarding import as_of_header, forwarded
from app.api.openapi import PATCH_CONTENT
from app.api.problems import problems
from app.api.request_bodies import JsonRoute
from app.api.responses import RawResponse
from app.api.routers.files import STORED
from app.runtime.values.checkpoints import ChangeList, CheckpointList, RestoreResult

router = APIRouter(prefix="/v1/sessions/{session_id}", tags=["changes"], route_class=JsonRoute, dependencies=STRICT)

LOOKED = (
    "session_not_found",
    "checkpoint_not_found",
    "checkpoint_failed",
    "checkpoints_unavailable",
    "sandbox_unavailable",
    "too_many_sandboxes",
    "sandbox_error",
    "workspace_too_large",
    *STORED,
)
CheckpointId = Annotated[str, Path(max_length=64, description="The checkpoint's id.")]


@router.get(
    "/changes", response_model=ChangeList, responses={**PATCH_CONTENT, **problems(*LOOKED, "too_many_downloads")}
)
async def get_changes(
    services: Services,
    request: Request,
    session_id: SessionId,
    share: DownloadShare,
    start: Annotated[
        str | None,
        Query(alias="from", max_length=64, description="A checkpoint's id; by default the session's first."),
    ] = None,
    end: Annotated[
        str | None,
        Query(alias="to", max_length=64, description="A checkpoint's id; by default the workspace as it is now."),
    ] = None,
    format: Annotated[
        Literal["json", "patch"], Query(description="`patch` is one unified diff, for `git apply`.")
    ] = "json",
) -> Response:
    """The files that differ between two checkpoints, at most 10,000; with `format=patch` all differences as one patch.
    Renamed files are detected; the patch contains binary files in full. Values of the session's secrets are masked.
    Files that checkpoints do not cover are listed."""
    if (answer := await forwarded(services, request, session_id, "look")) is not None:
        return answer
    if format == "patch":
        raw = await services.checkpoints.patch(session_id, start, end)
        response = RawResponse(raw, name=f"{session_id}.patch", media_type="text/x-diff")
        response.headers.update(as_of_header(raw.as_of))
        return response
    found = await services.checkpoints.changes(session_id, start, end)
    return Response(found.model_dump_json(), media_type="application/json", headers=as_of_header(found.as_of))


@router.get(
    "/checkpoints",
    response_model=CheckpointList,
    responses=problems("session_not_found", "checkpoints_unavailable", "checkpoint_failed", *STORED),
)
async def list_checkpoints(services: Services, session_id: SessionId) -> CheckpointList:
    """The checkpoints of the workspace, oldest first: one from the beginning of each run, one from its end, and one
    from before each restoration. The oldest are removed, except the first, if there are too many."""
    return await services.checkpoints.list(session_id)


@router.post(
    "/checkpoints/{checkpoint_id}/restore",
    status_code=202,
    response_model=RestoreResult,
    responses=problems(*LOOKED, "session_running", "command_running", "workspace_full", "workspace_elsewhere"),
)
async def restore_checkpoint(
    services: Services, request: Request, session_id: SessionId, checkpoint_id: CheckpointId
) -> RestoreResult | Response:
    """Makes the workspace as it was at a checkpoint. Takes one first, so that this can be undone. The history stays as
    it is, as do files that no checkpoint covers."""
    if (answer := await forwarded(services, request, session_id, "restore")) is not None:
        return answer
    return await services.checkpoints.restore(session_id, checkpoint_id)
