"""What routes share: the services, path and query values in their one accepted form, schemas of the API alone, and how
pages of the log are written. Values of the services are in `runtime.values`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Query, Request
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from app.api.auth import caller_of
from app.api.errors import MAX_FIELD_ERRORS, MAX_TEXT_CHARS, in_prose
from app.api.trace_context import read_traceparent
from app.errors import NotFoundError, UnavailableError, ValidationFailedError
from app.events import DURABLE_EVENTS
from app.runtime import services
from app.runtime.values.history import LogPage, StreamItem
from app.runtime.values.server import METADATA
from app.runtime.values.sessions import Text

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_ID_EXAMPLE = "01936f5e-8d2a-7c3b-9f1e-2a4b6c8d0e1f"

NAMES = tuple(event.type for event in DURABLE_EVENTS)
TYPES_SCHEMA: dict[str, Any] = {"type": "array", "items": {"type": "string", "enum": list(NAMES)}, "minItems": 1}


async def get_services(request: Request) -> services.Services:
    """The services. Raises `UnavailableError` before startup has set them and after shutdown.

    It awaits nothing, but FastAPI would run a plain function in a thread for each request.
    """
    found: services.Services | None = getattr(request.app.state, "services", None)
    if found is None:
        raise UnavailableError("The server is starting or stopping.")
    return found


async def refuse_unknown(request: Request) -> None:
    """Raises `ValidationFailedError` that names each parameter the route does not take.

    It awaits nothing, but FastAPI would run a plain function in a thread for each request.
    """
    if not request.scope["query_string"]:
        return
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    # The route's own parameters are complete: its dependencies take none.
    known = [field.alias for field in route.dependant.query_params]
    unknown = [name for name in dict.fromkeys(request.query_params) if name not in known]
    if any(dependency.call is metadata_filter for dependency in route.dependant.dependencies):
        unknown = [name for name in unknown if not name.startswith(METADATA)]
        known.append(f"{METADATA}KEY")
    if not unknown:
        return
    takes = f"this route takes {', '.join(known)}" if known else "this route takes none"
    message = f"Unknown parameter; {takes}"
    errors = [{"field": name[:MAX_TEXT_CHARS], "message": message} for name in unknown[:MAX_FIELD_ERRORS]]
    named = ", ".join(error["field"] for error in errors[:3])
    raise ValidationFailedError(f"The request is not valid: {named}: {in_prose(message)}.", errors=errors)


KEY = r'[^"\\]{1,100}'
"""The pattern of a key of metadata in a query."""
MAX_METADATA_KEYS = 10


async def metadata_filter(request: Request) -> dict[str, str]:
    """The values of `metadata.KEY=VALUE`, by key. Raises `ValidationFailedError`."""
    given = [(name, value) for name, value in request.query_params.multi_items() if name.startswith(METADATA)]
    wanted = {name.removeprefix(METADATA): value for name, value in given}
    if len(given) > min(len(wanted), MAX_METADATA_KEYS):
        raise ValidationFailedError(f"At most {MAX_METADATA_KEYS} keys of metadata can be named, each once.")
    for key in wanted:
        if not re.fullmatch(KEY, key):
            name = (METADATA + key)[:MAX_TEXT_CHARS]
            message = "A key has 1 to 100 characters, without quotation marks and backslashes"
            raise ValidationFailedError(
                f"The request is not valid: {name}: {in_prose(message)}.", errors=[{"field": name, "message": message}]
            )
    return wanted


MetadataFilter = Annotated[dict[str, str], Depends(metadata_filter)]
METADATA_PARAMETER = {
    "name": f"{METADATA}KEY",
    "in": "query",
    "required": False,
    "schema": {"type": "string", "maxLength": 1_000},
    "description": "Only sessions whose metadata have this value at the key `KEY`; with several keys, all of them."
    " Numbers, booleans and null are written as in JSON.",
}

STRICT = [Depends(refuse_unknown)]
"""For all routers but the probes' and the page's, to whose URLs programs add parameters to bypass caches."""


def _known(not_found: Callable[[], NotFoundError]) -> AfterValidator:
    """Lowercases an id. One that is not a UUID gets the same error as one that is not stored."""

    def checked(value: str) -> str:
        if not _UUID.fullmatch(value):
            raise not_found()
        return value.lower()

    return AfterValidator(checked)


async def get_key(request: Request) -> str | None:
    """See `caller_of`. Awaits nothing, like `get_services`."""
    return caller_of(request.scope)


async def get_caller(
    request: Request,
    traceparent: Annotated[
        str | None,
        Header(
            description="The trace that the run belongs to (W3C Trace Context); an invalid one is ignored.",
            examples=["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"],
        ),
    ] = None,
) -> services.Caller:
    """Who makes the request. Awaits nothing, like `get_services`."""
    # Not from the parameter: it holds only one of several headers, and several are invalid.
    return services.Caller(caller_of(request.scope), read_traceparent(request.headers.getlist("traceparent")))


Key = Annotated[str | None, Depends(get_key)]
Caller = Annotated[services.Caller, Depends(get_caller)]
Services = Annotated[services.Services, Depends(get_services)]
SessionId = Annotated[
    str,
    _known(lambda: NotFoundError("There is no session with this id.", code="session_not_found")),
    Path(description="The session's id.", examples=[_ID_EXAMPLE]),
]
MessageId = Annotated[
    str,
    _known(lambda: NotFoundError("There is no queued message with this id.", code="message_not_found")),
    Path(description="The message's id.", examples=[_ID_EXAMPLE]),
]
WebhookId = Annotated[
    str,
    _known(lambda: NotFoundError("There is no webhook with this id.", code="webhook_not_found")),
    Path(description="The webhook's id.", examples=[_ID_EXAMPLE]),
]
DeliveryId = Annotated[
    str,
    _known(lambda: NotFoundError("The webhook has no delivery with this id.", code="delivery_not_found")),
    Path(description="The delivery's id.", examples=[_ID_EXAMPLE]),
]
CallId = Annotated[Text, Path(description="The call's `call_id`.", examples=[_ID_EXAMPLE])]
Round = Annotated[int, Path(ge=1, le=2**31 - 1, description="The number of a compaction round.", examples=[1])]
Cursor = Annotated[
    Text | None,
    Query(
        max_length=500,
        description="`next_cursor` of the previous page; omit it for the first page.",
        # Another one is a malformed cursor, not an invalid field.
        json_schema_extra={"pattern": "^[A-Za-z0-9_-]*$"},
    ),
]
Limit = Annotated[int, Query(ge=1, le=500, description="Max items per page.")]


def event_types(text: str | None) -> frozenset[str]:
    """The names in a comma-separated list; empty means all. Raises `ValidationFailedError` for an unknown durable
    event."""
    names = frozenset(text.split(",")) if text is not None else frozenset()
    unknown = sorted(names.difference(NAMES))
    if unknown:
        message = f"No durable event is named {unknown[0][:MAX_TEXT_CHARS]!r}"
        errors = [{"field": "types", "message": message}]
        raise ValidationFailedError(f"The request is not valid: types: {in_prose(message)}.", errors=errors)
    return names


def page_body(page: LogPage) -> bytes:
    """The page as JSON. The events are stored as JSON and are copied without parsing."""
    items = b",".join([_event(item) for item in page.items])
    cursor = b"null" if page.next_cursor is None else b'"%b"' % page.next_cursor.encode()
    return b'{"items":[%b],"last_seq":%d,"next_cursor":%b}' % (items, page.last_seq, cursor)


def _event(item: StreamItem) -> bytes:
    return b'{"seq":%b,"type":"%b","data":%b}' % (str(item.seq).encode(), item.type.encode(), b"".join(item.shown))


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
