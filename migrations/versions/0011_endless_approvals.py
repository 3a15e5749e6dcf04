"""approvals that wait without a timeout

Revision: 0011
After: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("approvals") as batch:
        batch.alter_column(
            "expires_at", existing_type=sa.BigInteger(), nullable=True, comment="Null: waits without a timeout."
        )


def downgrade() -> None:
    # A time in the past, so that pending calls are denied: the older version does not support endless waits.
    op.execute("UPDATE approvals SET expires_at = requested_at WHERE expires_at IS NULL")
    with op.batch_alter_table("approvals") as batch:
        batch.alter_column("expires_at", existing_type=sa.BigInteger(), nullable=False)
