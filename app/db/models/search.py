"""The searchable texts of the history."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Integer, String, Table, Text, column, table

from app.db.models.base import metadata

search_entries = Table(
    "search_entries",
    metadata,
    Column("id", Integer, primary_key=True, comment="The rowid of its text in search_text."),
    Column("session_id", String(36), ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("seq", Integer, nullable=False, comment="Seq of its message."),
    Column("message_id", String(36), nullable=False),
    Column("role", String(20), nullable=False),
    Column("call_id", String(36)),
    comment="The searchable texts of the history; a message is added when a search first needs it.",
)
Index("ix_search_entries_session_id_seq", search_entries.c.session_id, search_entries.c.seq)

search_text = table("search_text", column("rowid", Integer), column("session", Text), column("text", Text))
"""The words of the entries: a virtual FTS5 table, so only the migrations define it. A trigger deletes its rows with
their entries. `session` is the session's id as one word, which keeps a search within its session."""


def is_managed(name: str | None, kind: str, _parents: object) -> bool:
    """Whether migrations compare a database object with these tables; FTS5 manages its own."""
    return not (kind == "table" and name is not None and name.startswith("search_text"))
