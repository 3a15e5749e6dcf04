"""The table of background commands."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, String, Table, Text, text

from app.db.columns import UtcTime, metadata, only_where, session_id

background_commands = Table(
    "background_commands",
    metadata,
    session_id(),
    Column("call_id", String(36), primary_key=True, comment="The call that started it; also its own id."),
    Column("command", Text, nullable=False),
    Column("status", String(20), nullable=False),
    Column("exit_code", Integer),
    Column("remark", Text, comment="The limit that ended it, or why it could not be started."),
    Column("bytes", BigInteger, nullable=False, default=0, comment="Of its output, once it has ended."),
    Column("output_ref", Text, comment="Where its raw output is stored."),
    Column("stop_asked", Boolean, nullable=False, default=False, comment="Whether a request asks to stop it."),
    Column("is_told", Boolean, nullable=False, default=False, comment="Whether the model knows that it has ended."),
    Column("started_at", UtcTime, nullable=False),
    Column("ended_at", UtcTime, comment="Null while it runs."),
    comment="Commands that run, or ran, in the background of a session.",
)
Index(
    "ix_background_commands_running",
    background_commands.c.session_id,
    **only_where(text("ended_at IS NULL")),
)
