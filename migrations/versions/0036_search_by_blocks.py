"""the full-text index of Postgres marks blocks of passages; a message is indexed in several writes

Revision: 0036
After: 0035
"""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    comment = "Set for the last passage of a write that ended inside a message: how many of its passages are stored."
    op.add_column("search_entries", sa.Column("passages_done", sa.Integer(), comment=comment))
    _empty()


def downgrade() -> None:
    _empty()
    op.drop_column("search_entries", "passages_done")


def _empty() -> None:
    """Starts the index of Postgres again: the next search of each session fills it."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute("TRUNCATE search_entries, search_text")
