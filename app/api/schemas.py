"""Schemas used only by the API; the services' requests and responses are in `runtime.values`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from app.api.log import NAMES


class FieldError(BaseModel):
    """An invalid field; `field` is its dotted path."""

    field: str
    message: str


class Problem(BaseModel):
    """An error in the form of RFC 9457. Some codes add their own fields."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="A URN made from the code.", examples=["urn:palimpsest:session_not_found"])
    title: str = Field(description="The kind of error; always the same for a code.")
    status: int = Field(description="The HTTP status.", examples=[404])
    detail: str = Field(description="What went wrong with this request, for people.")
    instance: str | None = Field(description="The requested path.")
    code: str = Field(description="Stable name of the error, for programs.", examples=["session_not_found"])
    errors: list[FieldError] | None = Field(
        default=None, description="With `validation_error` and `invalid_compaction`: the invalid fields."
    )


class Alive(BaseModel):
    """The response of `GET /healthz`."""

    status: str = Field(examples=["ok"])
    version: str = Field(examples=["0.1.0"])


class EventView(BaseModel):
    """A durable event in a session's log."""

    seq: int = Field(ge=1, description="Its position in the log, which is also its `id` in the stream.")
    type: str = Field(json_schema_extra={"enum": list(NAMES)})
    data: Annotated[
        Any, WithJsonSchema({"type": "object", "description": "The same as in the stream; see the event's schema."})
    ]


class EventPage(BaseModel):
    """Pass `next_cursor` as `after` to get the next page; it is null at the end of the log. A page may have no items
    before that."""

    items: tuple[EventView, ...]
    last_seq: int
    next_cursor: str | None
