"""What the model sees of a history: generations of the context, and rounds of compaction."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Integer, String, Table, Text

from app.db.models.base import Json, UtcTime, metadata, session_id

generations = Table(
    "generations",
    metadata,
    session_id(),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("id", String(36), nullable=False),
    Column("reason", String(20), nullable=False),
    Column("model", Text, nullable=False),
    Column("system", Text, nullable=False),
    Column("tools", Json, nullable=False),
    Column("first_seq", Integer, nullable=False),
    Column("rounds", Json, comment="The rounds of compaction in force."),
    Column("pruned", Json, comment="Calls whose outputs are cleared from this generation on."),
    Column("restored", Json, comment="Calls whose outputs are shown again from this generation on."),
    Column("repairs", Json, comment="Repairs first made in this generation."),
    Column("echo_reasoning", Boolean, comment="Whether plain reasoning is sent back to the model that wrote it."),
    Column("drop_block", Boolean, comment="Whether the provider is asked to drop thinking that it cannot verify."),
    Column("created_at", UtcTime, nullable=False),
)

compaction_events = Table(
    "compaction_events",
    metadata,
    session_id(),
    Column("round", Integer, primary_key=True),
    Column("reason", String(20), nullable=False),
    Column("policy", String(20), nullable=False),
    Column("status", String(20), nullable=False),
    Column("rung", String(20)),
    Column("first_message_id", String(36)),
    Column("last_message_id", String(36)),
    Column("messages_compacted", Integer, nullable=False, default=0),
    Column("outputs_pruned", Integer, nullable=False, default=0),
    Column("tokens_before", Integer, nullable=False, default=0),
    Column("tokens_after", Integer, nullable=False, default=0),
    Column("summary", Text, comment="The prose, as the model or the fold wrote it."),
    Column("error", Json, comment="Of a failed round: code and detail of the error."),
    Column("usage", Json),
    Column("duration_ms", Integer),
    Column("background", Boolean, nullable=False, default=False, comment="Prepared while the agent kept working."),
    Column("instructions", Text, comment="Of a manual round: what to keep, in the user's words."),
    Column("settings", Json, comment="Of a manual round: its settings."),
    Column("checkpoint", Json, comment="Of a completed round: what it covers, keeps and clips."),
    Column("pruned", Json, comment="The calls whose outputs were cleared with it."),
    Column("created_at", UtcTime, nullable=False),
)
