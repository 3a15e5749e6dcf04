"""The error tree. Each business error has a stable `code` and an HTTP status; only `api/errors.py` renders them.

PalimpsestError
├── InvalidRequestError          422  the request cannot be carried out
│   ├── ValidationFailedError    422  missing, unknown or invalid fields
│   ├── UnknownModelError        422  no such provider or model
│   └── MissingApiKeyError       422  the provider needs a key and none is configured
├── MalformedRequestError        400  an invalid cursor, event id or range
│   ├── HeadTimeoutError         408  the head of a request does not arrive
│   └── HeadTooLargeError        431  the head of a request is over its limit
├── WrongKeyError                401  invalid API key
├── NotFoundError                404  no such session, message, call or file
├── GoneError                    410  removed, by age or by size
├── ForbiddenError               403  outside the workspace, or beyond what the operator allows
├── ConflictError                409  the record has another state or other content
├── PreconditionFailedError      412  the file is another version than the request names
├── TooLargeError                413  a body or a file over its limit
│   └── MessageTooLargeError     413  a message too large even after compaction
├── QueueFullError               429  too many pending messages
├── TooManyAttemptsError         429  too many attempts with wrong keys
├── TooManyRunsError             429  too many runs are waiting, or the key has too many
├── UnavailableError             503  a part of the server is temporarily unavailable
│   ├── ServerBusyError          503  the server is at the limit of its settings
│   ├── SandboxUnavailableError  503
│   │   └── SandboxAwayError     503  the sandbox backend does not answer; it may come back
│   ├── StorageError             503  the database refused a write
│   │   ├── StorageBusyError     503  another process holds the database
│   │   └── StorageFullError     507  its disk is full
│   ├── SupersededError          503  another server has taken the database over
│   └── WorkspaceStoreError      503  the store of workspaces' snapshots does not answer
├── StaleOwnerError              409  another owner has taken the session over
├── ProviderError                502  the model provider failed; says whether a retry may help
│   ├── AnswerError              502  it answered with an error
│   ├── ReshapeError             502  the provider refuses how the history treats reasoning or images
│   └── ContextOverflowError     502  the request does not fit the model's window
├── SandboxError                 500  the sandbox failed
│   └── WorkspaceFullError       507  the workspace's disk is full
└── ToolError                    422  shown to the model as the call's result, never to a client
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

Reshape = Literal["echo_reasoning", "drop_block", "drop_images", "clear_images"]
"""How a history must treat reasoning or images differently so that its provider accepts it."""


PROBLEM_MEDIA_TYPE = "application/problem+json"


class PalimpsestError(Exception):
    """Base of all errors that may be shown to users.

    `detail` is a sentence for people, without secrets; `extra` holds the code's own fields of the problem document.
    """

    status: ClassVar[int] = 500
    code: str = "internal_error"
    title: ClassVar[str] = "Internal error"
    retry_after_s: ClassVar[int] = 1
    """Seconds until a retry may help, for statuses that say so: a queue drains within a step, a database lock within a
    second."""

    def __init__(self, detail: str, *, code: str | None = None, **extra: Any) -> None:
        # It may quote a provider or a model, and a NUL can neither be stored nor shown everywhere.
        detail = detail.replace("\0", "\ufffd")
        super().__init__(detail)
        self.detail = detail
        self.extra = extra
        if code is not None:
            self.code = code

    def problem(self, instance: str | None = None) -> dict[str, Any]:
        """The RFC 9457 document of this error."""
        return {
            "type": f"urn:palimpsest:{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "instance": instance,
            "code": self.code,
            **self.extra,
        }


class InvalidRequestError(PalimpsestError):
    status = 422
    code = "invalid_request"
    title = "The request cannot be carried out"


class ValidationFailedError(InvalidRequestError):
    """`errors` lists the invalid fields as `{field, message}`; submitted values are never repeated."""

    code = "validation_error"
    title = "The request has invalid fields"


class UnknownModelError(InvalidRequestError):
    code = "unknown_model"
    title = "Unknown model"


class MissingApiKeyError(InvalidRequestError):
    code = "missing_api_key"
    title = "No API key for the provider"


class MalformedRequestError(PalimpsestError):
    status = 400
    code = "malformed_request"
    title = "The request cannot be read"


class HeadTimeoutError(MalformedRequestError):
    status = 408
    code = "head_timeout"


class HeadTooLargeError(MalformedRequestError):
    status = 431
    code = "head_too_large"


class WrongKeyError(PalimpsestError):
    status = 401
    code = "wrong_key"
    title = "Invalid API key"


class NotFoundError(PalimpsestError):
    status = 404
    code = "not_found"
    title = "Not found"


class GoneError(PalimpsestError):
    status = 410
    code = "gone"
    title = "No longer available"


class ForbiddenError(PalimpsestError):
    status = 403
    code = "forbidden"
    title = "Not allowed"


class ConflictError(PalimpsestError):
    status = 409
    code = "conflict"
    title = "Conflict with the current state"


class PreconditionFailedError(PalimpsestError):
    status = 412
    code = "precondition_failed"
    title = "The version of the file does not match"


class TooLargeError(PalimpsestError):
    status = 413
    code = "too_large"
    title = "Too large"


class MessageTooLargeError(TooLargeError):
    """The message does not fit its session's window even after compaction. `extra` has its `tokens` and the `room` for
    a message, both in tokens by the calibrated estimate."""

    code = "message_too_large"
    title = "The message does not fit the model's window"


class QueueFullError(PalimpsestError):
    status = 429
    code = "queue_full"
    title = "The queue is full"


class TooManyAttemptsError(PalimpsestError):
    status = 429
    code = "too_many_attempts"
    title = "Too many attempts with wrong keys"


class TooManyRunsError(PalimpsestError):
    status = 429
    code = "too_many_runs"
    title = "Too many runs"
    retry_after_s = 5


class UnavailableError(PalimpsestError):
    status = 503
    code = "unavailable"
    title = "Temporarily unavailable"


class ServerBusyError(UnavailableError):
    code = "server_busy"
    title = "The server is at its limit"
    retry_after_s = 5


class SandboxUnavailableError(UnavailableError):
    code = "sandbox_unavailable"
    title = "No sandbox is available"


class SandboxAwayError(SandboxUnavailableError):
    """The request is valid, and may succeed if it is retried."""


class StorageError(UnavailableError):
    code = "storage_unavailable"
    title = "The database refused the write"


class StorageBusyError(StorageError):
    code = "storage_busy"
    title = "Another process has locked the database"


class StorageFullError(StorageError):
    status = 507
    code = "storage_full"
    title = "The database's disk is full"
    retry_after_s = 5


class SupersededError(UnavailableError):
    code = "superseded"
    title = "Another server has taken over"
    retry_after_s = 5


class WorkspaceStoreError(UnavailableError):
    code = "workspace_store_unavailable"
    title = "The workspace store is not available"
    retry_after_s = 5


class StaleOwnerError(PalimpsestError):
    status = 409
    code = "stale_owner"
    title = "Another owner has taken the session over"


class ProviderError(PalimpsestError):
    """A model call failed.

    `retryable` says whether the same request may succeed later; `retry_after` is the provider's own value, in seconds;
    `http_status` is the provider's status, None for a connection error or an error inside a stream.
    """

    status = 502
    code = "provider_error"
    title = "The model provider failed"

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        http_status: int | None = None,
    ) -> None:
        super().__init__(detail, code=code)
        self.retryable = retryable
        self.retry_after = retry_after
        self.http_status = http_status


class AnswerError(ProviderError):
    """The provider answered with an error. `body` is the text of the answer, to learn from. `meant_status` is its HTTP
    status, or the equivalent status of an error inside a stream; None if unknown. `parameters` are the optional
    parameters that the request had. What `is_explained` cannot be answered by another request.
    """

    def __init__(
        self, detail: str, *, body: str, meant_status: int | None = None, is_explained: bool = False, **fields: Any
    ) -> None:
        super().__init__(detail, **fields)
        self.body = body
        self.meant_status = self.http_status if meant_status is None else meant_status
        self.parameters: tuple[str, ...] = ()
        self.is_explained = is_explained


class ReshapeError(ProviderError):
    """The provider refuses how the history treats reasoning or images; the step is retried with the history reshaped:
    with the model's own reasoning sent back (`echo_reasoning`), without thinking that the provider cannot verify
    (`drop_block`), with texts instead of images from now on (`drop_images`), or of those so far (`clear_images`)."""

    title = "The provider refused the history's reasoning or images"

    def __init__(self, detail: str, *, reshape: Reshape, http_status: int | None = None) -> None:
        super().__init__(detail, code=f"reshape_{reshape}", http_status=http_status)
        self.reshape = reshape


class ContextOverflowError(ProviderError):
    """The request is larger than the model's window; `limit` is the window in tokens if the provider named it,
    `requested` the size that it counted. `prompt` is the prompt's part of that size, if the requested output tokens are
    known to be counted too. A `guess` is a refusal that may have another reason."""

    code = "context_overflow"
    title = "The request does not fit the model's context window"

    def __init__(
        self,
        detail: str,
        *,
        limit: int | None = None,
        requested: int | None = None,
        prompt: int | None = None,
        http_status: int | None = None,
        guess: bool = False,
    ) -> None:
        super().__init__(detail, http_status=http_status)
        self.guess = guess
        self.limit = limit
        self.requested = requested
        self.prompt = prompt


class SandboxError(PalimpsestError):
    code = "sandbox_error"
    title = "The sandbox failed"


class WorkspaceFullError(SandboxError):
    status = 507
    code = "workspace_full"
    title = "The workspace's disk is full"
    retry_after_s = 5


class ToolError(PalimpsestError):
    """A tool call that failed in a way the model can fix; `detail` tells the model what to do."""

    status = 422
    code = "tool_error"
    title = "The tool call failed"
