"""The tables that belong to no session: what the server knows about itself, its models, logins and nodes, and what it
has used and deleted."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
)

from app.db.columns import Json, UtcTime, metadata

server = Table(
    "server",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("value", Text, nullable=False),
    comment="Facts about this database, such as the instance id that labels its containers.",
)

model_windows = Table(
    "model_windows",
    metadata,
    Column("model", Text, primary_key=True, comment="Base URL and name of the model."),
    Column("tokens", Integer, nullable=False, comment="Its window, learned from a refusal."),
    Column("learned_at", UtcTime, nullable=False),
    Column("known_tokens", Integer, comment="The window that was assumed before."),
    Column("known_source", String(20), comment="Source of that window."),
    comment="Windows that providers have reported; each is trusted for a day.",
)

model_quirks = Table(
    "model_quirks",
    metadata,
    Column("model", Text, primary_key=True, comment="Base URL and name of the model."),
    Column("quirks", Json, nullable=False, comment="What was learned from its refusals, as JSON."),
    Column("learned_at", UtcTime, nullable=False),
    comment="How requests to a model must differ from the default form.",
)

model_calibrations = Table(
    "model_calibrations",
    metadata,
    Column("model", Text, primary_key=True, comment="Base URL and name of the model."),
    Column("factor", Float, nullable=False, comment="Tokens that it counts over those of the estimate."),
    comment="How far estimates are off, as nodes of a cluster have learned.",
)

idempotent_requests = Table(
    "idempotent_requests",
    metadata,
    Column("key_digest", String(64), primary_key=True, comment="Of the caller, the path and the Idempotency-Key."),
    Column("holder", String(36), nullable=False, comment="The server that answers it."),
    Column("made_id", String(36), nullable=False, comment="The id of what it makes."),
    Column("created_at", UtcTime, nullable=False),
    Column("body_digest", String(64), comment="Of the request's body."),
    Column("session_id", String(36), ForeignKey("sessions.id", ondelete="CASCADE")),
    Column("status", Integer, comment="Null until it is answered."),
    Column("headers", Json),
    Column("body", LargeBinary),
    comment="POSTs with an Idempotency-Key and their answers, for a day.",
)
Index("ix_idempotent_requests_created_at", idempotent_requests.c.created_at)
Index("ix_idempotent_requests_session_id", idempotent_requests.c.session_id)

daily_usage = Table(
    "daily_usage",
    metadata,
    Column("day", String(10), primary_key=True),
    Column("model", String(200), primary_key=True),
    Column("steps", Integer, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("cache_read_tokens", BigInteger, nullable=False),
    Column("cache_write_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("reasoning_tokens", BigInteger, nullable=False),
    Column("cost_usd", Float, nullable=False),
    Column("unpriced_steps", Integer, nullable=False, comment="Steps whose price is unknown."),
)

logins = Table(
    "logins",
    metadata,
    Column("token_digest", String(64), primary_key=True, comment="SHA-256 of the token, which itself is not stored."),
    Column("key_proof", String(64), nullable=False, comment="HMAC of the digest with the API key used."),
    Column("created_at", UtcTime, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
    comment="Browsers that are logged in and need no key.",
)
Index("ix_logins_expires_at", logins.c.expires_at)

nodes = Table(
    "nodes",
    metadata,
    Column("id", String(36), primary_key=True, comment="One for each start of a server."),
    Column("name", Text, nullable=False, comment="Its machine's host name."),
    Column("role", String(10), nullable=False),
    Column("version", String(40), nullable=False),
    Column("slots", Integer, nullable=False, comment="Sessions that it runs at the same time; 0 without a worker."),
    Column("draining", Boolean, nullable=False, comment="Whether it takes no more sessions."),
    Column("started_at", UtcTime, nullable=False),
    Column("seen_at", UtcTime, nullable=False, comment="By the database's clock."),
    Column("address", Text, comment="HOST:PORT at which other nodes reach it; null: at none."),
    comment="The nodes of a cluster.",
)

deletions = Table(
    "deletions",
    metadata,
    Column("session_id", String(36), primary_key=True),
    Column("seq", Integer, nullable=False),
    Column("data", Text, nullable=False),
    Column("deleted_at", UtcTime, nullable=False),
    comment="The last events of sessions that were just deleted, for readers on other nodes of a cluster.",
)
Index("ix_deletions_deleted_at", deletions.c.deleted_at)
