"""where the files of a session's workspace come from

Revision: 0019
After: 0018
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    comment = "What its files come from: `git` as in the request, `archive` if one came with it; null: nothing."
    op.add_column("sessions", sa.Column("source", sa.Text(), comment=comment))
    comment = "The commit that was cloned; null: not yet."
    op.add_column("sessions", sa.Column("source_commit", sa.String(64), comment=comment))


def downgrade() -> None:
    op.drop_column("sessions", "source_commit")
    op.drop_column("sessions", "source")
