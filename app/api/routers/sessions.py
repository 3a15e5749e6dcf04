"""Sessions: create, list, get, update, delete, cancel, resume, fork."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response

from app.api.dependencies import METADATA_PARAMETER, STRICT, Caller, Cursor, Limit, MetadataFilter, Services, SessionId
from app.api.forwarding import forwarded
from app.api.idempotency import made_id
from app.api.openapi import PARTS_BODY, event_stream
from app.api.problems import problems
from app.api.request_bodies import JsonRequest, JsonRoute
from app.api.responses import EventStreamResponse
from app.api.routers.queue import CONTENT
from app.errors import InvalidRequestError
from app.runtime.values.sessions import CancelRequest, ForkCreate, SessionCreate, SessionPage, SessionPatch, Text
from app.sessions import Session, SessionFilter, SessionSort

router = APIRouter(prefix="/v1/sessions", tags=["sessions"], route_class=JsonRoute, dependencies=STRICT)
forks_router = APIRouter(prefix="/v1/sessions", tags=["sessions"], route_class=JsonRoute, dependencies=STRICT)

LOCATION: dict[str, Any] = {"Location": {"description": "The session's path.", "schema": {"type": "string"}}}
CREATED: dict[int | str, dict[str, Any]] = {
    200: {
        "model": Session,
        "description": "The session that was created earlier with the same `id` and content; or, with `Accept:"
        " text/event-stream`, the session's events from the first to the end of its run, with its id in `Session-Id`.",
        "headers": {
            **LOCATION,
            "Session-Id": {"description": "The session's id, on a stream.", "schema": {"type": "string"}},
        },
        "content": event_stream(),
    },
    201: {"description": "The new session.", "headers": LOCATION},
}
REFUSED = (
    "limit_not_allowed",
    "approval_not_allowed",
    "unknown_model",
    "missing_api_key",
    "unknown_tool",
    "mcp_address_refused",
    "too_many_mcp_servers",
    "invalid_compaction",
    "metadata_too_large",
)
CREATE_REFUSED = (
    "sandbox_not_allowed",
    "id_in_use",
    *REFUSED,
    "invalid_history",
    "message_too_large",
    "task_required",
    "sandbox_unavailable",
    "allowed_hosts_unavailable",
    "secret_key_missing",
    "too_many_runs",
    "run_quota_reached",
    "too_many_readers",
    "being_created",
    "invalid_source",
    "source_not_allowed",
    "unknown_secret",
    "invalid_archive",
    "archive_too_large",
    "sandbox_error",
    "workspace_full",
    "workspace_store_unavailable",
    *CONTENT,
)


@router.post(
    "",
    status_code=201,
    response_model=Session,
    openapi_extra={"requestBody": PARTS_BODY},
    responses={
        **CREATED,
        **problems(*CREATE_REFUSED),
    },
)
async def create_session(
    services: Services,
    caller: Caller,
    request: Request,
    response: Response,
    body: SessionCreate,
    accept: Annotated[str, Header(description="`text/event-stream` streams the new session's events.")] = "*/*",
) -> Session | Response:
    """Creates a session; with `task`, the task is queued and the run starts. Refused if the task, or the last user
    message of `history`, cannot fit the model's window. As `multipart/form-data`, `session` is the JSON and `archive` a
    tar, tar.gz, tar.zst or zip, which is unpacked in the workspace before the first step."""
    stream = wants_stream(accept)
    if stream and body.task is None:
        raise InvalidRequestError("Streaming a new session requires a task.", code="task_required")
    if stream:
        # Checked before the session is created: a client that must retry would create a second one.
        services.events.check_room()
    body = body if body.id else body.model_copy(update={"id": made_id(request.scope)})
    archive = request.archive if isinstance(request, JsonRequest) else None
    session, created = await services.sessions.create(body, caller, archive)
    location = f"/v1/sessions/{session.id}"
    if stream:
        subscription = await services.events.follow(session.id, after=0, until_idle=True, promised=True)
        headers = {"Location": location, "Session-Id": session.id}
        return EventStreamResponse(subscription, request.app.state.config, headers)
    response.status_code = 201 if created else 200
    response.headers["Location"] = location
    return session


@router.get("", responses=problems("malformed_cursor"), openapi_extra={"parameters": [METADATA_PARAMETER]})
async def list_sessions(
    services: Services,
    status: Annotated[
        SessionFilter | None,
        Query(
            description="Only sessions with this status; `needs_attention`: those that wait for an approval or a"
            " client's result, or have failed and are `unseen`."
        ),
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    q: Annotated[
        Text | None,
        Query(max_length=500, description="Only sessions whose title or task contains this text."),
    ] = None,
    sort: Annotated[
        SessionSort, Query(description="`created`: newest first. `activity`: the one with the last event first.")
    ] = "created",
    parent_id: Annotated[
        Text | None, Query(max_length=100, description="Only forks and sub-agents of this session.")
    ] = None,
    *,
    metadata: MetadataFilter,
) -> SessionPage:
    """Sessions, without sub-agents unless `parent_id` is given. A page may have fewer than `limit` if their tasks are
    large. A cursor keeps the order that it came from. Sorted by `activity`, a session that changes meanwhile moves to
    the front, and may be missing from later pages."""
    return await services.sessions.list(
        status=status, q=q, parent_id=parent_id, metadata=metadata, limit=limit, cursor=cursor, sort=sort
    )


@router.get("/{session_id}", responses=problems("session_not_found"))
async def get_session(services: Services, session_id: SessionId) -> Session:
    """One session as it is now."""
    return await services.sessions.get(session_id)


@router.patch("/{session_id}", responses=problems("session_not_found", "subagent_session", *REFUSED))
async def patch_session(services: Services, session_id: SessionId, body: SessionPatch) -> Session:
    """Changes the given fields; takes effect from the next step."""
    return await services.sessions.patch(session_id, body)


@router.delete(
    "/{session_id}",
    status_code=204,
    responses=problems("session_not_found", "subagent_session", "sandbox_unavailable", "sandbox_error"),
)
async def delete_session(services: Services, session_id: SessionId) -> None:
    """Cancels the session, removes its sandbox and then deletes all its data."""
    await services.sessions.delete(session_id)


@router.post("/{session_id}/seen", status_code=204, responses=problems("session_not_found"))
async def mark_session_seen(services: Services, session_id: SessionId) -> None:
    """Marks the end of the last run as seen: `unseen` is false until another run ends. There is no event."""
    await services.sessions.mark_seen(session_id)


@router.post("/{session_id}/cancel", status_code=202, responses=problems("session_not_found"))
async def cancel_session(services: Services, session_id: SessionId, body: CancelRequest | None = None) -> Session:
    """Ends the step within two seconds and keeps its partial output. Pending messages are held unless cleared."""
    return await services.sessions.cancel(session_id, clear_queue=body is not None and body.clear_queue)


@router.post(
    "/{session_id}/resume",
    status_code=202,
    responses=problems(
        "session_not_found",
        "subagent_session",
        "session_running",
        "nothing_to_resume",
        "max_tokens",
        "max_cost_usd",
        "too_many_runs",
        "run_quota_reached",
    ),
)
async def resume_session(services: Services, caller: Caller, session_id: SessionId) -> Session:
    """Continues after a run that was cancelled, failed, was interrupted or reached a limit. The limits per run,
    `max_steps` and `max_seconds`, start again; those per session, `max_tokens` and `max_cost_usd`, must be raised with
    `PATCH` first."""
    return await services.sessions.resume(session_id, caller)


@forks_router.post(
    "/{session_id}/fork",
    status_code=201,
    response_model=Session,
    responses={
        201: {"description": "The new session.", "headers": LOCATION},
        **problems(
            "session_not_found",
            "subagent_session",
            "message_not_found",
            "message_open",
            "being_created",
            "sandbox_unavailable",
            "allowed_hosts_unavailable",
            "sandbox_error",
            "workspace_full",
            "workspace_store_unavailable",
            "snapshot_invalid",
            "snapshot_missing",
        ),
    },
)
async def fork_session(
    services: Services, request: Request, response: Response, session_id: SessionId, body: ForkCreate | None = None
) -> Session | Response:
    """Creates a session with this one's history up to a message and a copy of its current workspace; this one
    continues. Calls stay with their results, and a running step is left out. Usage starts at zero."""
    text = None if body is None else body.model_dump_json(exclude_unset=True).encode()
    if (answer := await forwarded(services, request, session_id, "fork", text)) is not None:
        return answer
    session = await services.sessions.fork(session_id, body or ForkCreate(), made_id(request.scope))
    response.headers["Location"] = f"/v1/sessions/{session.id}"
    return session


def wants_stream(accept: str) -> bool:
    """Whether an `Accept` header prefers `text/event-stream` to `application/json`, by weight or by order."""
    weights: dict[str, float] = {}
    for item in accept.lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        weights.setdefault(name, _weight(parameters))
    stream = weights.get("text/event-stream", 0.0)
    best = max(weights, key=lambda name: weights[name])
    return stream > 0 and (best == "text/event-stream" or weights.get("application/json", 0.0) < stream)


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return float(parameter[2:])
            except ValueError:
                return 0.0
    return 1.0
