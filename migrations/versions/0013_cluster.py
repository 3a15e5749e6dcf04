"""which node of a cluster owns a session, and what its readers elsewhere need

Revision: 0013
After: 0012
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    comment = "The node of a cluster that owns it; null: none, or a server without one."
    op.add_column("sessions", sa.Column("owner", sa.String(36), comment=comment))
    comment = "Changes by others than its owner."
    op.add_column("sessions", sa.Column("nudges", sa.Integer(), nullable=False, server_default="0", comment=comment))
    comment = "The operation that keeps new owners out, such as a deletion."
    op.add_column("sessions", sa.Column("barred_by", sa.String(36), comment=comment))
    op.add_column("sessions", sa.Column("barred_at", sa.BigInteger()))
    op.create_table(
        "deletions",
        sa.Column("session_id", sa.String(36), primary_key=True),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("deleted_at", sa.BigInteger(), nullable=False),
        comment="The last events of sessions that were just deleted, for readers on other nodes of a cluster.",
    )
    op.create_index("ix_deletions_deleted_at", "deletions", ["deleted_at"])


def downgrade() -> None:
    op.drop_index("ix_deletions_deleted_at", "deletions")
    op.drop_table("deletions")
    op.drop_column("sessions", "barred_at")
    op.drop_column("sessions", "barred_by")
    op.drop_column("sessions", "nudges")
    op.drop_column("sessions", "owner")
