"""The past of a session: messages, steps, contexts, tool calls, its events as a stream or in pages, and its
compactions."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import WithJsonSchema

from app.api.dependencies import (
    STRICT,
    TYPES_SCHEMA,
    CallId,
    Cursor,
    EventPage,
    Limit,
    Round,
    Services,
    SessionId,
    event_types,
    page_body,
)
from app.api.download_budget import DownloadShare
from app.api.openapi import IMAGE_CONTENT, RAW_CONTENT, event_stream
from app.api.problems import problems
from app.api.request_bodies import JsonRoute
from app.api.responses import MAX_SEQ, EventStreamResponse, RawResponse, json_response, start_after
from app.runtime.values.history import (
    CompactionCreate,
    CompactionList,
    CompactionPreview,
    ContextView,
    ExportPage,
    MessagePage,
    SearchResult,
    StepPage,
    ToolCallView,
)
from app.runtime.values.sessions import Text
from app.runtime.values.tools import ToolList
from app.sessions import CompactionEvent

router = APIRouter(prefix="/v1/sessions/{session_id}", tags=["history"], route_class=JsonRoute, dependencies=STRICT)
MAX_STEP = 2**31 - 1

compactions_router = APIRouter(
    prefix="/v1/sessions/{session_id}/compactions", tags=["compactions"], route_class=JsonRoute, dependencies=STRICT
)

events_router = APIRouter(prefix="/v1", tags=["events"], dependencies=STRICT)
Seq = Annotated[str | None, WithJsonSchema({"type": "integer", "minimum": 0, "maximum": MAX_SEQ})]


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


@router.get(
    "/context", response_model=ContextView, responses=problems("session_not_found", "step_not_found", "unknown_model")
)
async def get_context(
    services: Services,
    session_id: SessionId,
    step: Annotated[int | None, Query(ge=1, le=MAX_STEP, description="A past step; omit it for the next one.")] = None,
) -> Response:
    """Exactly what the next step would send, or what a past step sent. If the last run has completed, the next step
    will also send the message that starts it."""
    async with services.history.whole(session_id):
        view = await services.history.context(session_id, step=step)
        return await asyncio.to_thread(json_response, view)


@router.get("/tools", responses=problems("session_not_found", "unknown_model"))
async def list_tools(services: Services, session_id: SessionId) -> ToolList:
    """The tools that the next step offers, each with its source and its tokens, and the session's MCP servers as of
    their last connection. They are connected while a run is active."""
    return await services.history.tools(session_id)


@router.get("/steps", responses=problems("session_not_found", "malformed_cursor"))
async def list_steps(services: Services, session_id: SessionId, after: Cursor = None, limit: Limit = 100) -> StepPage:
    """All attempts of all steps, oldest first."""
    return await services.history.steps(session_id, after=after, limit=limit)


@router.get("/search", responses=problems("session_not_found"))
async def search_messages(
    services: Services,
    session_id: SessionId,
    q: Annotated[
        Text,
        Query(min_length=1, max_length=500, description='Words, `"phrases"` and paths to find.', examples=["port"]),
    ],
    limit: Annotated[int, Query(ge=1, le=40, description="Maximum number of results.")] = 20,
) -> SearchResult:
    """Places in the history that match a query, best first; if no place has any of its words, parts of words are
    matched. Covers everything that was said, called and returned, whether the model still sees it or not, except
    reasoning and the running step."""
    return await services.history.search(session_id, q, limit=limit)


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
async def get_tool_output(services: Services, session_id: SessionId, call_id: CallId, share: DownloadShare) -> Response:
    """The full raw output of a call, even if it was pruned from the context; supports `Range`."""
    raw = await services.history.tool_output(session_id, call_id)
    return RawResponse(raw, name=f"{call_id}.txt", media_type="text/plain; charset=utf-8")


@router.get(
    "/images/{digest}",
    response_class=Response,
    responses={
        **IMAGE_CONTENT,
        **problems("session_not_found", "image_not_found", "range_not_satisfiable", "too_many_downloads"),
    },
)
async def get_image(
    services: Services,
    session_id: SessionId,
    digest: Annotated[
        str,
        Path(description="As in the message.", pattern="^[0-9a-f]{64}$", examples=["0" * 64]),
    ],
    share: DownloadShare,
) -> Response:
    """An image of a message, whether it is still in the context or not; supports `Range`."""
    image = await services.history.image(session_id, digest)
    suffix = image.media_type.partition("/")[2]
    return RawResponse(image.raw, name=f"{digest[:16]}.{suffix}", media_type=image.media_type)


@compactions_router.post(
    "",
    status_code=202,
    response_model=CompactionEvent,
    responses={
        200: {"model": CompactionPreview, "description": "What a round would do; nothing is changed."},
        **problems("session_not_found", "subagent_session", "compaction_in_progress", "unknown_model", "too_many_runs"),
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


@compactions_router.get("", responses=problems("session_not_found"))
async def list_compactions(services: Services, session_id: SessionId) -> CompactionList:
    """All compaction rounds, oldest first, including failed ones."""
    return await services.compactions.list(session_id)


@compactions_router.delete(
    "/{round}",
    status_code=204,
    responses=problems(
        "session_not_found", "subagent_session", "round_not_found", "not_the_latest_round", "compaction_in_progress"
    ),
)
async def revert_compaction(services: Services, session_id: SessionId, round: Round) -> Response:
    """Reverts the latest round: the context is as if it had not happened; later messages stay."""
    await services.compactions.revert(session_id, round)
    return Response(status_code=204)


@events_router.get(
    "/sessions/{session_id}/events",
    response_class=Response,
    responses={
        200: {"description": "The session's events.", "content": event_stream()},
        204: {"description": "With `until=idle`: there are no events after the given seq, and no run is active."},
        **problems("session_not_found", "malformed_event_id", "ahead_of_log", "too_many_readers"),
    },
)
async def stream_events(
    services: Services,
    request: Request,
    session_id: SessionId,
    after: Annotated[
        Seq, Query(description="The seq of the last event that the client has; omit it to get all events.")
    ] = None,
    until: Annotated[Literal["idle"] | None, Query(description="`idle` ends the stream when no run is active.")] = None,
    last_event_id: Annotated[Seq, Header(description="Like `after`, and takes precedence over it.")] = None,
) -> Response:
    """Durable events after the given seq, then one delta for each open part, then live events."""
    subscription = await services.events.follow(
        session_id, after=start_after(after, last_event_id), until_idle=until == "idle"
    )
    return EventStreamResponse(subscription, request.app.state.config)


@events_router.get(
    "/sessions/{session_id}/log",
    response_model=EventPage,
    responses=problems("session_not_found", "malformed_cursor"),
)
async def list_events(
    services: Services,
    session_id: SessionId,
    after: Cursor = None,
    limit: Limit = 100,
    types: Annotated[
        Text | None,
        WithJsonSchema(TYPES_SCHEMA),
        Query(description="Comma-separated event names; omit it to list all."),
    ] = None,
    order: Annotated[Literal["asc", "desc"], Query(description="`desc` starts with the newest event.")] = "asc",
) -> Response:
    """Durable events in pages, for searching and inspection; to follow a session, read its stream. `after` is a seq or
    the `next_cursor` of the previous page; the page has the events that follow it in `order`. A page may have fewer
    events than `limit`, or none, if many are filtered out or they are large; `next_cursor` is null only at the end of
    the log."""
    page = await services.events.page(
        session_id, after=after, limit=limit, types=event_types(types), newest_first=order == "desc"
    )
    return Response(page_body(page), media_type="application/json")


@events_router.get(
    "/events",
    response_class=Response,
    responses={
        200: {"description": "`session.*` events.", "content": event_stream(prefix="session.")},
        **problems("too_many_readers", "malformed_cursor", "cursor_expired"),
    },
)
async def stream_all_events(
    services: Services,
    request: Request,
    after: Annotated[
        Text | None,
        Query(
            max_length=500,
            description="The `cursor` of the last event that the client has: events since then are sent first,"
            " some of them again: for each session the newest event of each type, or a `session.updated` in place of"
            " older ones if there are many. Omit it for events from now on.",
        ),
    ] = None,
    activity: Annotated[bool, Query(description="Adds `session.activity`: what each session is doing.")] = False,
) -> Response:
    """`session.*` events of all sessions from now on, without ids, to keep a list of sessions up to date. Their data
    also has a `cursor`, with which a reader can continue for ten minutes."""
    return EventStreamResponse(services.events.follow_all(after, activity=activity), request.app.state.config)
