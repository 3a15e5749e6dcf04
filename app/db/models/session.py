"""A session, its queued messages, and its event log."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Index, Integer, String, Table, Text

from app.db.models.base import Json, UtcTime, metadata, session_id

sessions = Table(
    "sessions",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("title", Text),
    Column("task", Text),
    Column("status", String(20), nullable=False),
    Column("outcome", String(20)),
    Column("error", Json),
    Column("model", Text, nullable=False),
    Column("reasoning_effort", String(10), comment="Null: the model's default."),
    Column("system_prompt", Text),
    Column("tools", Json, comment="Names of the tools offered; null: all of them."),
    Column("sandbox", Json, nullable=False),
    Column("compaction", Json, nullable=False, comment="Policy and settings, complete."),
    Column("compaction_count", Integer, nullable=False, default=0),
    Column("compaction_last_at", UtcTime),
    Column("compaction_in_progress", Boolean, nullable=False, default=False),
    Column("limits", Json, nullable=False),
    Column("approval", Json, nullable=False),
    Column("metadata", Json, nullable=False),
    Column("plan", Json, nullable=False),
    Column("parent_id", String(36)),
    Column("usage", Json, nullable=False),
    Column("context", Json, nullable=False),
    Column("steps", Integer, nullable=False, default=0),
    Column("last_seq", Integer, nullable=False, default=0, comment="Seq of the newest event; the next one adds 1."),
    Column("epoch", Integer, nullable=False, default=0, comment="Raised by each new owner; fences off stale ones."),
    Column("generation", Integer, nullable=False, default=0, comment="Number of the newest context generation."),
    Column("queue_held", Boolean, nullable=False, default=False, comment="Set by a cancel: pending messages wait."),
    Column("cancel_requested", Boolean, nullable=False, default=False),
    Column("recoveries", Integer, nullable=False, default=0, comment="Since the last completed step."),
    Column("run_trigger", String(20), comment="What started the run: message, resume or recovery."),
    Column("run_started_at", UtcTime),
    Column("run_steps", Integer, nullable=False, default=0),
    Column("run_usage", Json, nullable=False),
    Column("fingerprint", String(64), nullable=False, comment="Hash of the request that created it."),
    Column("created_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    # As text, since a row is read far more often than its notes are.
    Column("notes", Text, comment="JSON of AGENTS.md and MEMORY.md as in the context; null: none."),
)
Index("ix_sessions_created_at_id", sessions.c.created_at, sessions.c.id)
Index("ix_sessions_status", sessions.c.status)

queue = Table(
    "queue",
    metadata,
    session_id(),
    Column("id", String(36), primary_key=True, comment="Becomes the message's id."),
    Column("ordinal", Integer, nullable=False, comment="Seq of its message.queued event: the order of acceptance."),
    Column("mode", String(20), nullable=False),
    Column("content", Text, nullable=False),
    Column("status", String(20), nullable=False),
    Column("fingerprint", String(64), nullable=False, comment="Hash of the content first posted."),
    Column("created_at", UtcTime, nullable=False),
)
Index("ix_queue_session_id_status_ordinal", queue.c.session_id, queue.c.status, queue.c.ordinal)

events = Table(
    "events",
    metadata,
    session_id(),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("type", String(40), nullable=False),
    Column("data", Text, nullable=False),
    sqlite_with_rowid=False,
)
