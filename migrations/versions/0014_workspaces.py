"""where the workspaces are, and their snapshots

Revision: 0014
After: 0013
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "workspaces",
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column(
            "machine",
            sa.String(length=64),
            nullable=False,
            comment="The machine that has the workspace; empty: none.",
        ),
        sa.Column(
            "tenure",
            sa.Integer(),
            nullable=False,
            comment="Raised by each holder; fences off snapshots of earlier ones.",
        ),
        sa.Column(
            "snapshot_id",
            sa.String(length=64),
            nullable=True,
            comment="The newest snapshot; null: the workspace was empty.",
        ),
        sa.Column(
            "as_of",
            sa.BigInteger(),
            nullable=False,
            comment="When the workspace was as in the snapshot.",
        ),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_workspaces_sessions"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", name=op.f("pk_workspaces")),
        comment="Where the workspaces are, if they are stored for other machines.",
    )


def downgrade() -> None:
    op.drop_table("workspaces")
