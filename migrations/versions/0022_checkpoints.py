"""checkpoints of workspaces

Revision: 0022
After: 0021
"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("session_id", sa.String(36), sa.ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("run", sa.Integer(), nullable=False, comment="The session's first run is 1."),
        sa.Column("reason", sa.String(20), nullable=False, comment="run_started, run_ended or before_restore."),
        sa.Column("message_id", sa.String(36), comment="The last message of the history then."),
        sa.Column("files", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("commit_id", sa.String(64), comment="In the session's repository; null: the workspace was empty."),
        sa.Column("tree_id", sa.String(64), nullable=False, comment="The tree of its files."),
        comment="Checkpoints of workspaces, whose content is in a git repository per session.",
    )


def downgrade() -> None:
    op.drop_table("checkpoints")
