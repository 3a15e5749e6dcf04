"""The history: messages with their parts."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Index, Integer, String, Table, Text, text

from app.db.models.base import Json, UtcTime, metadata, session_id

messages = Table(
    "messages",
    metadata,
    session_id(),
    Column("id", String(36), primary_key=True),
    Column("seq", Integer, nullable=False, comment="Seq of the event that added it."),
    Column("role", String(20), nullable=False),
    Column("model", Text),
    Column("finish_reason", String(20)),
    Column("error", Json),
    Column("is_summary", Boolean, nullable=False, default=False),
    Column("round", Integer),
    Column("tokens", Integer, nullable=False, default=0),
    Column("voided_at", UtcTime),
    Column("created_at", UtcTime, nullable=False),
)
Index("ix_messages_session_id_seq", messages.c.session_id, messages.c.seq, unique=True)
Index("ix_messages_role", messages.c.session_id, messages.c.role, messages.c.model, messages.c.seq)

message_parts = Table(
    "message_parts",
    metadata,
    session_id(),
    Column("id", String(36), primary_key=True),
    Column("message_id", String(36), nullable=False),
    Column("index", Integer, nullable=False),
    Column("type", String(20), nullable=False),
    Column("call_id", String(36)),
    Column("status", String(20)),
    Column("closed", Boolean, nullable=False, comment="False while the model is still writing it."),
    Column("tokens", Integer, nullable=False, default=0),
    Column("body", Json, nullable=False, comment="The part's other fields."),
    Column("output_ref", Text, comment="Where the raw output is stored, if not whole in the body."),
    Column("compacted_at", UtcTime, comment="When its output was cleared from the context."),
    Column("output_swept_at", UtcTime, comment="When its raw output was removed."),
)
Index("ix_message_parts_message", message_parts.c.session_id, message_parts.c.message_id, message_parts.c.index)
Index("ix_message_parts_call", message_parts.c.session_id, message_parts.c.call_id)
Index(
    "ix_message_parts_open",
    message_parts.c.session_id,
    message_parts.c.message_id,
    message_parts.c.index,
    sqlite_where=message_parts.c.closed.is_(False),
)
Index("ix_message_parts_open_call", message_parts.c.session_id, sqlite_where=text("status IN ('pending', 'running')"))
Index(
    "ix_message_parts_output",
    message_parts.c.session_id,
    message_parts.c.message_id,
    sqlite_where=message_parts.c.output_ref.is_not(None) & message_parts.c.output_swept_at.is_(None),
)
