"""Tools that a client carries out, as requests define them, their calls, and the results that clients post."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from app.messages import Value
from app.runtime.values.content import MAX_CONTENT_CHARS
from app.runtime.values.queue import PendingCall, given
from app.runtime.values.sessions import Text


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
