"""History and context: messages, the context of a step, steps, tool calls and their raw output."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from app.api.body import JsonRoute
from app.api.deps import CallId, Cursor, Limit, Services, SessionId
from app.api.download_budget import DownloadShare
from app.api.downloads import RawResponse
from app.api.openapi import RAW_CONTENT
from app.api.problems import problems
from app.runtime.values.history import ContextView, ExportPage, MessagePage, StepPage, ToolCallView

router = APIRouter(prefix="/v1/sessions/{session_id}", tags=["history"], route_class=JsonRoute)

MAX_STEP = 2**31 - 1


@router.get("/messages", responses=problems("session_not_found", "malformed_cursor"))
async def list_messages(
    services: Services,
    session_id: SessionId,
    after: Cursor = None,
    limit: Limit = 100,
    format: Annotated[
        Literal["openai", "anthropic"] | None,
        Query(description="Exports the history as messages of this provider; a call and its results share a page."),
    ] = None,
) -> MessagePage | ExportPage:
    """The full history, oldest first; nothing is hidden. A page of large messages has fewer of them; `next_cursor` is
    null only at the end of the history. An export omits summaries, since it has all messages that they replace, and
    what no provider accepts: voided attempts, and messages without content."""
    if format is not None:
        return await services.history.export(session_id, format=format, after=after, limit=limit)
    return await services.history.messages(session_id, after=after, limit=limit)


@router.get("/context", responses=problems("session_not_found", "step_not_found", "unknown_model"))
async def get_context(
    services: Services,
    session_id: SessionId,
    step: Annotated[int | None, Query(ge=1, le=MAX_STEP, description="A past step; omit it for the next one.")] = None,
) -> ContextView:
    """Exactly what the next step would send, or what a past step sent. If the last run has completed, the next step
    will also send the message that starts it."""
    return await services.history.context(session_id, step=step)


@router.get("/steps", responses=problems("session_not_found", "malformed_cursor"))
async def list_steps(services: Services, session_id: SessionId, after: Cursor = None, limit: Limit = 100) -> StepPage:
    """All attempts of all steps, oldest first."""
    return await services.history.steps(session_id, after=after, limit=limit)


@router.get("/tool-calls/{call_id}", responses=problems("session_not_found", "call_not_found"))
async def get_tool_call(services: Services, session_id: SessionId, call_id: CallId) -> ToolCallView:
    """A tool call and its result."""
    return await services.history.tool_call(session_id, call_id)


@router.get(
    "/tool-calls/{call_id}/output",
    response_class=Response,
    responses={
        **RAW_CONTENT,
        **problems(
            "session_not_found",
            "call_not_found",
            "output_not_found",
            "output_swept",
            "call_open",
            "range_not_satisfiable",
            "too_many_downloads",
        ),
    },
)
@router.head("/tool-calls/{call_id}/output", include_in_schema=False)
async def get_tool_output(services: Services, session_id: SessionId, call_id: CallId, share: DownloadShare) -> Response:
    """The full raw output of a call, even if it was pruned from the context; supports `Range`."""
    raw = await services.history.tool_output(session_id, call_id)
    return RawResponse(raw, name=f"{call_id}.txt", media_type="text/plain; charset=utf-8")
