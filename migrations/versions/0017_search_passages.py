"""the full-text index has passages instead of whole texts

Revision: 0017
After: 0016
"""

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

FTS5 = "CREATE VIRTUAL TABLE search_text USING fts5({first}, text, tokenize = 'porter unicode61 remove_diacritics 2')"
TRIGGER = (
    "CREATE TRIGGER search_entries_removed AFTER DELETE ON search_entries "
    "BEGIN DELETE FROM search_text WHERE rowid = old.id; END"
)
COLUMNS = (
    "CREATE TABLE search_text (rowid INTEGER NOT NULL{piece}, text TEXT NOT NULL, words TSVECTOR NOT NULL,"
    " CONSTRAINT pk_search_text PRIMARY KEY (rowid{key}), CONSTRAINT fk_search_text_search_entries"
    " FOREIGN KEY (rowid) REFERENCES search_entries (id) ON DELETE CASCADE)"
)
INDEX = "CREATE INDEX ix_search_text_words ON search_text USING gin (words){options}"


def upgrade() -> None:
    _empty("about", "", "", " WITH (fastupdate = off)")


def downgrade() -> None:
    _empty("session", ", piece INTEGER NOT NULL", ", piece", "")


def _empty(first: str, piece: str, key: str, options: str) -> None:
    """Starts the index again: the next search of each session fills it."""
    if op.get_bind().dialect.name == "sqlite":
        # Without its trigger, which would delete row by row.
        op.execute("DROP TRIGGER search_entries_removed")
        statements = ("DROP TABLE search_text", FTS5.format(first=first), TRIGGER)
    else:
        statements = ("DROP TABLE search_text", COLUMNS.format(piece=piece, key=key), INDEX.format(options=options))
    dropping, *others = statements
    op.execute(dropping)
    op.execute("DELETE FROM search_entries")
    for statement in others:
        op.execute(statement)
