"""Events: those of one session as a stream or in pages, and the changes of all sessions."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import WithJsonSchema

from app.api.deps import Cursor, Limit, Services, SessionId
from app.api.log import TYPES_SCHEMA, event_types, page_body
from app.api.openapi import event_stream
from app.api.problems import problems
from app.api.schemas import EventPage
from app.api.stream import MAX_SEQ, EventStreamResponse, start_after
from app.runtime.values.fields import Text

router = APIRouter(prefix="/v1", tags=["events"])

Seq = Annotated[str | None, WithJsonSchema({"type": "integer", "minimum": 0, "maximum": MAX_SEQ})]


@router.get(
    "/sessions/{session_id}/events",
    response_class=Response,
    responses={
        200: {"description": "The session's events.", "content": event_stream()},
        **problems("session_not_found", "malformed_event_id", "ahead_of_log", "too_many_readers"),
    },
)
async def follow_session(
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


@router.get(
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


@router.get(
    "/events",
    response_class=Response,
    responses={
        200: {"description": "`session.*` events.", "content": event_stream(prefix="session.")},
        **problems("too_many_readers"),
    },
)
async def follow_all_sessions(services: Services, request: Request) -> Response:
    """`session.*` events of all sessions from now on, without ids, to keep a list of sessions up to date."""
    return EventStreamResponse(services.events.follow_all(), request.app.state.config)
