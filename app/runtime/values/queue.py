"""Messages on their way into a session, and calls that wait for a person or for their result from a client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from app.messages import StoredContent, Timestamp, Value, is_none, parse_arguments
from app.runtime.values.content import MAX_CONTENT_CHARS, Content
from app.runtime.values.sessions import ClientId, OutputRequest, Text
from app.sessions import QueueMode

MAX_REASON_CHARS = 4_000


def given(name: str) -> dict[str, Any]:
    """The JSON Schema of objects in which a field is present and not null."""
    return {"required": [name], "properties": {name: {"not": {"type": "null"}}}}


class QueueAdd(Value):
    """`POST /v1/sessions/{id}/queue`. With `output`, the run that takes the message has to submit that instead of what
    the session says."""

    content: Content
    mode: QueueMode = QueueMode.STEER
    id: ClientId | None = None
    output: OutputRequest | None = None


class QueueEdit(Value):
    """Edits a pending message; at least one field is required."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [given("content"), given("mode")]})

    content: Content | None = None
    mode: QueueMode | None = None

    @model_validator(mode="after")
    def _something(self) -> QueueEdit:
        if self.content is None and self.mode is None:
            raise PydanticCustomError("empty_edit", "Give content, mode or both")
        return self


class QueueReceipt(Value):
    """A queued message's place: `position` counts from 1 in delivery order and is 0 once it is not pending."""

    id: str
    position: int
    mode: QueueMode
    status: Literal["pending", "delivered", "withdrawn"]


class QueuedMessage(QueueReceipt):
    content: StoredContent
    created_at: Timestamp


class QueuePage(Value):
    items: tuple[QueuedMessage, ...]
    last_seq: int


class PendingCall(Value):
    """A call that waits, until `expires_at` if that is set."""

    call_id: str
    message_id: str
    name: str
    arguments: dict[str, Any] | str
    requested_at: Timestamp
    expires_at: Timestamp | None

    @classmethod
    def of_row(cls, row: object, body: Mapping[str, Any], **fields: Any) -> Self:
        """The view of its row, with these other fields; `body` is that of the call."""
        return cls.of(row, name=body["name"], arguments=parse_arguments(body["arguments_text"]), **fields)


class PendingApproval(PendingCall):
    """A call that waits for approval; without a decision by `expires_at`, if set, it is denied. `subagent_id` is set
    for a call of a sub-agent."""

    subagent_id: str | None = Field(default=None, exclude_if=is_none)


class ApprovalList(Value):
    """Pending approvals, in the model's order."""

    items: tuple[PendingApproval, ...]
    last_seq: int


class ApprovalAnswer(Value):
    """`POST /v1/sessions/{id}/approvals/{call_id}`. The reason for a denial is shown to the model."""

    decision: Literal["approve", "deny"]
    reason: Annotated[Text, StringConstraints(max_length=MAX_REASON_CHARS)] | None = None


class PendingToolCall(PendingCall):
    """A call that waits for its result from a client; without one by `expires_at`, if set, the model gets an error."""


class PendingToolCalls(Value):
    """The calls that wait for a client, in the model's order."""

    items: tuple[PendingToolCall, ...]
    last_seq: int


Posted = Annotated[Text, StringConstraints(max_length=MAX_CONTENT_CHARS)]


class ToolCallAnswer(Value):
    """`POST /v1/sessions/{id}/tool-calls/{call_id}/result`: the output of the call, or why it failed. The model sees
    it, shortened like any output if it is long."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [given("output"), given("error")]})

    output: Posted | None = Field(default=None, examples=["The page has 3 errors."])
    error: Posted | None = None

    @model_validator(mode="after")
    def _one(self) -> ToolCallAnswer:
        if (self.output is None) == (self.error is None):
            raise PydanticCustomError("one_result", "Give either output or error")
        return self


ToolCallStatus = Literal["pending"]
