"""Postgres stores the texts and words of passages out of line

A search goes through thousands of rows and reads the texts of a few. What is stored already stays as it is.

Revision: 0027
After: 0026
"""

from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _store("EXTERNAL", "SET (toast_tuple_target = 128)")


def downgrade() -> None:
    _store("EXTENDED", "RESET (toast_tuple_target)")


def _store(how: str, target: str) -> None:
    if op.get_bind().dialect.name == "postgresql":
        for column in ("text", "words"):
            op.execute(f"ALTER TABLE search_text ALTER COLUMN {column} SET STORAGE {how}")
        op.execute(f"ALTER TABLE search_text {target}")
