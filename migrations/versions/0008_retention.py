"""when a raw output was removed

Revision: 0008
After: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    comment = "When its raw output was removed."
    op.add_column("message_parts", sa.Column("output_swept_at", sa.BigInteger(), comment=comment))
    op.create_index(
        "ix_message_parts_output",
        "message_parts",
        ["session_id", "message_id"],
        sqlite_where=sa.text("output_ref IS NOT NULL AND output_swept_at IS NULL"),
        postgresql_where=sa.text("output_ref IS NOT NULL AND output_swept_at IS NULL"),
    )


def downgrade() -> None:
    op.drop_index("ix_message_parts_output", "message_parts")
    op.drop_column("message_parts", "output_swept_at")
