"""Queued messages: requests and results."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, model_validator
from pydantic_core import PydanticCustomError

from app.messages import Timestamp, Value
from app.runtime.values.fields import ClientId, Content
from app.sessions import QueueMode


class QueueAdd(Value):
    """`POST /v1/sessions/{id}/queue`."""

    content: Content
    mode: QueueMode = QueueMode.STEER
    id: ClientId | None = None


class QueueEdit(Value):
    """Edits a pending message; at least one field is required."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in ("content", "mode")
            ]
        }
    )

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
    content: str
    created_at: Timestamp


class QueuePage(Value):
    items: tuple[QueuedMessage, ...]
    last_seq: int
