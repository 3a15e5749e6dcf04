"""calls that wait for approval

Revision: 0007
After: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "approvals",
        sa.Column("session_id", sa.String(length=36), nullable=False),
        sa.Column("call_id", sa.String(length=36), nullable=False),
        sa.Column("message_id", sa.String(length=36), nullable=False, comment="The message that made the call."),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("decision", sa.String(length=20), comment="Null while the call waits."),
        sa.Column("decided_by", sa.String(length=20)),
        sa.Column("reason", sa.Text(), comment="Shown to the model with a denial."),
        sa.Column("requested_at", sa.BigInteger(), nullable=False),
        sa.Column("decided_at", sa.BigInteger()),
        sa.ForeignKeyConstraint(
            ["session_id"], ["sessions.id"], name=op.f("fk_approvals_sessions"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("session_id", "call_id", name=op.f("pk_approvals")),
    )


def downgrade() -> None:
    op.drop_table("approvals")
