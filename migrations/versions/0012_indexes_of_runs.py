"""indexes for what a run reads at its start

Revision: 0012
After: 0011
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_messages_role", "messages", ["session_id", "role", "model", "seq"])
    op.create_index(
        "ix_message_parts_open",
        "message_parts",
        ["session_id", "message_id", "index"],
        sqlite_where=sa.text("closed IS 0"),
        postgresql_where=sa.text("closed IS false"),
    )
    op.create_index(
        "ix_message_parts_open_call",
        "message_parts",
        ["session_id"],
        sqlite_where=sa.text("status IN ('pending', 'running')"),
        postgresql_where=sa.text("status IN ('pending', 'running')"),
    )


def downgrade() -> None:
    op.drop_index("ix_message_parts_open_call", "message_parts")
    op.drop_index("ix_message_parts_open", "message_parts")
    op.drop_index("ix_messages_role", "messages")
