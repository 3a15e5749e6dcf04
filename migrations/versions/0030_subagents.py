"""sub-agents

Revision: 0030
After: 0029
"""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    kind = sa.Column("kind", sa.String(20), nullable=False, server_default="session", comment="session or subagent.")
    op.add_column("sessions", kind)
    child = sa.Column("child_id", sa.String(36), comment="The sub-agent that carries it out; null: a client does.")
    op.add_column("client_calls", child)
    op.create_index(
        "ix_sessions_parent_id",
        "sessions",
        ["parent_id"],
        sqlite_where=sa.text("parent_id IS NOT NULL"),
        postgresql_where=sa.text("parent_id IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index("ix_sessions_parent_id", "sessions")
    op.drop_column("client_calls", "child_id")
    op.drop_column("sessions", "kind")
