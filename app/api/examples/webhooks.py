"""Examples of webhooks and their deliveries."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from app.api.examples.records import AT, EXPIRES_AT, SESSION_ID
from app.messages import Value
from app.runtime.values.webhooks import (
    Delivery,
    DeliveryList,
    Webhook,
    WebhookCreate,
    WebhookCreated,
    WebhookList,
    WebhookPatch,
)

WEBHOOK_ID = "01936f5e-8d2a-7c3b-9f1e-2a4b6c8d0f11"
DELIVERY_ID = "8c0f6e4e-6f0b-5a59-9d26-2f0f3f1c9c11"

_WEBHOOK = Webhook(
    id=WEBHOOK_ID,
    url="https://hooks.example.com/palimpsest",
    events=("session.idle", "approval.*"),
    session_id=None,
    metadata={"team": "tools"},
    status="active",
    disabled_at=None,
    disabled_reason=None,
    failing_since=None,
    created_at=AT,
    updated_at=AT,
)

_DELIVERY = Delivery(
    id=DELIVERY_ID,
    type="session.idle",
    session_id=SESSION_ID,
    seq=19,
    status="pending",
    attempts=2,
    response_status=503,
    error="The receiver answered with status 503.",
    duration_ms=41,
    created_at=AT,
    attempted_at=AT,
    next_attempt_at=EXPIRES_AT,
)

_TEST = Delivery(
    id="01936f5e-8d2a-7c3b-9f1e-2a4b6c8d0f12",
    type="webhook.test",
    session_id=None,
    seq=None,
    status="pending",
    attempts=0,
    response_status=None,
    error=None,
    duration_ms=None,
    created_at=AT,
    attempted_at=None,
    next_attempt_at=AT,
)

ANSWERS: tuple[BaseModel, ...] = (
    _WEBHOOK,
    WebhookCreated.of(_WEBHOOK, secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),  # noqa: S106 - an example
    WebhookList(items=(_WEBHOOK,), next_cursor=None),
    _DELIVERY,
    DeliveryList(items=(_DELIVERY,), next_cursor=None),
)

ANSWERS_OF: Mapping[tuple[str, str], BaseModel] = {
    ("patch /v1/webhooks/{webhook_id}", "200"): _WEBHOOK.model_copy(update={"events": ("session.*",)}),
    ("post /v1/webhooks/{webhook_id}/test", "202"): _TEST,
}

REQUESTS: tuple[Value, ...] = (
    WebhookCreate(url=_WEBHOOK.url, events=("session.idle", "approval.*"), metadata={"team": "tools"}),
    WebhookPatch(events=("session.*",), status="active"),
)
