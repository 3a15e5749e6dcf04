"""Event streams: one session's, and the changes of all sessions."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import WithJsonSchema

from app.api.deps import Services, SessionId
from app.api.openapi import event_stream
from app.api.problems import problems
from app.api.stream import MAX_SEQ, EventStreamResponse, start_after

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
        Seq, Query(description="The seq of the last event that the reader has; left out, all are sent.")
    ] = None,
    until: Annotated[Literal["idle"] | None, Query(description="`idle` ends the stream when nothing runs.")] = None,
    last_event_id: Annotated[Seq, Header(description="As `after`, and wins over it.")] = None,
) -> Response:
    """Durable events after the given seq, then one delta for each open part, then live."""
    subscription = await services.events.follow(
        session_id, after=start_after(after, last_event_id), until_idle=until == "idle"
    )
    return EventStreamResponse(subscription, request.app.state.config)


@router.get(
    "/events",
    response_class=Response,
    responses={
        200: {"description": "`session.*` events.", "content": event_stream(prefix="session.")},
        **problems("too_many_readers"),
    },
)
async def follow_all_sessions(services: Services, request: Request) -> Response:
    """`session.*` events of all sessions from now on, without ids: for a list that keeps itself fresh."""
    return EventStreamResponse(services.events.follow_all(), request.app.state.config)
