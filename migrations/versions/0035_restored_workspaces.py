"""restored workspaces

Revision: 0035
After: 0034
"""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    comment = "That of a restored snapshot, until the session's log says so."
    op.add_column("workspaces", sa.Column("restored_as_of", sa.BigInteger(), comment=comment))


def downgrade() -> None:
    op.drop_column("workspaces", "restored_as_of")
