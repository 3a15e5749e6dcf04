"""Schemas of the API alone; requests and answers of the services are in `runtime.values`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from app.api.log import NAMES


class FieldError(BaseModel):
    """A field at fault; `field` is its dotted path."""

    field: str
    message: str


class Problem(BaseModel):
    """An error, as RFC 9457 has it. Some codes add fields of their own."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="A URN made of the code.", examples=["urn:palimpsest:session_not_found"])
    title: str = Field(description="What kind of error this is, in words that do not change.")
    status: int = Field(description="The answer's HTTP status.", examples=[404])
    detail: str = Field(description="What happened this time, for a person.")
    instance: str | None = Field(description="The path that was asked for.")
    code: str = Field(description="Stable name of the error, for programs.", examples=["session_not_found"])
    errors: list[FieldError] | None = Field(
        default=None, description="With `validation_error` and `invalid_compaction`: the fields at fault."
    )


class Alive(BaseModel):
    """The answer of `GET /healthz`."""

    status: str = Field(examples=["ok"])
    version: str = Field(examples=["0.1.0"])


class EventView(BaseModel):
    """A durable event of a session's log."""

    seq: int = Field(ge=1, description="Its place in the log, which is its `id` in the stream.")
    type: str = Field(json_schema_extra={"enum": list(NAMES)})
    data: Annotated[
        Any, WithJsonSchema({"type": "object", "description": "As the stream has it; see the event's own schema."})
    ]


class EventPage(BaseModel):
    """`next_cursor` goes into `after` of the next request; null at the end of the log, which a page without items need
    not be."""

    items: tuple[EventView, ...]
    last_seq: int
    next_cursor: str | None
