"""What is sent to a receiver and how it is signed, by the Standard Webhooks specification
(https://github.com/standard-webhooks/standard-webhooks), and the secret that both sides know."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from uuid import UUID, uuid5

import orjson

from app import __version__
from app.eventlog.log import with_type

TEST = "webhook.test"
"""The type of a test, which is no event of a session."""

SECRET_BYTES = 32
_PREFIX = "whsec_"


def new_secret() -> str:
    """A secret in the form that libraries of Standard Webhooks accept."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def delivery_id(webhook_id: str, session_id: str, seq: int) -> str:
    """The `webhook-id` of an event: computed, so that it is the same for each attempt whatever was stored before."""
    return str(uuid5(UUID(webhook_id), f"{session_id}/{seq}"))


def body(type_: str, seq: int | None, data: str) -> bytes:
    """What is sent: the same bytes at each attempt. `data` is the event's stored JSON."""
    event = orjson.loads(data)
    head = {"type": type_, "timestamp": event["at"], "session_id": event.get("session_id"), "seq": seq}
    return b'%b,"data":%b}' % (orjson.dumps(head)[:-1], with_type(type_, seq, data.encode()))


def headers(
    secret: str, message_id: str, timestamp: int, content: bytes, traceparent: str | None = None
) -> Mapping[str, str]:
    """The headers of an attempt at this time, in seconds since 1970; `traceparent` is the event's trace."""
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    signed = b"%b.%d.%b" % (message_id.encode(), timestamp, content)
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {
        "Content-Type": "application/json",
        "User-Agent": f"Palimpsest/{__version__}",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{signature}",
        **({} if traceparent is None else {"traceparent": traceparent}),
    }
