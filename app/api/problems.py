"""The catalog of problems: one example per error code; the OpenAPI document uses them."""

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
    HeadTimeoutError,
    HeadTooLargeError,
    InvalidRequestError,
    MalformedRequestError,
    MessageTooLargeError,
    MissingApiKeyError,
    NotFoundError,
    PalimpsestError,
    PreconditionFailedError,
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
    TooManyRunsError,
    UnavailableError,
    UnknownModelError,
    ValidationFailedError,
    WorkspaceFullError,
    WorkspaceStoreError,
    WrongKeyError,
)
from app.runtime.checkpoints.repository import CheckpointError, GitMissingError

_EXAMPLES: tuple[PalimpsestError, ...] = (
    MalformedRequestError("The Content-Length header is invalid."),
    MalformedRequestError("The cursor is invalid.", code="malformed_cursor"),
    HeadTimeoutError("The head of the request did not arrive within 10 seconds."),
    HeadTooLargeError("The request line and headers are larger than 65536 bytes."),
    MalformedJsonError("The body is not valid JSON: unexpected end of data: line 1 column 2 (char 1)."),
    MalformedEventIdError("An event id must be a decimal number, 0 or greater."),
    UnauthorizedError("Send one of the server's API keys as Authorization: Bearer KEY, or log in."),
    WrongKeyError("That key isn't valid."),
    ForbiddenError(
        "sandbox.network exceeds the server's limit (off), set by PALIMPSEST_SANDBOX_NETWORK.",
        code="sandbox_not_allowed",
    ),
    ForbiddenError("limits.max_steps may be at most 50.", code="limit_not_allowed"),
    ForbiddenError("approval.policy must be at least as strict as the server's (always).", code="approval_not_allowed"),
    ForbiddenError("'../x' leads outside /workspace.", code="outside_workspace"),
    ForeignOriginError("The Origin header names another site."),
    NotFoundError("No route matches this path."),
    NotFoundError("There is no session with this id.", code="session_not_found"),
    NotFoundError("There is no queued message with this id.", code="message_not_found"),
    NotFoundError("There is no tool call with this id.", code="call_not_found"),
    NotFoundError("The session has no background command with this id.", code="command_not_found"),
    NotFoundError("No such call of this session waits for approval.", code="approval_not_found"),
    NotFoundError("There is no webhook with this id.", code="webhook_not_found"),
    NotFoundError("The webhook has no delivery with this id.", code="delivery_not_found"),
    NotFoundError("The raw output is no longer stored.", code="output_not_found"),
    NotFoundError("The session has no secret API_TOKEN.", code="secret_not_found"),
    ConflictError("A session may have at most 32 secrets.", code="too_many_secrets"),
    GoneError(
        "The raw output was removed on 2026-11-22: raw outputs are kept for a limited time, and up to a limited size"
        " for each session.",
        code="output_swept",
        swept_at="2026-11-22T10:11:12.345Z",
    ),
    GoneError("The cursor is too old; load the list of sessions again.", code="cursor_expired"),
    NotFoundError("There is no file at this path.", code="file_not_found"),
    NotFoundError("The session has no checkpoint with this id.", code="checkpoint_not_found"),
    NotFoundError("The session has no such step.", code="step_not_found"),
    MethodNotAllowedError("This path does not support the method."),
    NotFoundError("The session has no round 7.", code="round_not_found"),
    ConflictError("A compaction of this session is already running.", code="compaction_in_progress"),
    ConflictError("Round 1 cannot be reverted; only round 2 can be.", code="not_the_latest_round"),
    ConflictError("The id was already used with different content.", code="id_in_use"),
    ConflictError("The message is already delivered.", code="message_not_pending"),
    ConflictError("The step of this message is still running.", code="message_open"),
    ConflictError("The limit of 200 webhooks is reached.", code="too_many_webhooks", most=200),
    ConflictError("The call no longer waits: denied by timeout at 2026-11-22T10:11:12.345Z.", code="approval_resolved"),
    ConflictError("The call no longer waits: ended by client at 2026-11-22T10:11:12.345Z.", code="call_resolved"),
    ConflictError("The call does not wait for a client, or not yet.", code="call_not_waiting"),
    ConflictError("The session is running.", code="session_running"),
    ConflictError(
        "Session 019a2b00-0000-7000-8000-000000000002 is a sub-agent of 019a2b00-0000-7000-8000-000000000001: it can be"
        " read and cancelled, nothing else.",
        code="subagent_session",
    ),
    ConflictError("Nothing to resume: the last run completed.", code="nothing_to_resume"),
    ConflictError(
        "The session has used 203,518 of 200,000 tokens (limits.max_tokens). Raise that limit with PATCH"
        " /v1/sessions/{id}, then resume.",
        code="max_tokens",
        limit=200_000,
        used=203_518,
    ),
    ConflictError(
        "The session has cost 1.52 of 1.5 US dollars (limits.max_cost_usd). Raise that limit with PATCH"
        " /v1/sessions/{id}, then resume.",
        code="max_cost_usd",
        limit=1.5,
        used=1.52,
    ),
    ConflictError("The call has no result yet.", code="call_open"),
    ConflictError("The session's last event is 41, not 50.", code="ahead_of_log", last_seq=41),
    TooLargeError("The body is larger than 1048576 bytes.", limit_bytes=1_048_576),
    MessageTooLargeError(
        "The message has about 48,120 tokens; at most 10,312 fit in the window of local/model (16,000 tokens, minus the"
        " answer, the system text and the tools). Shorten it, put the text into a file of the workspace and name that"
        " in the message, or choose a model with a larger window.",
        tokens=48_120,
        room=10_312,
    ),
    UnsupportedMediaTypeError("The body requires Content-Type: application/json."),
    RangeNotSatisfiableError("The content has only 512 bytes."),
    WrongHostError("The Host header is neither loopback nor a host in PALIMPSEST_ALLOWED_HOSTS."),
    ValidationFailedError(
        "The request is not valid: limits.max_steps: input should be greater than or equal to 1.",
        errors=[{"field": "limits.max_steps", "message": "Input should be greater than or equal to 1"}],
    ),
    InvalidRequestError(
        "compaction.clip_chars: Input should be greater than or equal to 100; compaction.nonsense: Unknown setting",
        code="invalid_compaction",
        field="compaction.clip_chars",
        errors=[
            {"field": "compaction.clip_chars", "message": "Input should be greater than or equal to 100"},
            {"field": "compaction.nonsense", "message": "Unknown setting"},
        ],
    ),
    InvalidRequestError("There is no tool 'fly'.", code="unknown_tool"),
    InvalidRequestError(
        "mcp_servers.docs: 10.1.2.3 is refused: the address is private, this machine's or reserved, and"
        " PALIMPSEST_MCP_NETWORKS does not name it.",
        code="mcp_address_refused",
    ),
    InvalidRequestError(
        "mcp_servers: a session may have at most 16 servers, 32 KiB in total.", code="too_many_mcp_servers"
    ),
    InvalidRequestError("metadata may have at most 16,384 bytes.", code="metadata_too_large"),
    InvalidRequestError("The path contains a NUL character.", code="invalid_path"),
    InvalidRequestError("'src' is not a regular file.", code="not_a_file"),
    InvalidRequestError("'a.txt' is not a directory.", code="not_a_directory"),
    InvalidRequestError("'closed' may not be accessed.", code="permission_denied"),
    InvalidRequestError("Streaming a new session requires a task.", code="task_required"),
    InvalidRequestError(
        "Webhooks to 10.1.2.3 are refused: the address is private, this machine's or reserved, and"
        " PALIMPSEST_WEBHOOK_NETWORKS does not name it.",
        code="webhook_address_refused",
    ),
    InvalidRequestError("The Idempotency-Key was used with another body.", code="idempotency_key_reused"),
    PreconditionFailedError("The file has changed, or exists already."),
    ConflictError(
        "A request with this Idempotency-Key is still being answered; try again.", code="idempotency_key_in_use"
    ),
    InvalidRequestError(
        "history.messages[3]: role should be one of system, user, assistant.", code="invalid_history", index=3
    ),
    UnknownModelError("There is no provider of this name."),
    InvalidRequestError("A message may have at most 20 images, not 21.", code="too_many_images"),
    InvalidRequestError(
        "The images of a message may have at most 20,971,520 bytes in total, not 24,000,000.", code="images_too_large"
    ),
    InvalidRequestError(
        "Part 1 of the content: data is not base64 (RFC 4648, without line breaks or a data: prefix).",
        code="invalid_image_data",
        part=1,
    ),
    InvalidRequestError(
        "Part 1 of the content: by its first bytes, the image is image/jpeg, not image/png.",
        code="image_type_mismatch",
        part=1,
    ),
    InvalidRequestError(
        "Part 1 of the content: an image may have at most 5,242,880 bytes.",
        code="image_too_large",
        part=1,
    ),
    InvalidRequestError(
        "Part 1 of the content: '../x' leads outside /workspace.",
        code="path_outside_workspace",
        part=1,
    ),
    InvalidRequestError(
        "Part 1 of the content: There is no 'a.png' in the workspace.",
        code="path_not_found",
        part=1,
    ),
    InvalidRequestError(
        "Part 1 of the content: 'src' is not a regular file.",
        code="path_not_a_file",
        part=1,
    ),
    InvalidRequestError(
        "The image 'a.png' is in a repository that has not been cloned yet; send its data, or name it as a file.",
        code="path_not_ready",
    ),
    TooLargeError(
        "The images of a session may have at most 536,870,912 bytes in total.",
        code="session_images_full",
        limit_bytes=536_870_912,
    ),
    NotFoundError("The session has no image with this digest.", code="image_not_found"),
    MissingApiKeyError("The provider needs a key and none is configured."),
    QueueFullError("100 messages are already pending."),
    TooManyAttemptsError("Too many wrong keys; try again in a second."),
    TooManyRunsError("1,000 runs are already waiting; try again later.", most=1_000),
    TooManyRunsError(
        "This API key already has 10 active or waiting runs; try again when one has ended.",
        code="run_quota_reached",
        most=10,
    ),
    InternalError("The server could not handle the request. Its log has the details."),
    SandboxError("The sandbox could not list the files."),
    CheckpointError("Reading the workspace took more than 20 seconds."),
    GitMissingError("git is not installed on the server's machine."),
    UnavailableError("The server is starting or stopping."),
    UnavailableError(
        "Set PALIMPSEST_SECRET_KEY to the same value on all nodes: they share no key file.",
        code="secret_key_missing",
    ),
    SupersededError("Another server was started on this database and has taken over the sessions."),
    SandboxUnavailableError("No Docker Engine answers, and bubblewrap is not installed."),
    WorkspaceFullError("'big.bin' cannot be written: the disk of the workspace is full."),
    WorkspaceStoreError("The workspace store, bucket workspaces, does not answer (Generic)."),
    ConflictError("The session runs on another machine, or is about to; try again.", code="workspace_elsewhere"),
    TooLargeError("The workspace has more than 200,000 files and directories.", code="workspace_too_large"),
    InvalidRequestError("source.git.url must begin with https:// or ssh:// and have a host.", code="invalid_source"),
    InvalidRequestError(
        "The session has no secret 'GIT_TOKEN', which source.git.credential names.", code="unknown_secret"
    ),
    ForbiddenError(
        "The host 10.1.2.3 has the address 10.1.2.3, which is private or this machine's; PALIMPSEST_GIT_NETWORKS can"
        " allow it.",
        code="source_not_allowed",
    ),
    ConflictError("This session is being created; try again later.", code="being_created"),
    ConflictError("A command of the session is running; try again later.", code="command_running"),
    InvalidRequestError(
        "The entry '../x' leads out of the archive's folder; nothing was unpacked.",
        code="invalid_archive",
        entry="../x",
    ),
    TooLargeError(
        "The archive would unpack to more than 1,073,741,824 bytes or 100,000 files and directories.",
        code="archive_too_large",
        limit_bytes=1_073_741_824,
        limit_entries=100_000,
    ),
    SandboxError("The snapshot of the workspace is invalid: content and digest differ.", code="snapshot_invalid"),
    SandboxError("The snapshot is not in the workspace store.", code="snapshot_missing"),
    StorageError("The database refused the write."),
    StorageBusyError("The database refused the write: database is locked."),
    StorageFullError("The database refused the write: database or disk is full."),
    ServerBusyError("The limit of 1,000 open event streams is reached.", code="too_many_readers"),
    ServerBusyError("The memory for request bodies is in use by other requests.", code="too_many_bodies"),
    ServerBusyError("The memory for downloads is in use by other requests.", code="too_many_downloads"),
    SandboxUnavailableError("All 100 sandboxes are in use; try again when one is free.", code="too_many_sandboxes"),
    SandboxUnavailableError(
        "The sandbox cannot be limited to allowed_hosts: the server cannot enter networks of docker here, as root on"
        " one machine can.",
        code="allowed_hosts_unavailable",
    ),
    UnavailableError(
        "Parts of the server are not ready.",
        code="not_ready",
        ready=False,
        degraded=True,
        components={
            "database": {"ok": True, "status": "ok", "detail": "readable and writable"},
            "sandbox": {"ok": False, "status": "unavailable", "detail": "no answer"},
        },
    ),
)

CATALOG: dict[str, PalimpsestError] = {error.code: error for error in _EXAMPLES}
"""Every code that a client can get for a request, with an example of its error."""


def problems(*codes: str) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that may return these codes: by status, with an example for each code."""
    responses: dict[int | str, dict[str, Any]] = {}
    for code in codes:
        add_problem(responses, code)
    return responses


def add_problem(responses: dict[Any, dict[str, Any]], code: str, *, key: type[int] | type[str] = int) -> None:
    """Adds `code` to `responses`. `key` is the type of its keys: text in an OpenAPI document, numbers in FastAPI."""
    error = CATALOG[code]
    response = responses.setdefault(key(error.status), {"description": error.title, "content": {}})
    media = response["content"].setdefault(
        "application/problem+json", {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": {}}
    )
    media["examples"][code] = {"summary": error.title, "value": error.problem("/v1/sessions")}
