"""What runs have done: their steps, and the calls that needed approval."""

from __future__ import annotations

from sqlalchemy import Column, Integer, String, Table, Text

from app.db.models.base import Json, UtcTime, metadata, session_id

steps = Table(
    "steps",
    metadata,
    session_id(),
    Column("step", Integer, primary_key=True, autoincrement=False),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("message_id", String(36), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("opened_seq", Integer, nullable=False, comment="Seq of step.started: everything before it was sent."),
    Column("model", Text, nullable=False),
    Column("finish_reason", String(20)),
    Column("usage", Json, nullable=False),
    Column("context", Json, nullable=False),
    Column("compaction_round", Integer, nullable=False, default=0),
    Column("started_at", UtcTime, nullable=False),
    Column("duration_ms", Integer),
)

approvals = Table(
    "approvals",
    metadata,
    session_id(),
    Column("call_id", String(36), primary_key=True),
    Column("message_id", String(36), nullable=False, comment="The message that made the call."),
    Column("expires_at", UtcTime, comment="Null: waits without a timeout."),
    Column("decision", String(20), comment="Null while the call waits."),
    Column("decided_by", String(20)),
    Column("reason", Text, comment="Shown to the model with a denial."),
    Column("requested_at", UtcTime, nullable=False),
    Column("decided_at", UtcTime),
)
