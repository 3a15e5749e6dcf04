"""The catalogue of problems: one example of each code, from which the routes' documentation is made."""

from __future__ import annotations

from typing import Any

from app.api.errors import (
    ForeignOriginError,
    InternalError,
    MalformedEventIdError,
    MalformedJsonError,
    MethodNotAllowedError,
    RangeNotSatisfiableError,
    UnauthorizedError,
    UnsupportedMediaTypeError,
    WrongHostError,
)
from app.errors import (
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidRequestError,
    MalformedRequestError,
    MessageTooLargeError,
    MissingApiKeyError,
    NotFoundError,
    PalimpsestError,
    QueueFullError,
    SandboxError,
    SandboxUnavailableError,
    ServerBusyError,
    StorageBusyError,
    StorageError,
    StorageFullError,
    SupersededError,
    TooLargeError,
    TooManyAttemptsError,
    UnavailableError,
    UnknownModelError,
    ValidationFailedError,
    WorkspaceFullError,
    WrongKeyError,
)

_EXAMPLES: tuple[PalimpsestError, ...] = (
    MalformedRequestError("The Content-Length header cannot be read."),
    MalformedRequestError("The cursor is not one of this server's.", code="malformed_cursor"),
    MalformedJsonError("The body is not valid JSON: unexpected end of data: line 1 column 2 (char 1)."),
    MalformedEventIdError("An event id is a decimal number from 0 up."),
    UnauthorizedError("Send one of the server's API keys as Authorization: Bearer KEY, or log in."),
    WrongKeyError("This is none of the server's API keys."),
    ForbiddenError(
        "sandbox.network goes beyond what this server allows (off), as PALIMPSEST_SANDBOX_NETWORK says.",
        code="sandbox_not_allowed",
    ),
    ForbiddenError("limits.max_steps may be 50 at most.", code="limit_not_allowed"),
    ForbiddenError(
        "approval.policy may only ask for more than this server does (always).", code="approval_not_allowed"
    ),
    ForbiddenError("'../x' leads outside /workspace; links are not followed.", code="outside_workspace"),
    ForeignOriginError("The Origin header names another site."),
    NotFoundError("There is nothing at this path."),
    NotFoundError("There is no session with this id.", code="session_not_found"),
    NotFoundError("There is no queued message with this id.", code="message_not_found"),
    NotFoundError("There is no tool call with this id.", code="call_not_found"),
    NotFoundError("No such call of this session waits for approval.", code="approval_not_found"),
    NotFoundError("The raw output is no longer stored.", code="output_not_found"),
    GoneError(
        "The raw output was removed on 2026-11-22: raw outputs are kept for a limited time, and up to a limited size"
        " for each session.",
        code="output_swept",
        swept_at="2026-11-22T10:11:12.345Z",
    ),
    NotFoundError("There is no file at this path.", code="file_not_found"),
    NotFoundError("The session has no such step.", code="step_not_found"),
    MethodNotAllowedError("This path does not take the method."),
    NotFoundError("The session has no round 7.", code="round_not_found"),
    ConflictError("A compaction of this session is under way.", code="compaction_in_progress"),
    ConflictError("Round 1 cannot be reverted: the latest that can be is 2.", code="not_the_latest_round"),
    ConflictError("The id was used with other content.", code="id_in_use"),
    ConflictError("The message is delivered already.", code="message_not_pending"),
    ConflictError("The step of this message is still under way.", code="message_open"),
    ConflictError("The call waits no more: denied by timeout at 2026-11-22T10:11:12.345Z.", code="approval_resolved"),
    ConflictError("The session is running.", code="session_running"),
    ConflictError("The last run completed: there is nothing to resume.", code="nothing_to_resume"),
    ConflictError(
        "The session has used 203,518 of the 200,000 tokens that limits.max_tokens allows. Raise that limit with PATCH"
        " /v1/sessions/{id}, then resume.",
        code="max_tokens",
        limit=200_000,
        used=203_518,
    ),
    ConflictError(
        "The session has cost 1.52 of the 1.5 US dollars that limits.max_cost_usd allows. Raise that limit with PATCH"
        " /v1/sessions/{id}, then resume.",
        code="max_cost_usd",
        limit=1.5,
        used=1.52,
    ),
    ConflictError("The call has no result yet.", code="call_open"),
    ConflictError("The session's last event is 41, not 50.", code="ahead_of_log", last_seq=41),
    TooLargeError("The body is larger than 1048576 bytes.", limit_bytes=1_048_576),
    MessageTooLargeError(
        "The message has about 48,120 tokens, and a message may have 10,312 in the window of local/model (16,000"
        " tokens, less the room for the answer, the system text and the tools). Shorten it, put the text into a file of"
        " the workspace and name that in the message, or choose a model with a larger window.",
        tokens=48_120,
        room=10_312,
    ),
    UnsupportedMediaTypeError("A body needs Content-Type: application/json."),
    RangeNotSatisfiableError("The content has 512 bytes."),
    WrongHostError("The Host header names neither loopback nor a host in PALIMPSEST_ALLOWED_HOSTS."),
    ValidationFailedError(
        "The request is not valid: limits.max_steps: input should be greater than or equal to 1.",
        errors=[{"field": "limits.max_steps", "message": "Input should be greater than or equal to 1"}],
    ),
    InvalidRequestError(
        "compaction.clip_chars: Input should be greater than or equal to 100; compaction.nonsense: There is no such"
        " setting",
        code="invalid_compaction",
        field="compaction.clip_chars",
        errors=[
            {"field": "compaction.clip_chars", "message": "Input should be greater than or equal to 100"},
            {"field": "compaction.nonsense", "message": "There is no such setting"},
        ],
    ),
    InvalidRequestError("There is no tool 'fly'.", code="unknown_tool"),
    InvalidRequestError("metadata may have 16,384 bytes.", code="metadata_too_large"),
    InvalidRequestError("The path holds a NUL character.", code="invalid_path"),
    InvalidRequestError("'src' is not a regular file.", code="not_a_file"),
    InvalidRequestError("'a.txt' is not a directory.", code="not_a_directory"),
    InvalidRequestError("'closed' may not be accessed.", code="permission_denied"),
    InvalidRequestError("A stream of a new session needs a task.", code="task_required"),
    InvalidRequestError(
        "history.messages[3]: role should be one of system, user, assistant.", code="invalid_history", index=3
    ),
    UnknownModelError("There is no provider of this name."),
    MissingApiKeyError("The provider needs a key and none is configured."),
    QueueFullError("100 messages are waiting already."),
    TooManyAttemptsError("Too many wrong keys were given; try again in a second."),
    InternalError("The server failed to answer; its log says why."),
    SandboxError("The sandbox could not list the files."),
    UnavailableError("The server is starting or stopping."),
    SupersededError("Another server has been started on this database; it has the sessions now."),
    SandboxUnavailableError("No Docker Engine answers, and bubblewrap is not installed."),
    WorkspaceFullError("'big.bin' cannot be written: the disk of the workspace is full."),
    StorageError("The database refused the write."),
    StorageBusyError("The database refused the write: database is locked."),
    StorageFullError("The database refused the write: database or disk is full."),
    ServerBusyError("1,000 runs are waiting already; try again when some have begun.", code="too_many_runs"),
    ServerBusyError("1,000 streams of events are open already.", code="too_many_readers"),
    ServerBusyError("Other bodies fill the memory that there is for them.", code="too_many_bodies"),
    SandboxUnavailableError("All 100 sandboxes are in use; try again when one is free.", code="too_many_sandboxes"),
    SandboxUnavailableError(
        "The sandbox cannot be limited to allowed_hosts: the server cannot enter networks of docker here, as root on"
        " one machine can.",
        code="allowed_hosts_unavailable",
    ),
    UnavailableError(
        "Not all parts of the server answer.",
        code="not_ready",
        ready=False,
        degraded=True,
        components={
            "database": {"ok": True, "status": "ok", "detail": "writes and reads"},
            "sandbox": {"ok": False, "status": "unavailable", "detail": "no answer"},
        },
    ),
)

CATALOGUE: dict[str, PalimpsestError] = {error.code: error for error in _EXAMPLES}
"""Every code that a client can meet on its own request, with an example of its error."""


def problems(*codes: str) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that can answer with these codes: by status, with an example for each code."""
    responses: dict[int | str, dict[str, Any]] = {}
    for code in codes:
        add_problem(responses, code)
    return responses


def add_problem(responses: dict[Any, dict[str, Any]], code: str, *, key: type[int] | type[str] = int) -> None:
    """Adds `code` to `responses`; OpenAPI's own documents have text as keys, FastAPI's arguments numbers."""
    error = CATALOGUE[code]
    response = responses.setdefault(key(error.status), {"description": error.title, "content": {}})
    media = response["content"].setdefault(
        "application/problem+json", {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": {}}
    )
    media["examples"][code] = {"summary": error.title, "value": error.problem("/v1/sessions")}
