"""Webhooks and their deliveries, as requests and responses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import httpx
from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from app.messages import Timestamp, Value
from app.runtime.values.sessions import Text
from app.runtime.webhooks.filter import types_of

MAX_URL_CHARS = 2_000
MAX_PATTERNS = 100
WebhookStatus = Literal["active", "disabled"]
DeliveryStatus = Literal["pending", "delivered", "failed"]


def _url(text: str) -> str:
    """Only the form: where it leads is checked for each connection."""
    try:
        url = httpx.URL(text)
        port = url.port
    except (httpx.InvalidURL, ValueError) as error:
        raise PydanticCustomError("webhook_url", "Input should be a URL") from error
    # A name with an escape could not be resolved.
    if url.scheme not in ("http", "https") or not url.host or "%" in url.host:
        raise PydanticCustomError("webhook_url", "Input should be a URL with http or https and a host")
    if url.userinfo or "@" in text.partition("//")[2].partition("/")[0]:
        raise PydanticCustomError("webhook_url", "Input should be a URL without a user name or password")
    if url.fragment or "\\" in text or port == 0:
        raise PydanticCustomError("webhook_url", "Input should be a URL without fragment, backslash and port 0")
    return text


def _pattern(text: str) -> str:
    if not types_of([text]):
        message = "Input should be the name of a durable event, or the beginning of one that ends in .*"
        raise PydanticCustomError("event_pattern", message)
    return text


Url = Annotated[
    Text,
    StringConstraints(min_length=1, max_length=MAX_URL_CHARS),
    AfterValidator(_url),
    Field(description="An `http` or `https` URL that answers POST requests.", json_schema_extra={"format": "uri"}),
]
Pattern = Annotated[Text, StringConstraints(min_length=1, max_length=60), AfterValidator(_pattern)]
Patterns = Annotated[
    tuple[Pattern, ...],
    Field(
        min_length=1,
        max_length=MAX_PATTERNS,
        description="Names of durable events, and prefixes that end in `.*`, such as `session.*`.",
    ),
]


class WebhookCreate(Value):
    """`POST /v1/webhooks`. Without `events`, all durable events are sent; with `session_id`, only those of this
    session."""

    url: Url
    events: Patterns | None = None
    session_id: Text | None = None
    metadata: dict[str, Any] | None = None


class WebhookPatch(Value):
    """`PATCH /v1/webhooks/{id}`. Omitted fields are unchanged; `events: null` means all events. `status: active`
    continues a disabled webhook where it stopped."""

    url: Url | None = None
    events: Patterns | None = None
    metadata: dict[str, Any] | None = None
    status: WebhookStatus | None = None


class Webhook(Value):
    """A receiver of events. A webhook is disabled by a request, by a response with status 410, or after a delivery has
    failed for three days; `disabled_reason` has the reason. `failing_since` is the first attempt of the oldest delivery
    that keeps failing, null if there is none."""

    id: str
    url: str
    events: tuple[str, ...] | None
    session_id: str | None
    metadata: dict[str, Any]
    status: WebhookStatus
    disabled_at: Timestamp | None
    disabled_reason: str | None
    failing_since: Timestamp | None
    created_at: Timestamp
    updated_at: Timestamp


class WebhookCreated(Webhook):
    """A new webhook, with the `secret` that signs what it gets: it is shown only here."""

    secret: str = Field(repr=False)


class WebhookList(Value):
    items: tuple[Webhook, ...]
    next_cursor: str | None


class Delivery(Value):
    """An event, or a test, that was sent to a webhook or waits to be sent again. `id` is its `webhook-id`, the same for
    each attempt. A test has no `session_id` and no `seq`."""

    id: str
    type: str
    session_id: str | None
    seq: int | None
    status: DeliveryStatus
    attempts: int
    response_status: int | None = Field(description="Of the last attempt; null if the receiver did not answer.")
    error: str | None = Field(description="Why the last attempt failed.")
    duration_ms: int | None
    created_at: Timestamp
    attempted_at: Timestamp | None
    next_attempt_at: Timestamp | None


class DeliveryList(Value):
    items: tuple[Delivery, ...]
    next_cursor: str | None
