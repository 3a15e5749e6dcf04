"""The commands that run in the background of a session."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from app.api.dependencies import STRICT, Services, SessionId
from app.api.download_budget import DownloadShare
from app.api.problems import problems
from app.api.request_bodies import JsonRoute
from app.api.responses import MAX_SEQ
from app.runtime.values.commands import CommandList, CommandOutput
from app.runtime.values.sessions import Text

router = APIRouter(
    prefix="/v1/sessions/{session_id}/commands", tags=["commands"], route_class=JsonRoute, dependencies=STRICT
)
CommandId = Annotated[
    Text, Path(description="The id of the call that started it.", examples=["019aa6a9-1c4e-7a01-9e3b-5d2f8c6b7a90"])
]


@router.get("", responses=problems("session_not_found"))
async def list_commands(services: Services, session_id: SessionId) -> CommandList:
    """The commands that the session runs, or has run, in the background, oldest first."""
    return await services.commands.list(session_id)


@router.get("/{command_id}/output", responses=problems("session_not_found", "command_not_found", "too_many_downloads"))
async def get_command_output(
    services: Services,
    session_id: SessionId,
    command_id: CommandId,
    share: DownloadShare,
    since: Annotated[int, Query(ge=0, le=MAX_SEQ, description="The byte to read from.")] = 0,
) -> CommandOutput:
    """Output of a background command from a byte on, at most 256 KiB; pass `next_since` to continue."""
    return await services.commands.output(session_id, command_id, since)


@router.delete(
    "/{command_id}", status_code=204, responses=problems("session_not_found", "subagent_session", "command_not_found")
)
async def stop_command(services: Services, session_id: SessionId, command_id: CommandId) -> None:
    """Ends a background command with all its processes; does nothing if it has ended."""
    await services.commands.stop(session_id, command_id)
