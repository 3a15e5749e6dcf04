"""full-text search of histories, notes of the workspace

Revision: 0002
After: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "sessions",
        sa.Column(
            "notes",
            sa.Text(),
            nullable=True,
            comment="JSON of AGENTS.md and MEMORY.md as in the context; null: none.",
        ),
    )
    op.create_table(
        "search_entries",
        sa.Column("id", sa.Integer(), nullable=False, comment="The rowid of its text in search_text."),
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False, comment="Seq of its message."),
        sa.Column("message_id", sa.String(length=36), nullable=False),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("call_id", sa.String(length=36), nullable=True),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_search_entries_sessions"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_search_entries")),
        comment="The searchable texts of the history; a message is added when a search first needs it.",
    )
    op.create_index("ix_search_entries_session_id_seq", "search_entries", ["session_id", "seq"], unique=False)
    op.execute(
        "CREATE VIRTUAL TABLE search_text USING fts5(session, text, tokenize = 'porter unicode61 remove_diacritics 2')"
    )
    # Foreign keys do not reach into a virtual table; the trigger also runs for rows deleted with their session.
    op.execute(
        "CREATE TRIGGER search_entries_removed AFTER DELETE ON search_entries "
        "BEGIN DELETE FROM search_text WHERE rowid = old.id; END"
    )


def downgrade() -> None:
    op.execute("DROP TRIGGER search_entries_removed")
    op.execute("DROP TABLE search_text")
    op.drop_index("ix_search_entries_session_id_seq", table_name="search_entries")
    op.drop_table("search_entries")
    op.drop_column("sessions", "notes")
