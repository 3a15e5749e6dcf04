"""The tables of webhooks: receivers of events, how far they are, and what was sent to them."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, ForeignKey, Index, Integer, String, Table, Text, text

from app.db.columns import Json, UtcTime, metadata, only_where, session_id
from app.db.dialects import JsonText

webhooks = Table(
    "webhooks",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("url", Text, nullable=False),
    Column("events", Json, comment="Names of events and prefixes ending in .*; null: all events."),
    Column("session_id", String(36), comment="The only session whose events it gets; null: all."),
    Column("metadata", Json, nullable=False),
    Column("secret", Text, nullable=False, comment="As `runtime/webhooks/sealing.py` stores it."),
    Column("status", String(20), nullable=False),
    Column("disabled_at", UtcTime),
    Column("disabled_reason", Text),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    Column("lease_node", String(36), comment="The node of a cluster that delivers to it."),
    Column("lease_until", UtcTime, comment="By the database's clock."),
    comment="Receivers of events.",
)
Index("ix_webhooks_session_id", webhooks.c.session_id)

webhook_cursors = Table(
    "webhook_cursors",
    metadata,
    session_id(),
    Column("webhook_id", String(36), ForeignKey("webhooks.id", ondelete="CASCADE"), primary_key=True),
    Column("seq", Integer, nullable=False),
    comment="Up to which event of a session a webhook has got all that it should.",
)
Index("ix_webhook_cursors_webhook_id", webhook_cursors.c.webhook_id)

webhook_requests = Table(
    "webhook_requests",
    metadata,
    Column("key_digest", String(64), primary_key=True, comment="Of the caller and the Idempotency-Key."),
    Column("body_digest", String(64), nullable=False),
    Column(
        "webhook_id",
        String(36),
        # Its row is added first, since it decides whether there will be a webhook.
        ForeignKey("webhooks.id", ondelete="CASCADE", deferrable=True, initially="DEFERRED"),
        nullable=False,
    ),
    Column("created_at", UtcTime, nullable=False),
    comment="Requests that made webhooks, so that one that is repeated makes no second webhook.",
)
Index("ix_webhook_requests_webhook_id", webhook_requests.c.webhook_id)

webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("id", String(36), primary_key=True, comment="Its webhook-id."),
    Column("webhook_id", String(36), ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False),
    Column("session_id", String(36), comment="Null for a test."),
    Column("seq", Integer, comment="Null for a test."),
    Column("type", String(40), nullable=False),
    Column("data", JsonText, comment="Of an event that is in no log: its JSON."),
    Column("status", String(20), nullable=False),
    Column("once", Boolean, nullable=False, comment="Attempted once, outside of its session's order."),
    Column("attempts", Integer, nullable=False),
    Column("response_status", Integer),
    Column("error", Text),
    Column("duration_ms", Integer),
    Column("created_at", UtcTime, nullable=False),
    Column("attempted_at", UtcTime),
    Column("next_attempt_at", UtcTime, comment="Null unless pending."),
    Column("expires_at", UtcTime, comment="When it fails for good."),
    comment="What was sent to webhooks, and what waits to be sent again.",
)
Index(
    "ix_webhook_deliveries_webhook_id_created_at_id",
    webhook_deliveries.c.webhook_id,
    webhook_deliveries.c.created_at,
    webhook_deliveries.c.id,
)
Index("ix_webhook_deliveries_session_id", webhook_deliveries.c.session_id)
Index(
    "ix_webhook_deliveries_pending",
    webhook_deliveries.c.webhook_id,
    webhook_deliveries.c.session_id,
    **only_where(text("status = 'pending'")),
)
