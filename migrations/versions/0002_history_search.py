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

CREATE_TEXTS = {
    "sqlite": (
        "CREATE VIRTUAL TABLE search_text USING fts5(session, text, tokenize = 'porter unicode61 remove_diacritics 2')",
        # Foreign keys do not reach into a virtual table; the trigger also runs for rows deleted with their session.
        "CREATE TRIGGER search_entries_removed AFTER DELETE ON search_entries "
        "BEGIN DELETE FROM search_text WHERE rowid = old.id; END",
    ),
    "postgresql": (
        # Without a list of stop words: a history is searched for "not" and "who" too.
        "CREATE TEXT SEARCH DICTIONARY palimpsest_stem (TEMPLATE = snowball, LANGUAGE = english)",
        "CREATE TEXT SEARCH CONFIGURATION palimpsest (COPY = pg_catalog.simple)",
        "ALTER TEXT SEARCH CONFIGURATION palimpsest ALTER MAPPING FOR asciiword, word WITH palimpsest_stem",
        "CREATE TABLE search_text (rowid INTEGER NOT NULL, piece INTEGER NOT NULL, text TEXT NOT NULL,"
        " words TSVECTOR NOT NULL, CONSTRAINT pk_search_text PRIMARY KEY (rowid, piece),"
        " CONSTRAINT fk_search_text_search_entries FOREIGN KEY (rowid) REFERENCES search_entries (id)"
        " ON DELETE CASCADE)",
        "CREATE INDEX ix_search_text_words ON search_text USING gin (words)",
    ),
}

DROP_TEXTS = {
    "sqlite": ("DROP TRIGGER search_entries_removed", "DROP TABLE search_text"),
    "postgresql": (
        "DROP TABLE search_text",
        "DROP TEXT SEARCH CONFIGURATION palimpsest",
        "DROP TEXT SEARCH DICTIONARY palimpsest_stem",
    ),
}


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
    for statement in CREATE_TEXTS[op.get_bind().dialect.name]:
        op.execute(statement)


def downgrade() -> None:
    for statement in DROP_TEXTS[op.get_bind().dialect.name]:
        op.execute(statement)
    op.drop_index("ix_search_entries_session_id_seq", table_name="search_entries")
    op.drop_table("search_entries")
    op.drop_column("sessions", "notes")
